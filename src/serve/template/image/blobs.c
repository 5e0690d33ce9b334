/* blobs.c - downloads by digest: blobs/<hex> is whole and was checked, blobs/<hex>.part is not.
 *
 *      rehash what is there ─► request from there on ─► write and hash, block by block ─► compare
 *
 * Hashing and writing are done on libuv's threads, one block at a time; while one is written the
 * next is gathered, and when that is full too, the registry waits. */
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <utlist.h>

#include "lib/base/alloc.h"
#include "lib/base/buf.h"
#include "lib/base/encode.h"
#include "lib/base/fd.h"
#include "serve/template/image/internal.h"

enum {
    BLOCK_BYTES = 1024 * 1024,
    RECEIVE_BYTES_MAX = 2 * BLOCK_BYTES, /* libcurl hands out less than a block at a time */
    PROGRESS_BYTES = 16 * 1024 * 1024,
};

enum download_state {
    DOWNLOAD_WAITING,  /* for another of the same blob */
    DOWNLOAD_HASHING,  /* the bytes of an earlier try */
    DOWNLOAD_FETCHING, /* and writing */
    DOWNLOAD_ENDING,   /* writes the last block, then compares */
};

struct download {
    struct download *prev, *next;
    struct image_store *store;
    struct registry *registry;
    struct manifest_blob blob;
    const struct blob_handler *handler;
    void *ctx;
    enum download_state state;
    int fd;
    EVP_MD_CTX *hash;
    uint64_t at;       /* written and hashed */
    uint64_t received; /* and what is gathered */
    uint64_t told;     /* progress */
    struct buf gathered, block;
    bool working, paused, cancelled;
    bool starts_over;   /* the bytes written so far do not count */
    struct err err;     /* code 0: none; the thread's while one works */
    struct err refusal; /* why no more is taken, or comes; the loop's */
    uv_work_t work;
    uv_idle_t idle; /* for an answer that needs nothing else */
};

/* ---- names ---- */

static void blob_name(const struct manifest_blob *blob, const char *suffix,
                      char out[BLOB_NAME_BYTES])
{
    (void)snprintf(out, BLOB_NAME_BYTES, "%s%s", blob->digest + strlen("sha256:"), suffix);
}

int blob_open(struct image_store *store, const struct manifest_blob *blob)
{
    char name[BLOB_NAME_BYTES];
    struct stat st;

    blob_name(blob, "", name);
    scoped_fd fd = openat(store->blobs_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 || fstat(fd, &st) < 0) {
        return -errno;
    }
    if ((uint64_t)st.st_size != blob->size) {
        return -ENOENT;
    }
    (void)futimens(fd, NULL);
    return move_fd(&fd);
}

/* ---- ends ---- */

static void begin(struct download *d);

static void wake_others(const struct download *ended)
{
    for (struct download *d = ended->store->downloads; d; d = d->next) {
        if (d->state == DOWNLOAD_WAITING && strcmp(d->blob.digest, ended->blob.digest) == 0) {
            begin(d);
            return;
        }
    }
}

static void on_idle_closed(uv_handle_t *handle)
{
    struct download *d = container_of(handle, struct download, idle);

    fd_closep(&d->fd);
    EVP_MD_CTX_free(d->hash);
    buf_fini(&d->gathered);
    buf_fini(&d->block);
    free(d);
}

static void download_free(struct download *d)
{
    DL_DELETE(d->store->downloads, d);
    wake_others(d);
    uv_close((uv_handle_t *)&d->idle, on_idle_closed);
}

static void finish(struct download *d)
{
    const struct blob_handler *handler = d->handler;
    void *ctx = d->ctx;
    struct err err = d->err;
    bool cancelled = d->cancelled;

    download_free(d);
    if (!cancelled) {
        handler->done(ctx, err.code ? &err : NULL);
    }
}

void blob_cancel(struct download *d)
{
    if (!d) {
        return;
    }
    d->cancelled = true; /* the owner of the registry's request ends it */
    if (!d->working) {
        download_free(d);
    }
}

/* ---- on a thread ---- */

