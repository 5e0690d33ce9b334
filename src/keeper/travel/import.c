#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#include "keeper/checkpoint/images.h"
#include "keeper/checkpoint/manifest.h"
#include "keeper/disk/saved.h"
#include "keeper/disk/subvol.h"
#include "keeper/travel/layer.h"
#include "keeper/travel/link.h"
#include "keeper/travel/record.h"
#include "keeper/travel/seal.h"
#include "keeper/travel/take.h"
#include "keeper/travel/travel.h"
#include "lib/base/alloc.h"
#include "lib/base/fd.h"

enum { PLAIN_BYTES_MAX = 2 * (RECORD_BYTES_MAX + SEAL_PIECE_BYTES) };

struct arriving {
    struct jail_shared *shared;
    const struct keeper_travel *what;
    struct link link;
    bool eof;
    struct seal_in *in;
    struct buf plain; /* records that were not taken yet */
    struct records records;
    struct take take;
    char name[KEEPER_SAVED_BYTES]; /* of the save; "": it has not begun */
    int begun_fd, disk_fd, upper_fd, memory_fd;
    uint64_t memory_bytes; /* of all DATA up to the disk */
    char *meta;
    size_t meta_len;
};

/* ---- the bytes ---- */

static ssize_t source(void *ctx, void *at, size_t size, struct err *err)
{
    struct arriving *arriving = ctx;
    struct link *link = &arriving->link;

    while (link->n == 0 && !arriving->eof) {
        int r = link_receive(link, err);
        if (r < 0) {
            return r;
        }
        arriving->eof = link->kind == TRAVEL_EOF;
        if (!arriving->eof && link->kind != TRAVEL_BYTES) {
            return err_set(err, EPROTO, "the server sent something else than the file");
        }
    }
    const size_t n = link->n < size ? link->n : size;
    memcpy(at, link->body + link->at, n);
    link->at += n;
    link->n -= n;
    return (ssize_t)n;
}

/* ---- the head ---- */

static int about_check(const struct arriving *arriving, struct str about, struct err *err)
{
    char text[RECORD_ABOUT_BYTES_MAX + 1];
    struct utsname host;

    (void)str_copy(text, sizeof(text), about);
    if (manifest_has_memory(text)) {
        if (!arriving->shared->criu) {
            *err = arriving->shared->criu_why;
            return -err->code;
        }
        return manifest_fits(text, arriving->shared->criu, err);
    }
    (void)uname(&host);
    return manifest_machine_fits(text, host.machine, err);
}

static int layer_check(const struct arriving *arriving, const struct record *record,
                       struct err *err)
{
    char name[KEEPER_LAYER_BYTES], digest[SHA256_HEX_LEN + 1];

    (void)str_copy(name, sizeof(name), record->layer.name);
    scoped_fd fd = layer_open(arriving->shared->pool, name, err);
    int r = fd < 0 ? fd : layer_digest(fd, digest, err);
    if (r == 0 && strcmp(digest, record->layer.digest) != 0) {
        r = err_set(err, ENOTSUP,
                    "the layer %s of this machine is not the one that the sandbox is built on",
                    name);
    }
    if (r == -ENOENT) {
        err->code = ENOTSUP; /* the import is refused; nothing that it asked for is missing */
        r = -ENOTSUP;
    }
    return r;
}

static int meta_take(struct arriving *arriving, struct str bytes)
{
    arriving->meta = xcalloc(1, bytes.len + 1);
    arriving->meta_len = bytes.len;
    if (bytes.len > 0) {
        memcpy(arriving->meta, bytes.at, bytes.len);
    }
    return 0;
}

/* ---- the parts ---- */

/* The first part tells whether there is memory, and so the name. */
static int save_begin(struct arriving *arriving, const char *suffix, struct err *err)
{
    if (arriving->begun_fd >= 0) {
        return 0;
    }
    char name[sizeof(arriving->name)];
    (void)snprintf(name, sizeof(name), "%.*s%s", (int)(sizeof(name) - sizeof(KEEPER_SAVED_DISK)),
                   arriving->what->name, suffix);
    arriving->begun_fd = saved_begin(arriving->shared->pool, name, err);
    if (arriving->begun_fd < 0) {
        return arriving->begun_fd;
    }
    memcpy(arriving->name, name, sizeof(name));
    return 0;
}

