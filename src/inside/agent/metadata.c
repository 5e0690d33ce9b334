#include "inside/agent/metadata.h"

#include <errno.h>
#include <linux/limits.h>
#include <sys/xattr.h>

#include "lib/base/utf8.h"

#define PREFIX "user.e2b."
#define HEADER_PREFIX "x-metadata-"

enum {
    PREFIX_LEN = sizeof(PREFIX) - 1,
    LIST_BYTES = XATTR_LIST_MAX,
    VALUE_BYTES = 64 * 1024, /* XATTR_SIZE_MAX */
};

static int text_check(const char *what, struct str text, struct err *err)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.at[i] < 0x20 || text.at[i] > 0x7e) {
            return err_set(err, EINVAL,
                           "invalid metadata: %s has a byte outside printable ASCII at %zu", what,
                           i);
        }
    }
    return 0;
}

static void piece_append(struct metadata *out, struct str piece)
{
    if (piece.len) {
        memcpy(out->bytes + out->len, piece.at, piece.len);
        out->len += piece.len;
    }
}

int metadata_of_headers(const struct http_request *req, struct metadata *out, struct err *err)
{
    size_t total = 0, pairs = 0;

    out->len = 0;
    for (size_t i = 0; i < req->headers_n; i++) {
        struct str key = req->headers[i].name, value = req->headers[i].value;
        if (!str_starts(key, STR(HEADER_PREFIX)) || key.len == sizeof(HEADER_PREFIX) - 1) {
            continue;
        }
        key = str_skip(key, sizeof(HEADER_PREFIX) - 1);
        if (key.len > METADATA_KEY_MAX) {
            return err_set(err, EINVAL, "invalid metadata: a key is over %d bytes",
                           METADATA_KEY_MAX);
        }
        if (text_check("a key", key, err) < 0 || text_check("a value", value, err) < 0) {
            return -EINVAL;
        }
        total += PREFIX_LEN + key.len + value.len;
        if (total > METADATA_BYTES_MAX || ++pairs > METADATA_PAIRS_MAX) {
            return err_set(err, EINVAL, "invalid metadata: it is over %d bytes in all",
                           METADATA_BYTES_MAX);
        }
        piece_append(out, STR(PREFIX));
        piece_append(out, key); /* in lower case, as all names of headers are */
        piece_append(out, STR("\0"));
        piece_append(out, value);
        piece_append(out, STR("\0"));
    }
    return 0;
}

static bool unsupported(int error)
{
    return error == ENOTSUP || error == ENOSYS;
}

static int old_remove(int fd)
{
    char list[LIST_BYTES];
    ssize_t len = flistxattr(fd, list, sizeof(list));

    if (len < 0) {
        return -errno;
    }
    for (const char *name = list; name < list + len; name += strlen(name) + 1) {
        if (strncmp(name, PREFIX, PREFIX_LEN) == 0 && fremovexattr(fd, name) < 0 &&
            errno != ENODATA) {
            return -errno;
        }
    }
    return 0;
}

int metadata_write(int fd, const struct metadata *metadata)
{
    int r = old_remove(fd);

    for (size_t at = 0; r == 0 && at < metadata->len;) {
        const char *name = metadata->bytes + at;
        const char *value = name + strlen(name) + 1;
        if (fsetxattr(fd, name, value, strlen(value), 0) < 0) {
            r = -errno;
        }
        at += strlen(name) + 1 + strlen(value) + 1;
    }
    return unsupported(-r) ? 0 : r;
}

static int pair_read(struct arena *arena, const char *path, const char *name,
                     Filesystem__EntryInfo__MetadataEntry **out)
{
    char value[VALUE_BYTES];
    ssize_t len = getxattr(path, name, value, sizeof(value));
    struct str key = str_of(name + PREFIX_LEN), text = {value, len > 0 ? (size_t)len : 0};

    if (len < 0 || !utf8_valid(key) || !utf8_valid(text) || memchr(value, '\0', text.len)) {
        return 0;
    }
    Filesystem__EntryInfo__MetadataEntry *pair =
        arena_new(arena, Filesystem__EntryInfo__MetadataEntry);
    if (!pair) {
        return -ENOBUFS;
    }
    filesystem__entry_info__metadata_entry__init(pair);
    pair->key = arena_copy(arena, key);
    pair->value = arena_copy(arena, text);
    *out = pair;
    return pair->key && pair->value ? 1 : -ENOBUFS;
}

static size_t names_count(const char *list, ssize_t len)
{
    size_t n = 0;

    for (const char *name = list; name < list + len; name += strlen(name) + 1) {
        n += strncmp(name, PREFIX, PREFIX_LEN) == 0;
    }
    return n;
}

int metadata_read(struct arena *arena, const char *path, Filesystem__EntryInfo *entry)
{
    char list[LIST_BYTES];
    ssize_t len = listxattr(path, list, sizeof(list));
    size_t n = len > 0 ? names_count(list, len) : 0;

    if (n == 0) {
        return 0;
    }
    entry->metadata = arena_alloc(arena, n * sizeof(void *));
    if (!entry->metadata) {
        return -ENOBUFS;
    }
    for (const char *name = list; name < list + len; name += strlen(name) + 1) {
        if (strncmp(name, PREFIX, PREFIX_LEN) == 0) {
            int r = pair_read(arena, path, name, &entry->metadata[entry->n_metadata]);
            if (r < 0) {
                return r;
            }
            entry->n_metadata += (size_t)r;
        }
    }
    return 0;
}
