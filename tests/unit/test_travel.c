/* A save as a sealed file: records, the seal, trees of files, and everything that a file must not
 * be. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "check.h"
#include "keeper/travel/lower_links.h"
#include "keeper/travel/record.h"
#include "keeper/travel/seal.h"
#include "keeper/travel/send.h"
#include "keeper/travel/take.h"
#include "lib/base/fd.h"
#include "tmpdir.h"
#include "wire/export_key.h"

enum { FILE_BYTES_MAX = 16 * 1024 * 1024, PLAIN_BYTES_MAX = 32 * 1024 * 1024 };

#define KEY "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
#define OTHER_KEY "ff0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
#define DIGEST "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

static struct err err;

/* ---- records ---- */

static struct record entry_of(const char *path, uint32_t mode)
{
    return (struct record){.kind = RECORD_ENTRY, .path = str_of(path), .mode = mode};
}

static ssize_t again(struct buf *bytes, struct record *out)
{
    return record_read(buf_str(bytes), out, &err);
}

static bool entry_passes(const struct record *entry)
{
    scoped_buf(bytes, RECORD_BYTES_MAX);
    struct record back;

    return record_put_entry(&bytes, entry) == 0 && again(&bytes, &back) > 0;
}

static void a_record_is_read_as_it_was_written(void)
{
    scoped_buf(bytes, RECORD_BYTES_MAX);
    scoped_buf(attributes, RECORD_BODY_BYTES_MAX);
    struct record entry = entry_of("usr/bin/tool", S_IFREG | 04755), back;
    struct record_attribute one;

    CHECK_INT(record_put_attribute(&attributes, "user.note", STR("a\0b")), 0);
    CHECK_INT(record_put_attribute(&attributes, "trusted.overlay.opaque", STR("y")), 0);
    entry.uid = 1000;
    entry.gid = 65535;
    entry.mtime_s = -5;
    entry.mtime_ns = 999999999;
    entry.size = UINT64_C(1) << 40;
    entry.attributes_n = 2;
    entry.attributes = buf_str(&attributes);
    CHECK_INT(record_put_entry(&bytes, &entry), 0);
    CHECK_INT(again(&bytes, &back), buf_len(&bytes));
    CHECK(str_eq(back.path, entry.path) && back.mode == entry.mode && back.uid == 1000);
    CHECK(back.gid == 65535 && back.mtime_s == -5 && back.mtime_ns == 999999999);
    CHECK(back.size == entry.size && back.attributes_n == 2);
    struct str rest = back.attributes;
    CHECK(record_attribute(&rest, &one) && strcmp(one.name, "user.note") == 0);
    CHECK(str_eq(one.value, STR("a\0b")));
    CHECK(record_attribute(&rest, &one) && str_eq(one.value, STR("y")));
    CHECK(!record_attribute(&rest, &one));
    for (size_t n = 0; n < buf_len(&bytes); n++) { /* one that is not all there yet */
        CHECK_INT(record_read((struct str){buf_at(&bytes), n}, &back, &err), 0);
    }
}