static void block_write(uv_work_t *work)
{
    struct download *d = work->data;

    while (buf_len(&d->block) > 0) {
        ssize_t n = pwrite(d->fd, buf_at(&d->block), buf_len(&d->block), (off_t)d->at);
        if (n < 0) {
            (void)err_sys(&d->err, "write a layer to the disk");
            return;
        }
        if (EVP_DigestUpdate(d->hash, buf_at(&d->block), (size_t)n) != 1) {
            abort();
        }
        buf_consume(&d->block, (size_t)n);
        d->at += (uint64_t)n;
    }
}

static void rehash(uv_work_t *work)
{
    struct download *d = work->data;
    char *block = xcalloc(1, BLOCK_BYTES);
    ssize_t n;

    while (d->at < d->blob.size && (n = pread(d->fd, block, BLOCK_BYTES, (off_t)d->at)) > 0) {
        if (EVP_DigestUpdate(d->hash, block, (size_t)n) != 1) {
            abort();
        }
        d->at += (uint64_t)n;
    }
    free(block);
}

static void compare(uv_work_t *work)
{
    struct download *d = work->data;
    uint8_t digest[EVP_MAX_MD_SIZE];
    char hex[2 * EVP_MAX_MD_SIZE + 1], part[BLOB_NAME_BYTES], name[BLOB_NAME_BYTES];
    unsigned len = 0;

    blob_name(&d->blob, ".part", part);
    blob_name(&d->blob, "", name);
    if (EVP_DigestFinal_ex(d->hash, digest, &len) != 1) {
        abort();
    }
    hex_encode(hex, digest, len);
    if (strcmp(hex, name) != 0) {
        (void)unlinkat(d->store->blobs_fd, part, 0);
        (void)err_set(&d->err, EBADMSG,
                      "the registry sent something else than it promised: the digest of %.19s... "
                      "differs",
                      d->blob.digest);
    } else if (fsync(d->fd) < 0 ||
               renameat(d->store->blobs_fd, part, d->store->blobs_fd, name) < 0) {
        (void)err_sys(&d->err, "put a layer into the store of blobs");
    }
}

/* ---- on the loop ---- */

static void advance(struct download *d);

static void on_worked(uv_work_t *work, int status)
{
    struct download *d = work->data;

    (void)status;
    d->working = false;
    if (d->cancelled) {
        download_free(d);
    } else {
        advance(d);
    }
}

static void on_compared(uv_work_t *work, int status)
{
    struct download *d = work->data;

    (void)status;
    d->working = false;
    finish(d);
}

static void work_start(struct download *d, uv_work_cb what, uv_after_work_cb after)
{
    d->working = true;
    d->work.data = d;
    if (uv_queue_work(d->store->use.loop, &d->work, what, after) < 0) {
        abort();
    }
}

static void progress_tell(struct download *d)
{
    if (d->at - d->told >= PROGRESS_BYTES) {
        d->told = d->at;
        d->handler->progress(d->ctx, d->at);
    }
}

/* ---- the registry's side ---- */

static uint64_t on_offset(void *ctx)
{
    const struct download *d = ctx;

    return d->received;
}

/* The first byte of the answer is at that offset: a registry that ignores ranges sends all
 * again. */
static void on_begin(void *ctx, uint64_t at)
{
    struct download *d = ctx;

    if (at != d->received) {
        buf_clear(&d->gathered);
        d->received = 0;
        d->starts_over = true;
    }
}

static size_t on_write(void *ctx, const char *data, size_t len)
{
    struct download *d = ctx;

    if (d->working && (d->starts_over || buf_len(&d->gathered) + len > BLOCK_BYTES)) {
        d->paused = true;
        return CURL_WRITEFUNC_PAUSE;
    }
    if (d->starts_over) {
        d->starts_over = false;
        d->at = d->told = 0;
        (void)EVP_DigestInit_ex(d->hash, EVP_sha256(), NULL);
    }
    if (!d->working && d->err.code) {
        return 0;
    }
    if (d->received + len > d->blob.size) {
        (void)err_set(&d->refusal, EBADMSG,
                      "the registry sends more than the %llu bytes it promised",
                      (unsigned long long)d->blob.size);
        return 0;
    }
    if (buf_append(&d->gathered, data, len) < 0) {
        abort(); /* a block, and one hand-out of libcurl's */
    }
    d->received += len;
    if (!d->working && buf_len(&d->gathered) >= BLOCK_BYTES / 2) {
        advance(d);
    }
    return len;
}

