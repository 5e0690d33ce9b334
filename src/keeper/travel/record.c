#include "keeper/travel/record.h"

#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "wire/travel.h"

enum {
    ENTRY_FIXED_BYTES = 40,
    ATTRIBUTE_FIXED_BYTES = 6,
    LAYER_FIXED_BYTES = SHA256_HEX_LEN,
    STAMP_FIXED_BYTES = 12,
    LINK_FIXED_BYTES = 2,
    PERMISSIONS = 07777,
    NS_PER_S = 1000 * 1000 * 1000,
};
static const uint64_t offset_max = INT64_MAX;

/* ---- numbers ---- */

static uint16_t get16(const char *at)
{
    uint16_t value;

    memcpy(&value, at, sizeof(value));
    return le16toh(value);
}

static uint32_t get32(const char *at)
{
    uint32_t value;

    memcpy(&value, at, sizeof(value));
    return le32toh(value);
}

static uint64_t get64(const char *at)
{
    uint64_t value;

    memcpy(&value, at, sizeof(value));
    return le64toh(value);
}

static int put16(struct buf *out, size_t value)
{
    const uint16_t bytes = htole16((uint16_t)value);

    return value > UINT16_MAX ? -ENOBUFS : buf_append(out, &bytes, sizeof(bytes));
}

static int put32(struct buf *out, uint32_t value)
{
    const uint32_t bytes = htole32(value);

    return buf_append(out, &bytes, sizeof(bytes));
}

static int put64(struct buf *out, uint64_t value)
{
    const uint64_t bytes = htole64(value);

    return buf_append(out, &bytes, sizeof(bytes));
}

static int put_text(struct buf *out, struct str text)
{
    return buf_append(out, text.at, text.len);
}

/* ---- parts of a record ---- */

static int bad(struct err *err, const char *what)
{
    return err_set(err, EBADMSG, "the file is damaged: %s", what);
}

static struct str part_of(struct str bytes, size_t at, size_t len)
{
    return (struct str){bytes.at + at, len};
}

/* Relative, of names alone: no empty part, no "." and no "..". */
static bool path_ok(struct str path)
{
    struct str rest = path, part;

    if (path.len == 0 || path.len > RECORD_PATH_BYTES_MAX || path.at[0] == '/' ||
        path.at[path.len - 1] == '/' || memchr(path.at, '\0', path.len)) {
        return false;
    }
    while (str_split(&rest, '/', &part)) {
        if (part.len == 0 || part.len > RECORD_NAME_BYTES_MAX || str_eq(part, STR(".")) ||
            str_eq(part, STR(".."))) {
            return false;
        }
    }
    return true;
}

/* The root of the disk is ".". */
static bool entry_path_ok(struct str path)
{
    return str_eq(path, STR(".")) || path_ok(path);
}

static bool target_ok(const struct record *entry)
{
    struct str target = entry->target;

    if (!S_ISLNK(entry->mode)) {
        return target.len == 0;
    }
    return target.len > 0 && target.len <= RECORD_PATH_BYTES_MAX &&
           !memchr(target.at, '\0', target.len);
}

static bool type_ok(uint32_t mode)
{
    if (mode & ~(uint32_t)(S_IFMT | PERMISSIONS)) {
        return false;
    }
    /* A character device stands for overlayfs's mark of a removed name: its number is 0, 0. */
    return S_ISREG(mode) || S_ISDIR(mode) || S_ISLNK(mode) || S_ISFIFO(mode) || S_ISSOCK(mode) ||
           S_ISCHR(mode);
}

bool record_attribute_travels(const char *name)
{
    static const char *const whole[] = {
        "security.capability",    "system.posix_acl_access",  "system.posix_acl_default",
        "trusted.overlay.opaque", "trusted.overlay.redirect", "trusted.overlay.protattr",
    };

    for (size_t i = 0; i < countof(whole); i++) {
        if (strcmp(name, whole[i]) == 0) {
            return true;
        }
    }
    return strncmp(name, "user.", 5) == 0 && name[5];
}

