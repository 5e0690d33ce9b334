#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "inside/unpack/internal.h"
#include "lib/base/fd.h"

enum {
    SHOWN_BYTES = 160,
    DIR_MODE = 0755, /* for directories without an entry in the archive */
};

static const uint64_t resolve_below = RESOLVE_IN_ROOT | RESOLVE_NO_XDEV |
                                      RESOLVE_NO_MAGICLINKS; /* absolute links start at the root */

/* ---- sentences ---- */

static int fail_on(struct err *err, const char *verb, const char *path)
{
    char shown[SHOWN_BYTES];

    if (errno == ENOSPC || errno == EDQUOT) {
        return err_set(err, errno, "the disk is full: %s /%s", verb,
                       name_show(path, shown, sizeof(shown)));
    }
    return err_sys(err, "%s /%s", verb, name_show(path, shown, sizeof(shown)));
}

/* ---- directories ---- */

int rootdir_init(struct rootdir *root, const char *path, struct err *err)
{
    *root = (struct rootdir){.root_fd = -1, .parent_fd = -1};
    root->root_fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return root->root_fd < 0 ? err_sys(err, "open the root directory") : 0;
}

void rootdir_fini(struct rootdir *root)
{
    fd_closep(&root->root_fd);
    fd_closep(&root->parent_fd);
}

/* A cached directory may no longer be what its path leads to. */
static void rootdir_forget(struct rootdir *root)
{
    fd_closep(&root->parent_fd);
}

static int open_below(const struct rootdir *root, const char *path, uint64_t flags)
{
    struct open_how how = {.flags = flags | O_CLOEXEC, .resolve = resolve_below};
    long fd = syscall(SYS_openat2, root->root_fd, path[0] ? path : ".", &how, sizeof(how));

    return fd < 0 ? -errno : (int)fd;
}

static int dir_make(struct rootdir *root, const char *path, struct err *err);

/* Makes missing directories, one part at a time; name_check() bounds the depth. */
static int dir_open(struct rootdir *root, const char *path, struct err *err)
{
    int fd = open_below(root, path, O_PATH | O_DIRECTORY);

    if (fd == -ENOENT && path[0]) {
        int r = dir_make(root, path, err);
        if (r < 0) {
            return r;
        }
        fd = open_below(root, path, O_PATH | O_DIRECTORY);
    }
    if (fd < 0) {
        errno = -fd;
        return fail_on(err, "open the directory", path);
    }
    return fd;
}

/* A dangling link: makes the directory it points to. The kernel ends chains of links long before
 * the recursion gets deep. */
static int link_make(struct rootdir *root, int parent_fd, const char *path, struct err *err)
{
    char to[PATH_BYTES], target[PATH_BYTES];
    size_t n;
    const char *last = name_last(path, &n);
    ssize_t len = readlinkat(parent_fd, last, target, sizeof(target) - 1);

    if (len < 0) {
        errno = EEXIST;
        return fail_on(err, "make the directory", path);
    }
    target[len] = '\0';
    n = target[0] == '/' ? 0 : n;
    int size = snprintf(to, sizeof(to), "%.*s%s%s", (int)n, path, n ? "/" : "",
                        target + strspn(target, "/"));
    if (size >= (int)sizeof(to)) {
        errno = ENAMETOOLONG;
        return fail_on(err, "follow the link", path);
    }
    scoped_fd fd = dir_open(root, to, err);
    return fd < 0 ? fd : 0;
}

static int dir_make(struct rootdir *root, const char *path, struct err *err)
{
    char parent[PATH_BYTES];
    size_t n;
    const char *last = name_last(path, &n);

    memcpy(parent, path, n);
    parent[n] = '\0';
    scoped_fd fd = dir_open(root, parent, err);
    if (fd < 0) {
        return fd;
    }
    if (mkdirat(fd, last, DIR_MODE) < 0) {
        return errno == EEXIST ? link_make(root, fd, path, err)
                               : fail_on(err, "make the directory", path);
    }
    if (root->owns_dirs && fchownat(fd, last, root->uid, root->gid, AT_SYMLINK_NOFOLLOW) < 0) {
        return fail_on(err, "give away the directory", path);
    }
    return 0;
}

