/* local.c - images on this machine's disk: OCI's layout directories and what `docker save` writes.
 *
 * Paths are resolved below the directory that the operator named, links and all. */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "lib/base/alloc.h"
#include "lib/base/buf.h"
#include "lib/base/encode.h"
#include "lib/base/fd.h"
#include "serve/template/image/internal.h"
#include "serve/template/image/tar.h"

enum { INDEX_DEPTH_MAX = 4 }; /* an index in an index */

struct local {
    int fd; /* OCI: the directory; docker-archive: the file */
    bool is_archive;
    struct reference reference;
    json_t *layers; /* docker-archive: names of files in the archive */
    char *config;   /* likewise */
};

static int open_below(int dir_fd, const char *path, uint64_t flags)
{
    struct open_how how = {.flags = flags | O_CLOEXEC,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};
    long fd = syscall(SYS_openat2, dir_fd, path, &how, sizeof(how));

    return fd < 0 ? -errno : (int)fd;
}

/* ---- opening ---- */

/* The path may be written from the root on, as long as it leads below the directory named. */
static const char *path_inside(const char *dir, const char *path)
{
    size_t n = strlen(dir);

    while (n > 1 && dir[n - 1] == '/') {
        n--;
    }
    if (path[0] != '/') {
        return path;
    }
    if (strncmp(path, dir, n) != 0 || (path[n] != '/' && path[n] != '\0')) {
        return NULL;
    }
    path += n;
    return path + strspn(path, "/");
}

int local_open(const struct image_options *options, const struct reference *reference,
               struct local **out, struct err *err)
{
    const char *path;

    if (!options->local || !options->local[0]) {
        return err_set(err, EACCES,
                       "images of this machine's disk are not allowed: the setting image_dir names "
                       "no directory");
    }
    path = path_inside(options->local, reference->repository);
    if (!path) {
        return err_set(err, EACCES, "%.100s does not lie below %.100s", reference->repository,
                       options->local);
    }
    scoped_fd dir = open(options->local, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0) {
        return err_sys(err, "open the directory of images %.150s", options->local);
    }
    bool is_archive = reference->kind == REFERENCE_DOCKER_ARCHIVE;
    int fd = open_below(dir, path[0] ? path : ".", is_archive ? O_RDONLY : O_PATH | O_DIRECTORY);
    if (fd == -EXDEV) {
        return err_set(err, EACCES, "%.100s does not lie below %.100s", reference->repository,
                       options->local);
    }
    if (fd < 0) {
        return err_set(err, -fd, "open the image %.150s: %s", reference->repository, strerror(-fd));
    }
    *out = xnew(struct local);
    **out = (struct local){.fd = fd, .is_archive = is_archive, .reference = *reference};
    return 0;
}

void local_free(struct local *local)
{
    if (local) {
        fd_closep(&local->fd);
        json_decref(local->layers);
        free(local->config);
        free(local);
    }
}

/* ---- reading ---- */

static int part_read(const struct local_part *part, const char *what, struct buf *out,
                     struct err *err)
{
    char *at = NULL;

    buf_clear(out);
    if (part->length > IMAGE_MANIFEST_BYTES_MAX ||
        buf_reserve(out, (size_t)part->length, &at) < 0) {
        return err_set(err, EFBIG, "%s of the image is larger than %d bytes", what,
                       IMAGE_MANIFEST_BYTES_MAX);
    }
    ssize_t n = pread(part->fd, at, (size_t)part->length, part->offset);
    if (n != part->length) {
        return err_set(err, EIO, "%s of the image cannot be read", what);
    }
    buf_commit(out, (size_t)n);
    return 0;
}

static int file_part(int fd, struct local_part *out)
{
    struct stat st;

    if (fd < 0) {
        return fd;
    }
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        (void)close(fd);
        return -EINVAL;
    }
    *out = (struct local_part){.fd = fd, .length = st.st_size};
    return 0;
}

/* ---- a layout directory ---- */

static int oci_part(const struct local *local, const char *digest, struct local_part *out,
                    struct err *err)
{
    char path[REFERENCE_DIGEST_BYTES + 16];

    (void)snprintf(path, sizeof(path), "blobs/sha256/%s", digest + strlen("sha256:"));
    int r = file_part(open_below(local->fd, path, O_RDONLY), out);
    return r < 0 ? err_set(err, -r, "the image has no %s", path) : 0;
}

static int oci_read(const struct local *local, const char *digest, struct buf *out, struct err *err)
{
    struct local_part part = {.fd = -1};
    char hex[SHA256_HEX_LEN + 1];
    int r = oci_part(local, digest, &part, err);

    if (r < 0) {
        return r;
    }
    r = part_read(&part, "a file", out, err);
    fd_closep(&part.fd);
    if (r == 0) {
        sha256_hex(buf_at(out), buf_len(out), hex);
        if (strcmp(hex, digest + strlen("sha256:")) != 0) {
            r = err_set(err, EBADMSG, "blobs/sha256/%s of the image has another digest",
                        digest + strlen("sha256:"));
        }
    }
    return r;
}

