/* files.c - the archives that clients upload for COPY.
 *
 * The client names them by a hash of its own; on disk they are called by the SHA-256 of what came,
 * so equal ones lie there once. A file without a row, and a row without a file, are removed.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/fd.h"
#include "serve/template/build/internal.h"

enum { SECRET_BYTES = 32, FILE_NAME_BYTES = 96 };

#define PART_PREFIX ".part-"

struct file {
    UT_hash_handle hh;
    char name[ID_UUID_LEN + 1 + BUILD_HASH_LEN + 1]; /* team/hash */
    char sha256[SHA256_HEX_LEN + 1];
    uint64_t bytes;
    int64_t created_ms, used_ms;
};

struct files {
    int dir;
    struct file *by_name;
    uint8_t secret[SECRET_BYTES];
};

/* ---- the table ---- */

static bool name_of(const char *team_id, const char *hash, char *out, size_t size)
{
    return snprintf(out, size, "%s/%s", team_id, hash) < (int)size;
}

static struct file *find(const struct files *files, const char *team_id, const char *hash)
{
    char name[sizeof(((struct file *)0)->name)];
    struct file *file = NULL;

    if (name_of(team_id, hash, name, sizeof(name))) {
        HASH_FIND_STR(files->by_name, name, file);
    }
    return file;
}

static struct file *put(struct files *files, const struct file_row *row)
{
    struct file *file = find(files, row->team_id, row->hash);

    if (!file) {
        file = xnew(struct file);
        if (!name_of(row->team_id, row->hash, file->name, sizeof(file->name))) {
            free(file);
            return NULL;
        }
        HASH_ADD_STR(files->by_name, name, file);
    }
    (void)str_copy(file->sha256, sizeof(file->sha256), str_of(row->sha256));
    file->bytes = row->bytes;
    file->created_ms = row->created_ms;
    file->used_ms = row->used_ms;
    return file;
}

static void file_save(struct builds *all, const struct file *file, store_done *done, void *ctx)
{
    char team_id[ID_UUID_LEN + 1] = "";
    size_t slash = str_find(str_of(file->name), '/');
    struct file_row row = {.team_id = team_id,
                           .hash = file->name + slash + 1,
                           .sha256 = file->sha256,
                           .bytes = file->bytes,
                           .created_ms = file->created_ms,
                           .used_ms = file->used_ms};

    (void)str_copy(team_id, sizeof(team_id), (struct str){file->name, slash});
    store_file_save(all->use.store, &row, done, ctx);
}

static void file_drop(struct builds *all, struct file *file)
{
    char team_id[ID_UUID_LEN + 1] = "";
    size_t slash = str_find(str_of(file->name), '/');

    (void)str_copy(team_id, sizeof(team_id), (struct str){file->name, slash});
    store_file_delete(all->use.store, team_id, file->name + slash + 1, NULL, NULL);
    HASH_DEL(all->files->by_name, file);
    free(file);
}

static bool is_wanted(const struct files *files, const char *sha256)
{
    const struct file *file = NULL, *next = NULL;

    HASH_ITER (hh, files->by_name, file, next) {
        if (strcmp(file->sha256, sha256) == 0) {
            return true;
        }
    }
    return false;
}

/* ---- opening ---- */

static void on_row(void *ctx, const struct file_row *row)
{
    (void)put(ctx, row);
}

static void dirp_close(DIR **dir)
{
    if (*dir) {
        (void)closedir(*dir);
    }
}

/* Start-up: a file without a row is from an upload that was cut off. */
static void remove_strangers(const struct files *files)
{
    const struct dirent *entry;
    int copy = openat(files->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    scoped(dirp_close) DIR *dir = copy < 0 ? NULL : fdopendir(copy);

    while (dir && (entry = readdir(dir))) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
            !is_wanted(files, entry->d_name)) {
            (void)unlinkat(files->dir, entry->d_name, 0);
        }
    }
}

static void remove_lost(struct builds *all)
{
    struct file *file = NULL, *next = NULL;

    HASH_ITER (hh, all->files->by_name, file, next) {
        if (faccessat(all->files->dir, file->sha256, R_OK, 0) < 0) {
            file_drop(all, file);
        }
    }
}