static void on_fetched(void *ctx, const struct err *err)
{
    struct download *d = ctx;

    d->state = DOWNLOAD_ENDING;
    if (err && !d->refusal.code) {
        d->refusal = *err;
    }
    if (!d->working) {
        advance(d);
    }
}

static const struct registry_sink sink = {
    .offset = on_offset, .begin = on_begin, .write = on_write, .done = on_fetched};

static void request(struct download *d)
{
    char path[REFERENCE_DIGEST_BYTES + 16];

    d->received = d->at;
    d->told = d->at;
    d->state = DOWNLOAD_FETCHING;
    (void)snprintf(path, sizeof(path), "blobs/%s", d->blob.digest);
    registry_get(d->registry, path, NULL, &sink, d);
}

static void ending(struct download *d)
{
    if (!d->err.code) {
        d->err = d->refusal;
    }
    if (!d->err.code && d->at != d->blob.size) {
        (void)err_set(&d->err, EBADMSG, "the registry sent %llu bytes of a layer of %llu",
                      (unsigned long long)d->at, (unsigned long long)d->blob.size);
    }
    if (d->err.code) {
        finish(d);
    } else {
        work_start(d, compare, on_compared);
    }
}

/* Starts the next step, while no thread works for it. */
static void advance(struct download *d)
{
    if (d->state == DOWNLOAD_HASHING) {
        if (d->at == d->blob.size) {
            d->state = DOWNLOAD_ENDING;
            ending(d);
        } else {
            request(d);
        }
        return;
    }
    if (buf_len(&d->gathered) > 0 && !d->err.code) {
        struct buf spare = d->block;
        d->block = d->gathered;
        d->gathered = spare;
        work_start(d, block_write, on_worked);
    } else if (d->state == DOWNLOAD_ENDING) {
        ending(d);
        return;
    }
    progress_tell(d);
    if (d->paused && d->state == DOWNLOAD_FETCHING) {
        d->paused = false;
        registry_resume(d->registry);
    }
}

/* ---- the beginning ---- */

static void on_idle(uv_idle_t *idle)
{
    struct download *d = container_of(idle, struct download, idle);

    (void)uv_idle_stop(idle);
    finish(d);
}

static void begin(struct download *d)
{
    char part[BLOB_NAME_BYTES];
    scoped_fd whole = blob_open(d->store, &d->blob);

    if (whole >= 0) {
        (void)uv_idle_start(&d->idle, on_idle);
        d->state = DOWNLOAD_ENDING;
        return;
    }
    blob_name(&d->blob, ".part", part);
    d->fd = openat(d->store->blobs_fd, part, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (d->fd < 0) {
        (void)err_sys(&d->err, "make the file of a download");
        (void)uv_idle_start(&d->idle, on_idle);
        d->state = DOWNLOAD_ENDING;
        return;
    }
    d->state = DOWNLOAD_HASHING;
    work_start(d, rehash, on_worked);
}

static bool is_under_way(const struct image_store *store, const char *digest)
{
    for (const struct download *d = store->downloads; d; d = d->next) {
        if (d->state != DOWNLOAD_WAITING && strcmp(d->blob.digest, digest) == 0) {
            return true;
        }
    }
    return false;
}

struct download *blob_fetch(struct image_store *store, struct registry *registry,
                            const struct manifest_blob *blob, const struct blob_handler *handler,
                            void *ctx)
{
    struct download *d = xnew(struct download);
    bool wait = is_under_way(store, blob->digest);

    *d = (struct download){.store = store,
                           .registry = registry,
                           .blob = *blob,
                           .handler = handler,
                           .ctx = ctx,
                           .fd = -1,
                           .hash = EVP_MD_CTX_new()};
    if (!d->hash || EVP_DigestInit_ex(d->hash, EVP_sha256(), NULL) != 1 ||
        uv_idle_init(store->use.loop, &d->idle) < 0) {
        abort();
    }
    buf_init(&d->gathered, RECEIVE_BYTES_MAX);
    buf_init(&d->block, RECEIVE_BYTES_MAX);
    DL_APPEND(store->downloads, d);
    if (!wait) {
        begin(d);
    }
    return d;
}