static int place_make(struct arriving *arriving, const char *name, struct err *err)
{
    int r = 0;

    if (pool_on_btrfs(arriving->shared->pool)) {
        r = subvol_create(arriving->begun_fd, name);
    } else if (mkdirat(arriving->begun_fd, name, 0700) < 0) {
        r = -errno;
    }
    if (r < 0) {
        return err_code(err, -r, "make a place for the %s", name);
    }
    int fd = openat(arriving->begun_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    return fd < 0 ? err_sys(err, "open the place of the %s", name) : fd;
}

static int memory_begin(struct arriving *arriving, struct err *err)
{
    int r = save_begin(arriving, "", err);

    if (r < 0) {
        return r;
    }
    arriving->memory_fd = place_make(arriving, SAVED_MEMORY, err);
    return arriving->memory_fd < 0 ? arriving->memory_fd
                                   : take_begin(&arriving->take, arriving->memory_fd, err);
}

/* work/ stays empty: it names files by numbers of the other machine (docs/internals/travel.md). */
static int disk_begin(struct arriving *arriving, struct err *err)
{
    int r = save_begin(arriving, KEEPER_SAVED_DISK, err);

    if (r < 0) {
        return r;
    }
    arriving->memory_bytes = arriving->records.bytes;
    arriving->disk_fd = place_make(arriving, SAVED_DISK, err);
    if (arriving->disk_fd < 0) {
        return arriving->disk_fd;
    }
    if (mkdirat(arriving->disk_fd, POOL_UPPER, 0755) < 0 ||
        (pool_on_btrfs(arriving->shared->pool) &&
         mkdirat(arriving->disk_fd, POOL_WORK, 0700) < 0)) {
        return err_sys(err, "make the disk");
    }
    arriving->upper_fd =
        openat(arriving->disk_fd, POOL_UPPER, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    return arriving->upper_fd < 0 ? err_sys(err, "open the disk")
                                  : take_begin(&arriving->take, arriving->upper_fd, err);
}

static int record_take(struct arriving *arriving, const struct record *record, struct err *err)
{
    int r = records_follow(&arriving->records, record, err);

    if (r < 0) {
        return r;
    }
    switch ((int)record->kind) {
    case RECORD_ABOUT:
        return about_check(arriving, record->bytes, err);
    case RECORD_META:
        return meta_take(arriving, record->bytes);
    case RECORD_LAYER:
        return layer_check(arriving, record, err);
    case RECORD_PART:
        return record->part == RECORD_PART_MEMORY ? memory_begin(arriving, err)
                                                  : disk_begin(arriving, err);
    case RECORD_END:
        return take_end(&arriving->take, err);
    default:
        return take_record(&arriving->take, record, err);
    }
}

static int records_take(struct arriving *arriving, struct err *err)
{
    ssize_t n = 1;
    int r = 0;

    while (r == 0 && n > 0) {
        struct record record;
        n = record_read(buf_str(&arriving->plain), &record, err);
        if (n > 0) {
            r = record_take(arriving, &record, err);
            buf_consume(&arriving->plain, (size_t)n);
        }
    }
    return n < 0 ? (int)n : r;
}

static int all_take(struct arriving *arriving, struct err *err)
{
    int r = 1;

    while (r > 0) {
        r = seal_in_read(arriving->in, &arriving->plain, err);
        if (r >= 0) {
            int taken = records_take(arriving, err);
            r = taken < 0 ? taken : r;
        }
    }
    if (r == 0 && (arriving->records.last != RECORD_END || buf_len(&arriving->plain) > 0)) {
        return err_set(err, EBADMSG, "the file is damaged: its content has no end");
    }
    return r;
}

/* ---- the save ---- */

static int key_read(struct arriving *arriving, struct err *err)
{
    char hex[EXPORT_KEY_HEX_LEN + 1];
    struct seal_key key;
    int r = export_key_read(arriving->shared->data_fd, hex, err);

    if (r == -ENOENT) {
        return err_set(err, EKEYREJECTED,
                       "this machine has no export key: set that of the machine which made the "
                       "file with `atoll export-key set`");
    }
    r = r < 0 ? r : seal_key_of(hex, &key, err);
    if (r == 0) {
        arriving->in = seal_in_new(&key, source, arriving);
    }
    explicit_bzero(hex, sizeof(hex));
    explicit_bzero(&key, sizeof(key));
    return r;
}

/* The images come with a description of their own, which a restore will read. */
static int memory_check(const struct arriving *arriving, struct err *err)
{
    struct manifest manifest;

    return arriving->memory_fd < 0
               ? 0
               : manifest_read(arriving->memory_fd, arriving->shared->criu, &manifest, err);
}

static int save_end(struct arriving *arriving, struct travel_end *end, struct err *err)
{
    struct pool *pool = arriving->shared->pool;
    int r = memory_check(arriving, err);

    if (r == 0 && pool_on_btrfs(pool)) {
        r = subvol_make_read_only(arriving->disk_fd);
        r = r < 0 ? err_code(err, -r, "make the disk read-only") : 0;
    }
    r = r < 0 ? r : saved_commit(pool, arriving->begun_fd, arriving->name, true, err);
    if (r == 0 && arriving->memory_fd >= 0) {
        r = images_bytes(arriving->memory_fd, &end->memory_bytes, err);
    }
    memcpy(end->name, arriving->name, sizeof(end->name));
    end->disk_bytes = arriving->records.bytes - arriving->memory_bytes;
    return r;
}

static void arriving_fini(struct arriving *arriving)
{
    take_fini(&arriving->take);
    seal_in_free(arriving->in);
    buf_fini(&arriving->plain);
    free(arriving->meta);
    fd_closep(&arriving->memory_fd);
    fd_closep(&arriving->upper_fd);
    fd_closep(&arriving->disk_fd);
    fd_closep(&arriving->begun_fd);
}

int travel_import(struct jail_shared *shared, const struct keeper_travel *what, int socket,
                  struct err *err)
{
    static struct arriving arriving;
    struct travel_end end = {0};

    arriving = (struct arriving){.shared = shared,
                                 .what = what,
                                 .records = {.bytes_max = what->bytes_max},
                                 .take = TAKE_NONE};
    arriving.link.socket = socket;
    arriving.begun_fd = arriving.disk_fd = arriving.upper_fd = arriving.memory_fd = -1;
    buf_init(&arriving.plain, PLAIN_BYTES_MAX);
    int r = key_read(&arriving, err);
    r = r < 0 ? r : all_take(&arriving, err);
    r = r < 0 ? r : save_end(&arriving, &end, err);
    r = r < 0 ? r : link_send(socket, TRAVEL_META, arriving.meta, arriving.meta_len, err);
    arriving_fini(&arriving);
    if (r < 0 && arriving.name[0]) {
        saved_abandon(shared->pool, arriving.name);
    }
    r = r < 0 ? err_wrap(err, "import") : 0;
    link_end(socket, &end, r, err);
    return r;
}