int files_open(struct builds *all, const char *path, struct err *err)
{
    struct files *files = xnew(struct files);

    all->files = files;
    id_random(files->secret, sizeof(files->secret));
    if (mkdir(path, 0700) < 0 && errno != EEXIST) {
        files->dir = -1;
        return err_sys(err, "make the directory %s", path);
    }
    files->dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (files->dir < 0) {
        return err_sys(err, "open the directory %s", path);
    }
    int r = store_load_files(all->use.store, on_row, files, err);
    if (r == 0) {
        remove_strangers(files);
        remove_lost(all);
    }
    return r;
}

void files_close(struct builds *all)
{
    struct file *file = NULL, *next = NULL;
    struct files *files = move_ptr(&all->files);

    if (!files) {
        return;
    }
    HASH_ITER (hh, files->by_name, file, next) {
        HASH_DEL(files->by_name, file);
        free(file);
    }
    fd_closep(&files->dir);
    free(files);
}

/* ---- using ---- */

static void touch(struct builds *all, struct file *file)
{
    file->used_ms = clock_wall_ms();
    file_save(all, file, NULL, NULL);
}

bool build_files_present(struct builds *builds, const char *team_id, const char *hash)
{
    struct file *file = find(builds->files, team_id, hash);

    if (file) {
        touch(builds, file);
    }
    return file != NULL;
}