/* Archives list files directory by directory, so the last directory is kept open. */
int rootdir_parent(struct rootdir *root, const char *path, struct err *err)
{
    size_t n;

    (void)name_last(path, &n);
    if (root->parent_fd >= 0 && strlen(root->parent) == n && memcmp(root->parent, path, n) == 0) {
        return root->parent_fd;
    }
    rootdir_forget(root);
    memcpy(root->parent, path, n);
    root->parent[n] = '\0';
    root->parent_fd = dir_open(root, root->parent, err);
    return root->parent_fd;
}

int rootdir_stat(struct rootdir *root, const char *path, struct stat *st, struct err *err)
{
    size_t n;
    const char *last = name_last(path, &n);
    int parent = rootdir_parent(root, path, err);

    if (parent < 0) {
        return parent;
    }
    if (fstatat(parent, last[0] ? last : ".", st, AT_SYMLINK_NOFOLLOW) < 0) {
        return errno == ENOENT ? -ENOENT : fail_on(err, "look at", path);
    }
    return 0;
}

bool rootdir_is_dir(const struct rootdir *root, const char *path)
{
    scoped_fd fd = open_below(root, path, O_PATH | O_DIRECTORY);

    return fd >= 0;
}

/* ---- removing ---- */

static void dir_closep(DIR **dir)
{
    if (*dir) {
        (void)closedir(*dir);
    }
}

static int entry_remove(int parent, const char *name, char path[PATH_BYTES],
                        const struct made *keep, struct err *err);

/* `path` is the path of fd; it is used as a buffer and restored. */
static int children_remove(int dir_fd, char path[PATH_BYTES], const struct made *keep,
                           struct err *err)
{
    size_t len = strlen(path);
    scoped(dir_closep) DIR *dir = fdopendir(dir_fd);
    int r = 0;

    if (!dir) {
        (void)close(dir_fd);
        return fail_on(err, "list", path);
    }
    for (struct dirent *entry; r == 0 && (entry = readdir(dir));) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
            continue;
        }
        size_t n = strlen(entry->d_name);
        if (len + 1 + n > UNPACK_PATH_BYTES_MAX) {
            return err_set(err, ENAMETOOLONG, "a directory of the image lies too deep to remove");
        }
        path[len] = '/';
        memcpy(path + len + (len > 0), entry->d_name, n + 1);
        r = entry_remove(dirfd(dir), entry->d_name, path, keep, err);
        path[len] = '\0';
    }
    return r;
}

static int entry_remove(int parent, const char *name, char path[PATH_BYTES],
                        const struct made *keep, struct err *err)
{
    bool kept = keep && made_has(keep, str_of(path));
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0 && errno == ENOENT) {
        return 0;
    }
    if (fd < 0 && (errno == ENOTDIR || errno == ELOOP)) {
        return kept || unlinkat(parent, name, 0) == 0 ? 0 : fail_on(err, "remove", path);
    }
    if (fd < 0) {
        return fail_on(err, "open", path);
    }
    int r = children_remove(fd, path, keep, err);
    if (r == 0 && !kept && unlinkat(parent, name, AT_REMOVEDIR) < 0) {
        r = fail_on(err, "remove", path);
    }
    return r;
}

int rootdir_remove(struct rootdir *root, const char *path, const struct made *keep, struct err *err)
{
    char room[PATH_BYTES];
    size_t n;
    const char *last = name_last(path, &n);
    int parent = rootdir_parent(root, path, err);

    if (parent < 0) {
        return parent;
    }
    memcpy(room, path, strlen(path) + 1);
    int r = entry_remove(parent, last, room, keep, err);
    rootdir_forget(root);
    return r;
}