static void a_path_stays_below_its_root(void)
{
    static const char *const wrong[] = {"",     "/",     "/etc", "..",  "a/..", "a/../b",
                                        "a//b", "a/./b", "a/",   "./a", "../a"};
    char name[RECORD_NAME_BYTES_MAX + 2];

    for (size_t i = 0; i < countof(wrong); i++) {
        struct record entry = entry_of(wrong[i], S_IFREG | 0644);
        CHECK_THAT(!entry_passes(&entry), "'%s' passes", wrong[i]);
    }
    memset(name, 'n', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    struct record entry = entry_of(name, S_IFREG | 0644);
    CHECK(!entry_passes(&entry));
    entry.path = (struct str){"a\0b", 3};
    CHECK(!entry_passes(&entry));
    entry.path = STR(".");
    CHECK(!entry_passes(&entry)); /* the root is a directory */
    entry.mode = S_IFDIR | 0755;
    CHECK(entry_passes(&entry));
    entry = entry_of("a..b/...", S_IFREG | 0644);
    CHECK(entry_passes(&entry));
}

static void an_entry_has_the_type_owner_and_size_of_a_file(void)
{
    struct record entry = entry_of("x", S_IFBLK | 0600);

    CHECK(!entry_passes(&entry));
    entry.mode = 0644; /* no type */
    CHECK(!entry_passes(&entry));
    entry.mode = S_IFREG | 0200000 | 0644;
    CHECK(!entry_passes(&entry));
    entry.mode = S_IFLNK | 0777; /* without a target */
    CHECK(!entry_passes(&entry));
    entry.target = STR("/etc/shadow"); /* a link may say anything: nobody follows it */
    CHECK(entry_passes(&entry));
    entry.mode = S_IFREG | 0644;
    CHECK(!entry_passes(&entry));
    entry = entry_of("x", S_IFREG | 0644);
    entry.uid = KEEPER_UID_RANGE;
    CHECK(!entry_passes(&entry));
    entry = entry_of("x", S_IFREG | 0644);
    entry.size = UINT64_C(1) << 63;
    CHECK(!entry_passes(&entry));
    entry = entry_of("x", S_IFIFO | 0644);
    entry.size = 1;
    CHECK(!entry_passes(&entry));
}

static bool attribute_passes(const char *name)
{
    scoped_buf(attributes, RECORD_BODY_BYTES_MAX);
    struct record entry = entry_of("x", S_IFREG | 0644);

    if (record_put_attribute(&attributes, name, STR("value")) < 0) {
        abort();
    }
    entry.attributes_n = 1;
    entry.attributes = buf_str(&attributes);
    return entry_passes(&entry);
}

/* These name files by inode numbers of the other machine: each alone breaks the disk. */
static void notes_of_overlayfs_do_not_travel(void)
{
    CHECK(!attribute_passes("trusted.overlay.origin"));
    CHECK(!attribute_passes("trusted.overlay.upper"));
    CHECK(!attribute_passes("trusted.overlay.nlink"));
    CHECK(!attribute_passes("trusted.overlay.impure"));
    CHECK(!attribute_passes("trusted.overlay.metacopy"));
    CHECK(!attribute_passes("trusted.other"));
    CHECK(!attribute_passes("security.selinux"));
    CHECK(attribute_passes("trusted.overlay.opaque"));
    CHECK(attribute_passes("trusted.overlay.redirect"));
    CHECK(attribute_passes("security.capability"));
    CHECK(attribute_passes("user.any"));
}

static int follows(struct records *records, const struct record *record)
{
    return records_follow(records, record, &err);
}

static void records_come_in_their_order(void)
{
    const struct record about = {.kind = RECORD_ABOUT}, meta = {.kind = RECORD_META},
                        layer = {.kind = RECORD_LAYER},
                        memory = {.kind = RECORD_PART, .part = RECORD_PART_MEMORY},
                        disk = {.kind = RECORD_PART, .part = RECORD_PART_DISK};
    struct record file = entry_of("pages-1.img", S_IFREG | 0644), dir = entry_of("d", S_IFDIR),
                  data = {.kind = RECORD_DATA, .bytes = STR("abc")}, end = {.kind = RECORD_END};
    struct records records = {.bytes_max = 1000};

    CHECK_INT(follows(&records, &disk), -EBADMSG);
    records = (struct records){.bytes_max = 1000};
    CHECK_INT(follows(&records, &about), 0);
    CHECK_INT(follows(&records, &meta), 0);
    CHECK_INT(follows(&records, &layer), 0);
    CHECK_INT(follows(&records, &memory), 0);
    struct records now = records;
    CHECK_INT(follows(&now, &dir), -EBADMSG); /* images are plain files */
    now = records;
    CHECK_INT(follows(&now, &data), -EBADMSG); /* of no file */
    file.size = 5;
    CHECK_INT(follows(&records, &file), 0);
    CHECK_INT(follows(&records, &data), 0);
    now = records;
    CHECK_INT(follows(&now, &data), -EBADMSG); /* the same bytes twice */
    data.offset = 3;
    now = records;
    CHECK_INT(follows(&now, &data), -EBADMSG); /* behind the file's end */
    CHECK_INT(follows(&records, &disk), 0);
    now = records;
    CHECK_INT(follows(&now, &memory), -EBADMSG);
    CHECK_INT(follows(&records, &dir), 0);
    end.entries = 2;
    end.size = 4;
    now = records;
    CHECK_INT(follows(&now, &end), -EBADMSG);
    end.size = 3;
    CHECK_INT(follows(&records, &end), 0);
    CHECK_INT(follows(&records, &dir), -EBADMSG);
}

static void a_file_holds_no_more_than_is_allowed(void)
{
    const struct record part = {.kind = RECORD_PART, .part = RECORD_PART_DISK};
    struct record file = entry_of("f", S_IFREG | 0644),
                  data = {.kind = RECORD_DATA, .bytes = STR("abcdef")};
    struct records records = {.bytes_max = 5, .last = RECORD_META};

    file.size = 100;
    CHECK_INT(follows(&records, &part), 0);
    CHECK_INT(follows(&records, &file), 0);
    CHECK_INT(follows(&records, &data), -EFBIG);
}

/* ---- the seal ---- */

static int keep(void *ctx, const void *bytes, size_t len, struct err *why)
{
    (void)why;
    return buf_append(ctx, bytes, len);
}

static void sealed_make(const char *hex, struct str plain, struct buf *file)
{
    struct seal_out *out = NULL;
    struct seal_key key;

    buf_clear(file);
    if (seal_key_of(hex, &key, &err) < 0 || seal_out_new(&key, keep, file, &out, &err) < 0 ||
        seal_out_write(out, plain, &err) < 0 || seal_out_end(out, &err) < 0) {
        abort();
    }
    seal_out_free(out);
}

static ssize_t give(void *ctx, void *at, size_t size, struct err *why)
{
    struct str *left = ctx;
    const size_t n = left->len < size ? left->len : size;

    (void)why;
    memcpy(at, left->at, n);
    *left = str_skip(*left, n);
    return (ssize_t)n;
}

static int unseal(const char *hex, struct str file, struct buf *plain)
{
    struct str left = file;
    struct seal_key key;
    int r = 1;

    if (seal_key_of(hex, &key, &err) < 0) {
        abort();
    }
    struct seal_in *in = seal_in_new(&key, give, &left);
    buf_clear(plain);
    while (r > 0) {
        r = seal_in_read(in, plain, &err);
    }
    seal_in_free(in);
    return r;
}

/* Half of it does not shrink, so that it has many chunks. */
static void plain_make(struct buf *plain, size_t size)
{
    uint32_t state = 7;

    buf_clear(plain);
    for (size_t i = 0; i < size; i++) {
        state = state * 1664525 + 1013904223;
        const char byte = i % 2 ? (char)(state >> 24) : 'a';
        if (buf_append(plain, &byte, 1) < 0) {
            abort();
        }
    }
}

static void what_was_sealed_comes_back(void)
{
    static const size_t sizes[] = {0, 1, 65536, 300 * 1024, 3 * 1024 * 1024};
    scoped_buf(plain, PLAIN_BYTES_MAX);
    scoped_buf(file, FILE_BYTES_MAX);
    scoped_buf(back, PLAIN_BYTES_MAX);

    for (size_t i = 0; i < countof(sizes); i++) {
        plain_make(&plain, sizes[i]);
        sealed_make(KEY, buf_str(&plain), &file);
        CHECK_INT(unseal(KEY, buf_str(&file), &back), 0);
        CHECK(str_eq(buf_str(&back), buf_str(&plain)));
    }
}

static void a_flipped_bit_is_found_wherever_it_is(void)
{
    scoped_buf(plain, PLAIN_BYTES_MAX);
    scoped_buf(file, FILE_BYTES_MAX);
    scoped_buf(back, PLAIN_BYTES_MAX);

    plain_make(&plain, 300 * 1024);
    sealed_make(KEY, buf_str(&plain), &file);
    const size_t n = buf_len(&file);
    for (size_t i = 0; i < n; i += i < 200 || i + 200 > n ? 1 : 997) {
        buf_at(&file)[i] ^= 1;
        int r = unseal(KEY, buf_str(&file), &back);
        CHECK_THAT(r == -EBADMSG || r == -EPROTONOSUPPORT || r == -EKEYREJECTED,
                   "a change of byte %zu of %zu gives %d", i, n, r);
        CHECK(buf_len(&back) < buf_len(&plain));
        buf_at(&file)[i] ^= 1;
    }
    CHECK_INT(unseal(KEY, buf_str(&file), &back), 0);
}

static void a_file_that_is_cut_short_is_refused(void)
{
    scoped_buf(plain, PLAIN_BYTES_MAX);
    scoped_buf(file, FILE_BYTES_MAX);
    scoped_buf(back, PLAIN_BYTES_MAX);

    plain_make(&plain, 200 * 1024);
    sealed_make(KEY, buf_str(&plain), &file);
    const size_t n = buf_len(&file);
    for (size_t i = 0; i < n; i += i < 100 || i + 100 > n ? 1 : 1009) {
        CHECK_THAT(unseal(KEY, (struct str){buf_at(&file), i}, &back) == -EBADMSG,
                   "%zu of %zu bytes pass", i, n);
    }
    CHECK_INT(buf_append(&file, "x", 1), 0);
    CHECK_INT(unseal(KEY, buf_str(&file), &back), -EBADMSG);
}

/* Where each chunk begins; returns their number. */
static size_t chunks_find(struct str file, size_t *at, size_t max)
{
    size_t n = 0, from = SEAL_HEAD_BYTES;

    while (from < file.len && n + 1 < max) {
        const unsigned char *len = (const unsigned char *)file.at + from;
        at[n++] = from;
        from += 4 + (len[0] | (size_t)len[1] << 8 | (size_t)len[2] << 16);
    }
    at[n] = from;
    return n;
}

static void chunks_of_another_place_are_refused(void)
{
    scoped_buf(plain, PLAIN_BYTES_MAX);
    scoped_buf(file, FILE_BYTES_MAX);
    scoped_buf(other, FILE_BYTES_MAX);
    scoped_buf(mixed, FILE_BYTES_MAX);
    scoped_buf(back, PLAIN_BYTES_MAX);
    size_t at[32];

    plain_make(&plain, 900 * 1024);
    sealed_make(KEY, buf_str(&plain), &file);
    sealed_make(KEY, buf_str(&plain), &other); /* the same, with another nonce */
    const size_t n = chunks_find(buf_str(&file), at, countof(at));
    CHECK(n > 4);
    const char *bytes = buf_at(&file);
    /* The second and third exchanged; both are full. */
    CHECK_INT(buf_append(&mixed, bytes, at[1]), 0);
    CHECK_INT(buf_append(&mixed, bytes + at[2], at[3] - at[2]), 0);
    CHECK_INT(buf_append(&mixed, bytes + at[1], at[2] - at[1]), 0);
    CHECK_INT(buf_append(&mixed, bytes + at[3], buf_len(&file) - at[3]), 0);
    CHECK_INT(unseal(KEY, buf_str(&mixed), &back), -EBADMSG);
    buf_clear(&mixed); /* the second twice */
    CHECK_INT(buf_append(&mixed, bytes, at[2]), 0);
    CHECK_INT(buf_append(&mixed, bytes + at[1], buf_len(&file) - at[1]), 0);
    CHECK_INT(unseal(KEY, buf_str(&mixed), &back), -EBADMSG);
    buf_clear(&mixed); /* the second left out */
    CHECK_INT(buf_append(&mixed, bytes, at[1]), 0);
    CHECK_INT(buf_append(&mixed, bytes + at[2], buf_len(&file) - at[2]), 0);
    CHECK_INT(unseal(KEY, buf_str(&mixed), &back), -EBADMSG);
    buf_clear(&mixed); /* the last of another file */
    CHECK_INT(buf_append(&mixed, bytes, at[n - 1]), 0);
    CHECK_INT(buf_append(&mixed, buf_at(&other) + at[n - 1], buf_len(&other) - at[n - 1]), 0);
    CHECK_INT(unseal(KEY, buf_str(&mixed), &back), -EBADMSG);
}

static void another_key_or_version_is_named(void)
{
    scoped_buf(file, FILE_BYTES_MAX);
    scoped_buf(back, PLAIN_BYTES_MAX);

    sealed_make(KEY, STR("words"), &file);
    CHECK_INT(unseal(OTHER_KEY, buf_str(&file), &back), -EKEYREJECTED);
    CHECK(strstr(err.msg, "another key") && strstr(err.msg, "export-key set"));
    buf_at(&file)[SEAL_MAGIC_BYTES] = 9;
    CHECK_INT(unseal(KEY, buf_str(&file), &back), -EPROTONOSUPPORT);
    CHECK(strstr(err.msg, "version 9"));
    CHECK_INT(
        unseal(KEY, STR("PK\3\4 is an archive of some kind, and longer than the head"), &back),
        -EBADMSG);
    CHECK(strstr(err.msg, "no export"));
}

/* ---- trees ---- */

static void file_new(int dir, const char *name, const char *text, mode_t mode)
{
    scoped_fd fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    if (write(fd, text, strlen(text)) != (ssize_t)strlen(text) || fchmod(fd, mode) < 0) {
        abort();
    }
}

static void tree_make(int dir)
{
    const struct timespec times[2] = {{1000, 1}, {1234567890, 123456789}};
    scoped_fd sparse = openat(dir, "sparse", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

    file_new(dir, "plain", "words\n", 04751);
    if (mkdirat(dir, "below", 0750) < 0 || pwrite(sparse, "end", 3, 8 << 20) != 3 ||
        linkat(dir, "plain", dir, "below/again", 0) < 0 || symlinkat("/etc/x", dir, "link") < 0 ||
        mknodat(dir, "fifo", S_IFIFO | 0640, 0) < 0 || mknodat(dir, "gone", S_IFCHR, 0) < 0 ||
        fchownat(dir, "plain", 1000, 1001, 0) < 0 || fchmodat(dir, "plain", 04751, 0) < 0 ||
        utimensat(dir, "plain", times, 0) < 0 || utimensat(dir, "below", times, 0) < 0 ||
        utimensat(dir, "link", times, AT_SYMLINK_NOFOLLOW) < 0) {
        abort();
    }
}

/* The tree as a file and back. */
static void tree_carry(int from, int to)
{
    scoped_buf(file, FILE_BYTES_MAX);
    scoped_buf(plain, PLAIN_BYTES_MAX);
    struct records records = {.bytes_max = UINT64_MAX, .last = RECORD_META};
    const struct record part = {.kind = RECORD_PART, .part = RECORD_PART_DISK};
    struct take take = TAKE_NONE;
    struct seal_out *out = NULL;
    struct record record;
    struct seal_key key;
    struct send send;
    ssize_t n;

    CHECK_INT(seal_key_of(KEY, &key, &err), 0);
    CHECK_INT(seal_out_new(&key, keep, &file, &out, &err), 0);
    send_init(&send, out);
    CHECK_INT(send_tree(&send, from, &err), 0);
    send_fini(&send);
    CHECK_INT(seal_out_end(out, &err), 0);
    seal_out_free(out);
    CHECK_INT(unseal(KEY, buf_str(&file), &plain), 0);
    CHECK_INT(records_follow(&records, &part, &err), 0);
    CHECK_INT(take_begin(&take, to, &err), 0);
    while ((n = record_read(buf_str(&plain), &record, &err)) > 0) {
        CHECK_INT(records_follow(&records, &record, &err), 0);
        CHECK_THAT(take_record(&take, &record, &err) == 0, "%s", err.msg);
        buf_consume(&plain, (size_t)n);
    }
    CHECK_INT(n, 0);
    CHECK_INT(take_end(&take, &err), 0);
    take_fini(&take);
}

static struct stat look(int dir, const char *name)
{
    struct stat st = {0};

    (void)fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW);
    return st;
}

static void a_tree_comes_back_as_it_was(void)
{
    static const char *const names[] = {"plain", "below", "below/again", "link",
                                        "fifo",  "gone",  "sparse"};
    scoped(tmpdir_removep) struct tmpdir dir = tmpdir_make();
    char text[16] = "", target[16] = "";

    CHECK_INT(mkdirat(dir.fd, "from", 0755), 0);
    CHECK_INT(mkdirat(dir.fd, "to", 0700), 0);
    scoped_fd from = openat(dir.fd, "from", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    scoped_fd to = openat(dir.fd, "to", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    tree_make(from);
    tree_carry(from, to);
    for (size_t i = 0; i < countof(names); i++) {
        const struct stat was = look(from, names[i]), is = look(to, names[i]);
        CHECK_THAT(is.st_mode == was.st_mode && is.st_uid == was.st_uid &&
                       is.st_gid == was.st_gid && is.st_rdev == was.st_rdev &&
                       is.st_mtim.tv_sec == was.st_mtim.tv_sec &&
                       is.st_mtim.tv_nsec == was.st_mtim.tv_nsec,
                   "%s is not as it was", names[i]);
        CHECK_INT(S_ISDIR(was.st_mode) || is.st_size == was.st_size, 1);
    }
    CHECK_INT(look(to, ".").st_mode, look(from, ".").st_mode);
    CHECK_INT(look(to, "plain").st_ino, look(to, "below/again").st_ino);
    CHECK_INT(look(to, "plain").st_nlink, 2);
    CHECK_INT(readlinkat(to, "link", target, sizeof(target) - 1), 6);
    CHECK_STR(target, "/etc/x");
    scoped_fd sparse = openat(to, "sparse", O_RDONLY | O_CLOEXEC);
    CHECK_INT(pread(sparse, text, 3, 8 << 20), 3);
    CHECK_STR(text, "end");
    CHECK(look(to, "sparse").st_blocks <= 2048); /* the hole is one again */
}

static int taken(int to, const struct record *first, const struct record *second)
{
    struct take take = TAKE_NONE;
    int r = take_begin(&take, to, &err);

    r = r < 0 ? r : take_record(&take, first, &err);
    r = r < 0 ? r : take_record(&take, second, &err);
    take_fini(&take);
    return r;
}

static void a_name_is_made_once_and_never_behind_a_link(void)
{
    scoped(tmpdir_removep) struct tmpdir dir = tmpdir_make();
    struct record link = entry_of("way", S_IFLNK | 0777);
    const struct record file = entry_of("file", S_IFREG | 0644),
                        behind = entry_of("way/file", S_IFREG | 0644),
                        nowhere = {.kind = RECORD_LINK, .path = STR("x"), .target = STR("none")};

    link.target = STR("/tmp");
    CHECK_INT(taken(dir.fd, &link, &behind), -EBADMSG);
    CHECK_INT(access("/tmp/file", F_OK), -1);
    CHECK_INT(taken(dir.fd, &file, &file), -EBADMSG);
    CHECK_INT(unlinkat(dir.fd, "file", 0), 0);
    CHECK_INT(taken(dir.fd, &file, &nowhere), -EBADMSG);
}

/* ---- handles and keys ---- */

static void an_index_entry_names_a_file_of_a_layer(void)
{
    struct lower_handle handle;

    CHECK(lower_handle_of("00fb29004d000102030405060708090a0b0c0d0e0f"
                          "0101000000000000050100000000000007000000",
                          &handle));
    CHECK_INT(handle.type, 0x4d);
    CHECK_INT(handle.bytes, 20);
    CHECK_INT(handle.data[0] | handle.data[1] << 8, 257);
    CHECK(!lower_handle_of("", &handle));
    CHECK(!lower_handle_of("00fb", &handle));
    CHECK(!lower_handle_of("#1f", &handle));
    CHECK(!lower_handle_of("00fc29004d000102030405060708090a0b0c0d0e0f0101000000000000", &handle));
}

static void a_key_is_roots_alone(void)
{
    scoped(tmpdir_removep) struct tmpdir dir = tmpdir_make();
    char hex[EXPORT_KEY_HEX_LEN + 1], same[EXPORT_KEY_HEX_LEN + 1];

    CHECK_INT(export_key_read(dir.fd, hex, &err), -ENOENT);
    CHECK_INT(export_key_read_or_make(dir.fd, hex, &err), 0);
    CHECK_INT(export_key_read(dir.fd, same, &err), 0);
    CHECK_STR(same, hex);
    CHECK_INT(look(dir.fd, EXPORT_KEY_FILE).st_mode, S_IFREG | 0600);
    CHECK_INT(export_key_write(dir.fd, KEY, &err), 0);
    CHECK_INT(export_key_read(dir.fd, same, &err), 0);
    CHECK_STR(same, KEY);
    CHECK_INT(export_key_write(dir.fd, "short", &err), -EINVAL);
    CHECK_INT(fchmodat(dir.fd, EXPORT_KEY_FILE, 0640, 0), 0);
    CHECK_INT(export_key_read(dir.fd, same, &err), -EPERM);
    CHECK_INT(fchmodat(dir.fd, EXPORT_KEY_FILE, 0600, 0), 0);
    CHECK_INT(fchownat(dir.fd, EXPORT_KEY_FILE, 1000, 0, 0), 0);
    CHECK_INT(export_key_read(dir.fd, same, &err), -EPERM);
    CHECK_INT(fchownat(dir.fd, EXPORT_KEY_FILE, 0, 0, 0), 0);
    CHECK_INT(fchmod(dir.fd, 0777), 0); /* another could have put it there */
    CHECK_INT(export_key_read(dir.fd, same, &err), -EPERM);
}

static void a_layer_has_a_name_and_a_digest(void)
{
    scoped_buf(bytes, RECORD_BYTES_MAX);
    struct record back;

    CHECK_INT(record_put_layer(&bytes, "base-0123", DIGEST), 0);
    CHECK(again(&bytes, &back) > 0);
    CHECK(str_eq(back.layer.name, STR("base-0123")));
    CHECK_STR(back.layer.digest, DIGEST);
    buf_clear(&bytes);
    CHECK_INT(record_put_layer(&bytes, "../base", DIGEST), 0);
    CHECK_INT(again(&bytes, &back), -EBADMSG);
    buf_clear(&bytes);
    CHECK_INT(record_put_layer(&bytes, "", DIGEST), 0);
    CHECK_INT(again(&bytes, &back), -EBADMSG);
}

int main(void)
{
    static const struct check_test tests[] = {
        {"a record is read as it was written", a_record_is_read_as_it_was_written},
        {"a path stays below its root", a_path_stays_below_its_root},
        {"an entry has the type, owner and size of a file",
         an_entry_has_the_type_owner_and_size_of_a_file},
        {"notes of overlayfs do not travel", notes_of_overlayfs_do_not_travel},
        {"records come in their order", records_come_in_their_order},
        {"a file holds no more than is allowed", a_file_holds_no_more_than_is_allowed},
        {"a layer has a name and a digest", a_layer_has_a_name_and_a_digest},
        {"what was sealed comes back", what_was_sealed_comes_back},
        {"a flipped bit is found wherever it is", a_flipped_bit_is_found_wherever_it_is},
        {"a file that is cut short is refused", a_file_that_is_cut_short_is_refused},
        {"chunks of another place are refused", chunks_of_another_place_are_refused},
        {"another key or version is named", another_key_or_version_is_named},
        {"a tree comes back as it was", a_tree_comes_back_as_it_was},
        {"a name is made once and never behind a link",
         a_name_is_made_once_and_never_behind_a_link},
        {"an index entry names a file of a layer", an_index_entry_names_a_file_of_a_layer},
        {"a key is root's alone", a_key_is_roots_alone},
    };

    return check_run(tests, countof(tests));
}