bool record_attribute(struct str *rest, struct record_attribute *out)
{
    if (rest->len < ATTRIBUTE_FIXED_BYTES) {
        return false;
    }
    const size_t name_len = get16(rest->at), value_len = get32(rest->at + 2);
    const size_t room = rest->len - ATTRIBUTE_FIXED_BYTES;
    if (name_len == 0 || name_len > RECORD_ATTRIBUTE_NAME_MAX || name_len > room ||
        value_len > room - name_len || memchr(rest->at + ATTRIBUTE_FIXED_BYTES, '\0', name_len)) {
        return false;
    }
    memcpy(out->name, rest->at + ATTRIBUTE_FIXED_BYTES, name_len);
    out->name[name_len] = '\0';
    out->value = part_of(*rest, ATTRIBUTE_FIXED_BYTES + name_len, value_len);
    *rest = str_skip(*rest, ATTRIBUTE_FIXED_BYTES + name_len + value_len);
    return true;
}

static bool attributes_ok(const struct record *entry)
{
    struct str rest = entry->attributes;
    struct record_attribute one;

    if (entry->attributes_n > RECORD_ATTRIBUTES_MAX) {
        return false;
    }
    for (uint32_t i = 0; i < entry->attributes_n; i++) {
        if (!record_attribute(&rest, &one) || !record_attribute_travels(one.name)) {
            return false;
        }
    }
    return rest.len == 0;
}

/* ---- reading ---- */

static int entry_read(struct str body, struct record *out, struct err *err)
{
    if (body.len < ENTRY_FIXED_BYTES) {
        return bad(err, "an entry is too short");
    }
    out->mode = get32(body.at);
    out->uid = get32(body.at + 4);
    out->gid = get32(body.at + 8);
    out->mtime_ns = get32(body.at + 12);
    out->mtime_s = (int64_t)get64(body.at + 16);
    out->size = get64(body.at + 24);
    const size_t path_len = get16(body.at + 32), target_len = get16(body.at + 34);
    out->attributes_n = get16(body.at + 36);
    if (get16(body.at + 38) != 0 || path_len + target_len > body.len - ENTRY_FIXED_BYTES) {
        return bad(err, "an entry has wrong lengths");
    }
    out->path = part_of(body, ENTRY_FIXED_BYTES, path_len);
    out->target = part_of(body, ENTRY_FIXED_BYTES + path_len, target_len);
    out->attributes = str_skip(body, ENTRY_FIXED_BYTES + path_len + target_len);
    if (!type_ok(out->mode) || !entry_path_ok(out->path) || !target_ok(out)) {
        return bad(err, "an entry has a name or a type that no file has");
    }
    if (str_eq(out->path, STR(".")) && !S_ISDIR(out->mode)) {
        return bad(err, "its root is not a directory");
    }
    if (out->uid >= KEEPER_UID_RANGE || out->gid >= KEEPER_UID_RANGE || out->mtime_ns >= NS_PER_S ||
        (!S_ISREG(out->mode) && out->size) || out->size > offset_max) {
        return bad(err, "an entry has an owner, a time or a size that no file has");
    }
    return attributes_ok(out) ? 0 : bad(err, "an entry has an attribute that does not travel");
}

static int layer_read(struct str body, struct record *out, struct err *err)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyz0123456789-";
    const size_t name_len = body.len < LAYER_FIXED_BYTES ? 0 : body.len - LAYER_FIXED_BYTES;

    if (name_len == 0 || name_len >= KEEPER_LAYER_BYTES) {
        return bad(err, "the name of a layer is too long");
    }
    memcpy(out->layer.digest, body.at, SHA256_HEX_LEN);
    out->layer.digest[SHA256_HEX_LEN] = '\0';
    out->layer.name = str_skip(body, LAYER_FIXED_BYTES);
    for (size_t i = 0; i < name_len; i++) {
        if (!out->layer.name.at[i] || !strchr(allowed, out->layer.name.at[i])) {
            return bad(err, "the name of a layer has a wrong character");
        }
    }
    if (out->layer.name.at[0] == '-' ||
        strspn(out->layer.digest, "0123456789abcdef") != SHA256_HEX_LEN) {
        return bad(err, "a layer has no name or no digest");
    }
    return 0;
}

