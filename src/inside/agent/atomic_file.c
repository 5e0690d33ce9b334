#include "inside/agent/atomic_file.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <linux/stat.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "lib/base/alloc.h"
#include "lib/base/fd.h"
#include "lib/base/id.h"

enum {
    RANDOM_LEN = 16,
    PREFIX_LEN = sizeof(ATOMIC_FILE_NEW) - 1,
    LINKS_MAX = 40, /* as the kernel's */
    FILE_MODE = 0644,
};

bool atomic_file_is_temporary(const char *name)
{
    return (strncmp(name, ATOMIC_FILE_NEW, PREFIX_LEN) == 0 ||
            strncmp(name, ATOMIC_FILE_OLD, PREFIX_LEN) == 0) &&
           strlen(name) == PREFIX_LEN + RANDOM_LEN;
}

/* Joins the real parent of `path` and its last name; the file itself need not exist. */
static int parent_resolve(const char *path, char out[PATH_MAX])
{
    char parent[PATH_MAX];
    const char *slash = strrchr(path, '/');

    (void)snprintf(parent, sizeof(parent), "%.*s", slash == path ? 1 : (int)(slash - path), path);
    if (!realpath(parent, out)) {
        return -errno;
    }
    size_t len = strlen(out);
    int n = snprintf(out + len, PATH_MAX - len, "%s%s", len > 1 ? "/" : "", slash + 1);
    return n < 0 || (size_t)n >= PATH_MAX - len ? -ENAMETOOLONG : 0;
}

/* Where a dangling link points, as an absolute path. */
static int link_read(const char *path, char out[PATH_MAX])
{
    char link[PATH_MAX];
    ssize_t len = readlink(path, link, sizeof(link) - 1);
    int n;

    if (len < 0) {
        return -errno;
    }
    link[len] = '\0';
    if (link[0] == '/') {
        n = snprintf(out, PATH_MAX, "%s", link);
    } else {
        n = snprintf(out, PATH_MAX, "%.*s/%s", (int)(strrchr(path, '/') - path), path, link);
    }
    return n < 0 || n >= PATH_MAX ? -ENAMETOOLONG : 0;
}

/* The path that open(path, O_CREAT) would open, with no link left in it. */
static int target_resolve(const char *path, char out[PATH_MAX])
{
    char at[PATH_MAX];
    struct stat st;
    int r;

    (void)snprintf(at, sizeof(at), "%s", path);
    for (int i = 0; i < LINKS_MAX; i++) {
        if (realpath(at, out)) {
            return 0;
        }
        if (errno != ENOENT) {
            return -errno;
        }
        r = parent_resolve(at, out);
        if (r < 0 || lstat(out, &st) < 0 || !S_ISLNK(st.st_mode)) {
            return r;
        }
        r = link_read(out, at);
        if (r < 0) {
            return r;
        }
    }
    return -ELOOP;
}

static bool is_mount_point(const char *path)
{
    char parent[PATH_MAX];
    const char *slash = strrchr(path, '/');
    struct statx file, dir;

    (void)snprintf(parent, sizeof(parent), "%.*s", slash == path ? 1 : (int)(slash - path), path);
    return statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, STATX_MNT_ID, &file) == 0 &&
           statx(AT_FDCWD, parent, 0, STATX_MNT_ID, &dir) == 0 &&
           file.stx_mask & dir.stx_mask & STATX_MNT_ID && file.stx_mnt_id != dir.stx_mnt_id;
}

static int temporary_open(struct atomic_file *file, bool exists)
{
    const char *slash = strrchr(file->target, '/');
    char name[RANDOM_LEN + 1];
    char path[PATH_MAX];

    id_alnum(name, RANDOM_LEN);
    int n = snprintf(path, sizeof(path), "%.*s%s%s", (int)(slash + 1 - file->target), file->target,
                     exists ? ATOMIC_FILE_OLD : ATOMIC_FILE_NEW, name);
    if (n < 0 || (size_t)n >= sizeof(path)) {
        return -ENAMETOOLONG;
    }
    file->fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (file->fd < 0) {
        return -errno;
    }
    file->temporary = strdup(path);
    if (!file->temporary) {
        (void)unlink(path);
        return -ENOMEM;
    }
    return 0;
}