int files_get(struct builds *all, const char *team_id, const char *hash)
{
    struct file *file = find(all->files, team_id, hash);

    if (!file) {
        return -ENOENT;
    }
    touch(all, file);
    int fd = openat(all->files->dir, file->sha256, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    return fd < 0 ? -errno : fd;
}

uint64_t files_bytes(const struct builds *all)
{
    const struct file *file = NULL, *next = NULL;
    uint64_t bytes = 0;

    HASH_ITER (hh, all->files->by_name, file, next) {
        bytes += file->bytes;
    }
    return bytes;
}

void files_sweep(struct builds *all, int64_t unused_since_ms, struct builds_pruned *out)
{
    struct file *file = NULL, *next = NULL;
    char sha256[SHA256_HEX_LEN + 1];

    HASH_ITER (hh, all->files->by_name, file, next) {
        if (file->used_ms >= unused_since_ms) {
            continue;
        }
        uint64_t bytes = file->bytes;
        (void)str_copy(sha256, sizeof(sha256), str_of(file->sha256));
        file_drop(all, file);
        out->files++;
        if (!is_wanted(all->files, sha256)) {
            out->bytes += bytes;
            (void)unlinkat(all->files->dir, sha256, 0);
        }
    }
}

/* ---- upload tokens ---- */

void build_files_token(const struct builds *builds, const char *template_id, const char *hash,
                       char out[BUILD_TOKEN_LEN + 1])
{
    scoped_buf(text, 1024);

    if (buf_append(&text, builds->files->secret, SECRET_BYTES) < 0 ||
        buf_printf(&text, "%s/%s", template_id, hash) < 0) {
        buf_clear(&text); /* no such hash: the token of nothing */
    }
    sha256_hex(buf_at(&text), buf_len(&text), out);
}

bool build_files_token_ok(const struct builds *builds, const char *template_id, const char *hash,
                          struct str token)
{
    char want[BUILD_TOKEN_LEN + 1];

    build_files_token(builds, template_id, hash, want);
    return str_eq_secret(token, str_of(want));
}

/* ---- uploading ---- */

struct upload {
    struct builds *all; /* counted */
    const struct upload_handler *handler;
    void *ctx;
    char team_id[ID_UUID_LEN + 1];
    char hash[BUILD_HASH_LEN + 1];
    char part[FILE_NAME_BYTES];
    char sha256[SHA256_HEX_LEN + 1];
    int fd;
    EVP_MD_CTX *digest;
    uint64_t bytes;
    uv_work_t work;
    bool working, ending, aborted;
    void *data; /* the bytes being written */
    size_t len;
    struct err err;
};

static void upload_free(struct upload *upload)
{
    if (upload->fd >= 0 && upload->part[0]) {
        (void)unlinkat(upload->all->files->dir, upload->part, 0);
    }
    fd_closep(&upload->fd);
    EVP_MD_CTX_free(upload->digest);
    free(upload->data);
    builds_release(upload->all);
    free(upload);
}

struct upload *build_upload_new(struct builds *builds, const char *team_id, const char *hash,
                                const struct upload_handler *handler, void *ctx)
{
    struct upload *upload = xnew(struct upload);
    char random[17];

    *upload = (struct upload){.all = builds, .handler = handler, .ctx = ctx};
    builds_hold(builds);
    (void)str_copy(upload->team_id, sizeof(upload->team_id), str_of(team_id));
    (void)str_copy(upload->hash, sizeof(upload->hash), str_of(hash));
    id_hex(random, sizeof(random) / 2);
    (void)snprintf(upload->part, sizeof(upload->part), PART_PREFIX "%s", random);
    upload->fd = openat(builds->files->dir, upload->part,
                        O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (upload->fd < 0) {
        (void)err_sys(&upload->err, "make a file for what is uploaded");
    }
    upload->digest = EVP_MD_CTX_new();
    if (!upload->digest || EVP_DigestInit_ex(upload->digest, EVP_sha256(), NULL) != 1) {
        abort();
    }
    return upload;
}

static void write_work(uv_work_t *work)
{
    struct upload *upload = container_of(work, struct upload, work);
    const char *at = upload->data;
    size_t left = upload->len;

    while (left > 0 && !upload->err.code) {
        ssize_t n = write(upload->fd, at, left);
        if (n < 0 && errno != EINTR) {
            (void)err_sys(&upload->err, "write what is uploaded to disk");
        } else if (n > 0) {
            at += n;
            left -= (size_t)n;
        }
    }
    if (EVP_DigestUpdate(upload->digest, upload->data, upload->len) != 1) {
        abort();
    }
}

static void sync_work(uv_work_t *work)
{
    struct upload *upload = container_of(work, struct upload, work);
    uint8_t digest[SHA256_BYTES];

    if (EVP_DigestFinal_ex(upload->digest, digest, NULL) != 1) {
        abort();
    }
    hex_encode(upload->sha256, digest, sizeof(digest));
    if (!upload->err.code &&
        (fsync(upload->fd) < 0 || renameat(upload->all->files->dir, upload->part,
                                           upload->all->files->dir, upload->sha256) < 0)) {
        (void)err_sys(&upload->err, "put what is uploaded in place");
    }
    if (!upload->err.code) {
        upload->part[0] = '\0'; /* it has its own name now */
    }
}

static void on_recorded(void *ctx, int error, const struct err *err)
{
    struct upload *upload = ctx;

    if (!upload->aborted) {
        upload->handler->done(upload->ctx, error, err);
    }
    upload_free(upload);
}

static void on_synced(struct upload *upload)
{
    const struct file_row row = {.team_id = upload->team_id,
                                 .hash = upload->hash,
                                 .sha256 = upload->sha256,
                                 .bytes = upload->bytes,
                                 .created_ms = clock_wall_ms(),
                                 .used_ms = clock_wall_ms()};
    const struct file *file = put(upload->all->files, &row);

    if (!file) {
        (void)err_set(&upload->err, EINVAL, "the hash is too long");
        on_recorded(upload, -EINVAL, &upload->err);
        return;
    }
    file_save(upload->all, file, on_recorded, upload);
}

static void on_worked(uv_work_t *work, int status)
{
    struct upload *upload = container_of(work, struct upload, work);

    (void)status; /* nobody cancels */
    upload->working = false;
    free(move_ptr(&upload->data));
    int error = -upload->err.code;
    if (upload->aborted || upload->all->closed) {
        upload_free(upload);
    } else if (upload->ending && error == 0) {
        on_synced(upload);
    } else if (upload->ending) {
        on_recorded(upload, error, &upload->err);
    } else {
        upload->bytes += upload->len;
        upload->handler->took(upload->ctx, error, &upload->err);
    }
}

static void queue(struct upload *upload, uv_work_cb work)
{
    upload->working = true;
    if (uv_queue_work(upload->all->use.loop, &upload->work, work, on_worked) < 0) {
        abort();
    }
}

void build_upload_write(struct upload *upload, const void *data, size_t len)
{
    upload->data = xcalloc(1, len ? len : 1);
    memcpy(upload->data, data, len);
    upload->len = len;
    queue(upload, write_work);
}

void build_upload_end(struct upload *upload)
{
    upload->ending = true;
    queue(upload, sync_work);
}

void build_upload_abort(struct upload *upload)
{
    upload->aborted = true;
    if (!upload->working && !upload->ending) {
        upload_free(upload);
    }
}