static int link_read(struct str body, struct record *out, struct err *err)
{
    const size_t path_len = body.len < LINK_FIXED_BYTES ? 0 : get16(body.at);

    if (path_len == 0 || path_len > body.len - LINK_FIXED_BYTES) {
        return bad(err, "a link has wrong lengths");
    }
    out->path = part_of(body, LINK_FIXED_BYTES, path_len);
    out->target = str_skip(body, LINK_FIXED_BYTES + path_len);
    return path_ok(out->path) && path_ok(out->target) ? 0 : bad(err, "a link has no valid name");
}

static int stamp_read(struct str body, struct record *out, struct err *err)
{
    if (body.len < STAMP_FIXED_BYTES) {
        return bad(err, "the time of a directory is too short");
    }
    out->mtime_s = (int64_t)get64(body.at);
    out->mtime_ns = get32(body.at + 8);
    out->path = str_skip(body, STAMP_FIXED_BYTES);
    return entry_path_ok(out->path) && out->mtime_ns < NS_PER_S
               ? 0
               : bad(err, "the time of a directory has no valid name");
}

static int data_read(struct str body, struct record *out, struct err *err)
{
    if (body.len <= sizeof(uint64_t)) {
        return bad(err, "a piece of a file is empty");
    }
    out->offset = get64(body.at);
    out->bytes = str_skip(body, sizeof(uint64_t));
    return out->offset <= offset_max ? 0 : bad(err, "a piece of a file lies too far behind");
}

static int end_read(struct str body, struct record *out, struct err *err)
{
    if (body.len != 2 * sizeof(uint64_t)) {
        return bad(err, "its end has a wrong length");
    }
    out->entries = get64(body.at);
    out->size = get64(body.at + 8);
    return 0;
}

static int bytes_read(struct str body, size_t max, struct record *out, struct err *err)
{
    out->bytes = body;
    return body.len <= max && !(body.len && memchr(body.at, '\0', body.len))
               ? 0
               : bad(err, "its description is too long, or has a zero byte");
}

static int body_read(struct str body, struct record *out, struct err *err)
{
    switch (out->kind) {
    case RECORD_ABOUT:
        return bytes_read(body, RECORD_ABOUT_BYTES_MAX, out, err);
    case RECORD_META:
        return bytes_read(body, TRAVEL_META_BYTES_MAX, out, err);
    case RECORD_LAYER:
        return layer_read(body, out, err);
    case RECORD_PART:
        out->part = body.len == 1 ? (enum record_part)body.at[0] : RECORD_PART_NONE;
        return out->part == RECORD_PART_MEMORY || out->part == RECORD_PART_DISK
                   ? 0
                   : bad(err, "a part is neither memory nor disk");
    case RECORD_ENTRY:
        return entry_read(body, out, err);
    case RECORD_DATA:
        return data_read(body, out, err);
    case RECORD_LINK:
        return link_read(body, out, err);
    case RECORD_STAMP:
        return stamp_read(body, out, err);
    case RECORD_END:
        return end_read(body, out, err);
    default:
        return bad(err, "a record is of no known kind");
    }
}