int rootdir_empty(struct rootdir *root, const char *path, const struct made *keep, struct err *err)
{
    char room[PATH_BYTES];
    int fd = open_below(root, path, O_RDONLY | O_DIRECTORY);

    if (fd == -ENOENT || fd == -ENOTDIR) {
        return 0;
    }
    if (fd < 0) {
        errno = -fd;
        return fail_on(err, "open", path);
    }
    memcpy(room, path, strlen(path) + 1);
    int r = children_remove(fd, room, keep, err);
    rootdir_forget(root);
    return r;
}

/* ---- making ---- */

int rootdir_file(struct rootdir *root, const char *path, struct err *err)
{
    size_t n;
    const char *last = name_last(path, &n);
    int parent = rootdir_parent(root, path, err);

    if (parent < 0) {
        return parent;
    }
    int fd = openat(parent, last, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    return fd < 0 ? fail_on(err, "make the file", path) : fd;
}

int rootdir_dir(struct rootdir *root, const char *path, struct err *err)
{
    size_t n;
    const char *last = name_last(path, &n);
    int parent = rootdir_parent(root, path, err);

    if (parent < 0) {
        return parent;
    }
    return mkdirat(parent, last, DIR_MODE) < 0 ? fail_on(err, "make the directory", path) : 0;
}

int rootdir_symlink(struct rootdir *root, const char *path, const char *to, struct err *err)
{
    size_t n;
    const char *last = name_last(path, &n);
    int parent = rootdir_parent(root, path, err);

    if (parent < 0) {
        return parent;
    }
    return symlinkat(to, parent, last) < 0 ? fail_on(err, "make the link", path) : 0;
}

int rootdir_fifo(struct rootdir *root, const char *path, struct err *err)
{
    size_t n;
    const char *last = name_last(path, &n);
    int parent = rootdir_parent(root, path, err);

    if (parent < 0) {
        return parent;
    }
    return mkfifoat(parent, last, 0600) < 0 ? fail_on(err, "make the pipe", path) : 0;
}

int rootdir_hardlink(struct rootdir *root, const char *path, const char *to, struct err *err)
{
    char from[PATH_BYTES];
    size_t n;
    const char *from_last = name_last(to, &n);

    memcpy(from, to, n);
    from[n] = '\0';
    scoped_fd from_dir = open_below(root, from, O_PATH | O_DIRECTORY);
    if (from_dir < 0) {
        errno = -from_dir;
        return fail_on(err, "find what is linked to,", to);
    }
    const char *last = name_last(path, &n);
    int parent = rootdir_parent(root, path, err);
    if (parent < 0) {
        return parent;
    }
    return linkat(from_dir, from_last, parent, last, 0) < 0 ? fail_on(err, "link to", to) : 0;
}

/* ---- attributes ---- */

/* Sets the owner first: a change of owner clears set-user-id bits. */
int rootdir_attributes(struct rootdir *root, const char *path, const struct attributes *attr,
                       bool is_link, struct err *err)
{
    const struct timespec times[] = {{.tv_nsec = UTIME_OMIT}, attr->mtime};
    size_t n;
    const char *last = name_last(path, &n);
    int parent = rootdir_parent(root, path, err);

    if (parent < 0) {
        return parent;
    }
    const char *name = last[0] ? last : ".";
    if (fchownat(parent, name, attr->uid, attr->gid, AT_SYMLINK_NOFOLLOW) < 0 ||
        (!is_link && fchmodat(parent, name, attr->mode, 0) < 0) ||
        utimensat(parent, name, times, AT_SYMLINK_NOFOLLOW) < 0) {
        return fail_on(err, "set the owner and mode of", path);
    }
    return 0;
}

int rootdir_file_attributes(int fd, const char *path, const struct attributes *attr,
                            struct err *err)
{
    const struct timespec times[] = {{.tv_nsec = UTIME_OMIT}, attr->mtime};

    if (fchown(fd, attr->uid, attr->gid) < 0 || fchmod(fd, attr->mode) < 0 ||
        futimens(fd, times) < 0) {
        return fail_on(err, "set the owner and mode of", path);
    }
    return 0;
}