static int oci_manifest(struct local *local, struct manifest *out, char digest[], struct err *err)
{
    struct local_part part = {.fd = -1};
    struct manifest_blob pick;
    struct str tag = str_of(local->reference.tag);
    scoped_buf(text, IMAGE_MANIFEST_BYTES_MAX);

    int r = file_part(open_below(local->fd, "index.json", O_RDONLY), &part);
    if (r < 0) {
        return err_set(err, -r, "%.150s is no OCI layout: it has no index.json",
                       local->reference.repository);
    }
    r = part_read(&part, "index.json", &text, err);
    fd_closep(&part.fd);
    for (int depth = 0; r == 0 && depth < INDEX_DEPTH_MAX; depth++) {
        r = manifest_parse(buf_str(&text), tag, out, &pick, err);
        if (r <= 0) {
            return r;
        }
        tag = (struct str){NULL, 0}; /* names are the outermost index's */
        memcpy(digest, pick.digest, REFERENCE_DIGEST_BYTES);
        r = oci_read(local, pick.digest, &text, err);
    }
    return r < 0 ? r : err_set(err, EINVAL, "the image's index leads nowhere");
}

/* ---- an archive of docker save ---- */

static int archive_part(const struct local *local, const char *name, struct local_part *out,
                        struct err *err)
{
    struct tar_file found;
    int r = tar_find(local->fd, name, &found, err);

    if (r < 0) {
        return r;
    }
    int fd = fcntl(local->fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0) {
        return err_sys(err, "open the image again");
    }
    *out = (struct local_part){.fd = fd, .offset = found.offset, .length = found.length};
    return 0;
}

static int archive_read(const struct local *local, const char *name, struct buf *out,
                        struct err *err)
{
    struct local_part part = {.fd = -1};
    int r = archive_part(local, name, &part, err);

    if (r == 0) {
        r = part_read(&part, name, out, err);
        fd_closep(&part.fd);
    }
    return r;
}

static bool has_name(const json_t *entry, const char *name)
{
    const json_t *tags = json_object_get(entry, "RepoTags"), *tag;
    size_t i;

    json_array_foreach (tags, i, tag) {
        if (json_is_string(tag) && strcmp(json_string_value(tag), name) == 0) {
            return true;
        }
    }
    return name[0] == '\0';
}

static int archive_entry_take(struct local *local, const json_t *list, struct manifest *out,
                              struct err *err)
{
    const json_t *entry;
    size_t i;

    json_array_foreach (list, i, entry) {
        const char *config = json_string_value(json_object_get(entry, "Config"));
        json_t *layers = json_object_get(entry, "Layers");
        if (!has_name(entry, local->reference.tag)) {
            continue;
        }
        if (!config || !json_is_array(layers) || json_array_size(layers) > IMAGE_LAYERS_MAX) {
            return err_set(err, EINVAL, "the archive's manifest.json has no config or layers");
        }
        local->config = xstrdup(config);
        local->layers = json_incref(layers);
        out->layers_n = (uint32_t)json_array_size(layers);
        return 0;
    }
    return err_set(err, ENOENT, "there is no image named '%s' in the archive",
                   local->reference.tag);
}

static void json_freep(json_t **json)
{
    json_decref(*json);
}

static int archive_manifest(struct local *local, struct manifest *out, char digest[],
                            struct err *err)
{
    scoped_buf(text, IMAGE_MANIFEST_BYTES_MAX);
    scoped(json_freep) json_t *list = NULL;
    char hex[SHA256_HEX_LEN + 1];

    int r = archive_read(local, "manifest.json", &text, err);
    if (r < 0) {
        return r;
    }
    list = json_loadb(buf_at(&text), buf_len(&text), 0, NULL);
    if (!json_is_array(list)) {
        return err_set(err, EINVAL, "the archive's manifest.json cannot be read");
    }
    sha256_hex(buf_at(&text), buf_len(&text), hex);
    (void)snprintf(digest, REFERENCE_DIGEST_BYTES, "sha256:%s", hex);
    return archive_entry_take(local, list, out, err);
}

/* ---- either ---- */

int local_manifest(struct local *local, struct manifest *out, char digest[REFERENCE_DIGEST_BYTES],
                   struct err *err)
{
    return local->is_archive ? archive_manifest(local, out, digest, err)
                             : oci_manifest(local, out, digest, err);
}

int local_config(struct local *local, const struct manifest *manifest, struct buf *out,
                 struct err *err)
{
    return local->is_archive ? archive_read(local, local->config, out, err)
                             : oci_read(local, manifest->config.digest, out, err);
}

int local_layer(struct local *local, const struct manifest *manifest, uint32_t index,
                struct local_part *out, struct err *err)
{
    if (!local->is_archive) {
        return oci_part(local, manifest->layers[index].digest, out, err);
    }
    const char *name = json_string_value(json_array_get(local->layers, index));
    return name ? archive_part(local, name, out, err)
                : err_set(err, EINVAL, "the archive has a layer without a name");
}