ssize_t record_read(struct str bytes, struct record *out, struct err *err)
{
    if (bytes.len < RECORD_HEAD_BYTES) {
        return 0;
    }
    const uint32_t kind = get32(bytes.at), len = get32(bytes.at + 4);
    if (kind < RECORD_ABOUT || kind > RECORD_END || len > RECORD_BODY_BYTES_MAX) {
        return bad(err, "a record is of no known kind, or too long");
    }
    if (bytes.len - RECORD_HEAD_BYTES < len) {
        return 0;
    }
    *out = (struct record){.kind = (enum record_kind)kind};
    int r = body_read(part_of(bytes, RECORD_HEAD_BYTES, len), out, err);
    return r < 0 ? r : (ssize_t)(RECORD_HEAD_BYTES + len);
}

/* ---- the order ---- */

/* Images are plain files of root in one directory. */
static bool image_ok(const struct record *record)
{
    return record->kind == RECORD_ENTRY && S_ISREG(record->mode) && record->uid == 0 &&
           record->gid == 0 && record->attributes_n == 0 && record->path.at[0] != '.' &&
           !memchr(record->path.at, '/', record->path.len);
}

static int entry_follow(struct records *records, const struct record *record, struct err *err)
{
    if (records->part == RECORD_PART_NONE) {
        return bad(err, "a file belongs to no part");
    }
    if (records->part == RECORD_PART_MEMORY && !image_ok(record)) {
        return bad(err, "its memory has something else than plain files");
    }
    if (record->kind != RECORD_STAMP && ++records->entries > RECORD_ENTRIES_MAX) {
        return err_set(err, EFBIG, "the file has more than %" PRIu64 " entries",
                       RECORD_ENTRIES_MAX);
    }
    records->takes_data = record->kind == RECORD_ENTRY && S_ISREG(record->mode);
    records->file_size = record->size;
    records->file_at = 0;
    return 0;
}

static int data_follow(struct records *records, const struct record *record, struct err *err)
{
    const uint64_t len = record->bytes.len;

    if (!records->takes_data || record->offset < records->file_at ||
        record->offset > records->file_size || len > records->file_size - record->offset) {
        return bad(err, "a piece belongs to no file, or lies outside of it");
    }
    if (len > records->bytes_max - records->bytes) {
        return err_set(err, EFBIG, "the file holds more than the %" PRIu64 " bytes allowed here",
                       records->bytes_max);
    }
    records->bytes += len;
    records->file_at = record->offset + len;
    return 0;
}

static int part_follow(struct records *records, const struct record *record, struct err *err)
{
    if (records->last < RECORD_META || record->part <= records->part) {
        return bad(err, "its parts come in a wrong order");
    }
    records->part = record->part;
    records->takes_data = false;
    return 0;
}

static int head_follow(struct records *records, const struct record *record, struct err *err)
{
    const enum record_kind before = record->kind == RECORD_ABOUT ? 0 : RECORD_ABOUT;

    if (record->kind != RECORD_LAYER) {
        return records->last == before ? 0 : bad(err, "its description is not at its beginning");
    }
    if (records->last != RECORD_META && records->last != RECORD_LAYER) {
        return bad(err, "a layer is not at its place");
    }
    return ++records->layers_n <= KEEPER_LAYERS_MAX ? 0 : bad(err, "it has too many layers");
}

int records_follow(struct records *records, const struct record *record, struct err *err)
{
    int r = 0;

    if (records->last == RECORD_END) {
        return bad(err, "something follows its end");
    }
    switch ((int)record->kind) {
    case RECORD_ABOUT:
    case RECORD_META:
    case RECORD_LAYER:
        r = head_follow(records, record, err);
        break;
    case RECORD_PART:
        r = part_follow(records, record, err);
        break;
    case RECORD_DATA:
        r = data_follow(records, record, err);
        break;
    case RECORD_END:
        r = records->part == RECORD_PART_DISK && record->entries == records->entries &&
                    record->size == records->bytes
                ? 0
                : bad(err, "its end does not count what came before");
        break;
    default:
        r = entry_follow(records, record, err);
    }
    records->last = record->kind;
    return r;
}

/* ---- writing ---- */