static int in_place_open(struct atomic_file *file)
{
    file->fd = open(file->target, O_WRONLY | O_TRUNC | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    return file->fd < 0 ? -errno : 0;
}

/* Looks at the target: 1 a regular file is there, 0 nothing is. */
static int target_check(struct atomic_file *file, const char *path, struct err *err)
{
    struct stat st;

    if (lstat(file->target, &st) < 0) {
        return errno == ENOENT ? 0 : err_sys(err, "error getting file info: %s", path);
    }
    if (S_ISDIR(st.st_mode)) {
        return err_set(err, EISDIR, "path is a directory: %s", path);
    }
    if (!S_ISREG(st.st_mode)) {
        return err_set(err, EINVAL, "path is not a regular file: %s", path);
    }
    file->mode = st.st_mode & 0777; /* a script stays executable */
    return 1;
}

static bool in_place_instead(int r)
{
    return r == -EACCES || r == -EPERM || r == -EROFS || r == -EOPNOTSUPP;
}

int atomic_file_open(struct atomic_file *file, const char *path, struct fs_owner owner,
                     struct err *err)
{
    char target[PATH_MAX];
    int r;

    *file = (struct atomic_file){.fd = -1, .mode = FILE_MODE, .owner = owner};
    r = fs_make_parents(path, owner, err);
    if (r < 0) {
        return err_wrap(err, "error ensuring directories");
    }
    r = target_resolve(path, target);
    if (r < 0) {
        return err_set(err, -r, "error opening file: %s: %s", path, strerror(-r));
    }
    file->target = strdup(target);
    if (!file->target) {
        return err_set(err, ENOMEM, "error opening file: out of memory");
    }
    int exists = target_check(file, path, err);
    if (exists < 0) {
        return exists;
    }
    r = exists && is_mount_point(target) ? -EPERM : temporary_open(file, exists);
    if (exists && in_place_instead(r)) {
        r = in_place_open(file);
    }
    return r < 0 ? err_set(err, -r, "error opening file: %s: %s", path, strerror(-r)) : 0;
}

int atomic_file_write(struct atomic_file *file, const void *data, size_t len, struct err *err)
{
    const char *at = data;

    while (len > 0) {
        ssize_t n = write(file->fd, at, len);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            errno = n == 0 ? EIO : errno;
            return err_sys(err, "error writing file: %s", file->target);
        }
        at += n;
        len -= (size_t)n;
    }
    return 0;
}

int atomic_file_close(struct atomic_file *file, const struct metadata *metadata, struct err *err)
{
    int fd = move_fd(&file->fd);
    int r = metadata_write(fd, metadata);

    /* In place, the file keeps the owner it has where that cannot be changed. */
    if (r == 0 &&
        (fchown(fd, file->owner.uid, file->owner.gid) < 0 || fchmod(fd, file->mode) < 0) &&
        file->temporary) {
        r = -errno;
    }
    if (r == 0 && file->durable && fsync(fd) < 0) {
        r = -errno;
    }
    if (close(fd) < 0 && r == 0 && errno != EINTR) {
        r = -errno; /* a file system may tell only now that it had no room */
    }
    return r < 0 ? err_set(err, -r, "error writing file: %s: %s", file->target, strerror(-r)) : 0;
}

/* The name is the directory's. */
static int name_sync(const char *path)
{
    scoped_text copy = xstrdup(path);
    scoped_fd fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    return fd < 0 || fsync(fd) < 0 ? -errno : 0;
}

int atomic_file_commit(struct atomic_file *file, struct err *err)
{
    if (!file->temporary) {
        return 0;
    }
    unsigned flags = file->fresh ? RENAME_NOREPLACE : 0;

    if (renameat2(AT_FDCWD, file->temporary, AT_FDCWD, file->target, flags) < 0) {
        return err_sys(err, "error writing file: %s", file->target);
    }
    free(file->temporary);
    file->temporary = NULL;
    int r = file->durable ? name_sync(file->target) : 0;
    return r < 0 ? err_set(err, -r, "error writing file: %s: %s", file->target, strerror(-r)) : 0;
}

void atomic_file_fini(struct atomic_file *file)
{
    fd_closep(&file->fd);
    if (file->temporary) {
        (void)unlink(file->temporary);
    }
    free(file->temporary);
    free(file->target);
    *file = (struct atomic_file){.fd = -1};
}