/* A record that does not fit leaves its buffer as it was. */
static int record_put(struct buf *out, enum record_kind kind, struct buf *body)
{
    const size_t before = buf_len(out);
    int r = put32(out, kind);

    r = r < 0 ? r : put32(out, (uint32_t)buf_len(body));
    r = r < 0 ? r : put_text(out, buf_str(body));
    if (r < 0) {
        out->end = out->start + before;
    }
    return r;
}

int record_put_bytes(struct buf *out, enum record_kind kind, struct str bytes)
{
    scoped_buf(body, RECORD_BODY_BYTES_MAX);
    int r = put_text(&body, bytes);

    return r < 0 ? r : record_put(out, kind, &body);
}

int record_put_layer(struct buf *out, const char *name, const char *digest)
{
    scoped_buf(body, RECORD_BODY_BYTES_MAX);
    int r = put_text(&body, str_of(digest));

    r = r < 0 ? r : put_text(&body, str_of(name));
    return r < 0 ? r : record_put(out, RECORD_LAYER, &body);
}

int record_put_part(struct buf *out, enum record_part part)
{
    const char byte = (char)part;

    return record_put_bytes(out, RECORD_PART, (struct str){&byte, 1});
}

int record_put_entry(struct buf *out, const struct record *entry)
{
    scoped_buf(body, RECORD_BODY_BYTES_MAX);
    int r = put32(&body, entry->mode);

    r = r < 0 ? r : put32(&body, entry->uid);
    r = r < 0 ? r : put32(&body, entry->gid);
    r = r < 0 ? r : put32(&body, entry->mtime_ns);
    r = r < 0 ? r : put64(&body, (uint64_t)entry->mtime_s);
    r = r < 0 ? r : put64(&body, entry->size);
    r = r < 0 ? r : put16(&body, entry->path.len);
    r = r < 0 ? r : put16(&body, entry->target.len);
    r = r < 0 ? r : put16(&body, entry->attributes_n);
    r = r < 0 ? r : put16(&body, 0);
    r = r < 0 ? r : put_text(&body, entry->path);
    r = r < 0 ? r : put_text(&body, entry->target);
    r = r < 0 ? r : put_text(&body, entry->attributes);
    return r < 0 ? r : record_put(out, RECORD_ENTRY, &body);
}

int record_put_attribute(struct buf *out, const char *name, struct str value)
{
    int r = put16(out, strlen(name));

    r = r < 0 ? r : put32(out, (uint32_t)value.len);
    r = r < 0 ? r : put_text(out, str_of(name));
    return r < 0 ? r : put_text(out, value);
}

int record_put_data(struct buf *out, uint64_t offset, struct str bytes)
{
    scoped_buf(body, RECORD_BODY_BYTES_MAX);
    int r = put64(&body, offset);

    r = r < 0 ? r : put_text(&body, bytes);
    return r < 0 ? r : record_put(out, RECORD_DATA, &body);
}

int record_put_link(struct buf *out, struct str path, struct str target)
{
    scoped_buf(body, RECORD_BODY_BYTES_MAX);
    int r = put16(&body, path.len);

    r = r < 0 ? r : put_text(&body, path);
    r = r < 0 ? r : put_text(&body, target);
    return r < 0 ? r : record_put(out, RECORD_LINK, &body);
}

int record_put_stamp(struct buf *out, struct str path, int64_t s, uint32_t ns)
{
    scoped_buf(body, RECORD_BODY_BYTES_MAX);
    int r = put64(&body, (uint64_t)s);

    r = r < 0 ? r : put32(&body, ns);
    r = r < 0 ? r : put_text(&body, path);
    return r < 0 ? r : record_put(out, RECORD_STAMP, &body);
}

int record_put_end(struct buf *out, uint64_t entries, uint64_t bytes)
{
    scoped_buf(body, RECORD_BODY_BYTES_MAX);
    int r = put64(&body, entries);

    r = r < 0 ? r : put64(&body, bytes);
    return r < 0 ? r : record_put(out, RECORD_END, &body);
}
