#include "keeper/travel/lower_links.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "keeper/disk/mounts.h"
#include "keeper/disk/saved.h"
#include "keeper/travel/layer.h"
#include "lib/base/alloc.h"
#include "lib/base/fd.h"

/* The layout of overlayfs's handles is told in keeper/disk/disk_repair.c. */
enum {
    HANDLE_MAGIC_AT = 1,
    HANDLE_MAGIC = 0xfb,
    HANDLE_TYPE_AT = 4,
    HANDLE_DATA_AT = 21,
    LAYER_PATH_BYTES = KEEPER_LAYER_BYTES + 48,
    OPTION_BYTES = 256,
    LINKS_MAX = 1 << 20,
};

/* A file of a layer with several names, and the index entry of its copy. */
struct copied {
    struct stat lower;
    struct stat upper;
    char *index; /* name of the entry */
};

struct links {
    struct send *send;
    int index_fd;
    int upper_fd;
    struct copied *list;
    size_t n, cap;
    char made[RECORD_PATH_BYTES_MAX + 1]; /* the last directory that was sent for a link */
};

static void links_fini(struct links *links)
{
    for (size_t i = 0; i < links->n; i++) {
        free(links->list[i].index);
    }
    free(links->list);
    fd_closep(&links->index_fd);
    fd_closep(&links->upper_fd);
}

static void dir_closep(DIR **dir)
{
    if (*dir) {
        (void)closedir(*dir);
    }
}

/* ---- the index ---- */

static int digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool lower_handle_of(const char *name, struct lower_handle *out)
{
    unsigned char bytes[HANDLE_DATA_AT + LOWER_HANDLE_BYTES_MAX];
    const size_t n = strlen(name) / 2;

    if (strlen(name) % 2 || n <= HANDLE_DATA_AT || n > sizeof(bytes)) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        const int high = digit(name[2 * i]), low = digit(name[2 * i + 1]);
        if (high < 0 || low < 0) {
            return false;
        }
        bytes[i] = (unsigned char)(high << 4 | low);
    }
    if (bytes[HANDLE_MAGIC_AT] != HANDLE_MAGIC) {
        return false;
    }
    out->bytes = (unsigned)(n - HANDLE_DATA_AT);
    out->type = bytes[HANDLE_TYPE_AT];
    memcpy(out->data, bytes + HANDLE_DATA_AT, out->bytes);
    return true;
}

/* The kernel checks the handle: it names a file of the pool's file system, or none. */
static bool lower_look(struct pool *pool, const struct lower_handle *handle, struct stat *out)
{
    union {
        struct file_handle head;
        unsigned char bytes[sizeof(struct file_handle) + LOWER_HANDLE_BYTES_MAX];
    } kernel = {.head = {.handle_bytes = handle->bytes, .handle_type = handle->type}};

    memcpy(kernel.bytes + offsetof(struct file_handle, f_handle), handle->data, handle->bytes);
    scoped_fd fd = open_by_handle_at(pool_fd(pool), &kernel.head, O_PATH | O_CLOEXEC);
    return fd >= 0 && fstat(fd, out) == 0;
}

static int copied_add(struct links *links, struct pool *pool, const char *name, struct err *err)
{
    struct copied one = {0};
    struct lower_handle handle;

    if (!lower_handle_of(name, &handle) ||
        fstatat(links->index_fd, name, &one.upper, AT_SYMLINK_NOFOLLOW) < 0 ||
        S_ISDIR(one.upper.st_mode) || S_ISCHR(one.upper.st_mode) ||
        !lower_look(pool, &handle, &one.lower) || one.lower.st_nlink < 2) {
        return 0;
    }
    if (links->n == LINKS_MAX) {
        return err_set(err, EOVERFLOW, "the sandbox has too many files with several names");
    }
    if (links->n == links->cap) {
        links->cap = links->cap ? 2 * links->cap : 16;
        links->list = reallocarray(links->list, links->cap, sizeof(struct copied));
        if (!links->list) {
            abort();
        }
    }
    one.upper.st_nlink = one.upper.st_nlink < 2 ? 2 : one.upper.st_nlink; /* it gets more */
    one.index = xstrdup(name);
    links->list[links->n++] = one;
    return 0;
}

static int index_read(struct links *links, struct pool *pool, struct err *err)
{
    int fd = openat(links->index_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    scoped(dir_closep) DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    int r = dir ? 0 : err_sys(err, "list the index of the disk");

    for (struct dirent *entry; r == 0 && (entry = readdir(dir));) {
        r = copied_add(links, pool, entry->d_name, err);
    }
    return r;
}

/* ---- the names ---- */

/* Inode numbers are those of the layer, and layers share a range: the rest tells them apart. */
static bool is_same(const struct stat *a, const struct stat *b)
{
    return a->st_ino == b->st_ino && a->st_nlink == b->st_nlink && a->st_mode == b->st_mode &&
           a->st_uid == b->st_uid && a->st_gid == b->st_gid && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

static const struct copied *copied_of(const struct links *links, const struct stat *st)
{
    struct stat own;

    if (S_ISDIR(st->st_mode) || st->st_nlink < 2 ||
        fstatat(links->upper_fd, links->send->path, &own, AT_SYMLINK_NOFOLLOW) == 0) {
        return NULL; /* it has one name, or is in upper/ */
    }
    for (size_t i = 0; i < links->n; i++) {
        if (is_same(&links->list[i].lower, st)) {
            return &links->list[i];
        }
    }
    return NULL;
}

/* Sends the directories of send->path that upper/ does not have, as the sandbox sees them. */
static int parents_send(struct links *links, int merged_fd, struct err *err)
{
    struct send *send = links->send;
    char path[RECORD_PATH_BYTES_MAX + 1];
    const size_t len = send->path_len;
    struct stat st;
    int r = 0;

    memcpy(path, send->path, len + 1);
    for (char *slash = strchr(path, '/'); r == 0 && slash; slash = strchr(slash + 1, '/')) {
        const size_t n = (size_t)(slash - path);
        const bool was_made =
            strncmp(links->made, path, n) == 0 && (links->made[n] == '/' || !links->made[n]);
        *slash = '\0';
        if (!was_made && fstatat(links->upper_fd, path, &st, AT_SYMLINK_NOFOLLOW) < 0) {
            scoped_fd fd = openat(merged_fd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
            send_leave(send, n);
            r = fd < 0 || fstat(fd, &st) < 0 ? err_sys(err, "open %.200s", path)
                                             : send_dir(send, fd, &st, err);
            r = r < 0 ? r : send_stamp(send, &st, err);
            memcpy(links->made, path, n + 1);
        }
        *slash = '/';
        memcpy(send->path, path, len + 1);
        send->path_len = len;
    }
    return r;
}

static int merged_walk(struct links *links, int merged_fd, int fd, struct err *err)
{
    struct send *send = links->send;
    const size_t path_len = send->path_len;
    scoped(dir_closep) DIR *dir = fdopendir(fd);
    int r = 0;

    if (!dir) {
        r = err_sys(err, "list %.200s", send->path);
        (void)close(fd);
        return r;
    }
    for (struct dirent *entry; r == 0 && (entry = readdir(dir));) {
        struct stat st;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
            continue;
        }
        r = send_enter(send, entry->d_name, err);
        if (r == 0 && fstatat(fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
            r = err_sys(err, "look at %.200s", send->path);
        }
        const struct copied *copied = r == 0 ? copied_of(links, &st) : NULL;
        if (copied) {
            r = parents_send(links, merged_fd, err);
            r = r < 0 ? r : send_file(send, links->index_fd, copied->index, &copied->upper, err);
        } else if (r == 0 && S_ISDIR(st.st_mode)) {
            int below = openat(fd, entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
            r = below < 0 ? err_sys(err, "open %.200s", send->path)
                          : merged_walk(links, merged_fd, below, err);
        }
        send_leave(send, path_len);
    }
    return r;
}

/* ---- the mount ---- */

static int part_mount(const char *from, const char *to, struct err *err)
{
    scoped_fd fd = mounts_clone(AT_FDCWD, from, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NODEV, err);

    return fd < 0 ? fd : mounts_attach(fd, AT_FDCWD, to, err);
}

static int parts_mount(const struct keeper_travel *what, char lowerdir[OPTION_BYTES],
                       struct err *err)
{
    char from[LAYER_PATH_BYTES], to[16];
    int len = snprintf(lowerdir, OPTION_BYTES, "upper/" POOL_UPPER);

    (void)snprintf(from, sizeof(from), "/pool/saved/%s/" SAVED_DISK, what->name);
    int r = part_mount(from, "/upper", err);
    for (uint32_t i = 0; r == 0 && i < what->layers_n; i++) {
        const char *layer = what->layers[i];
        const bool is_saved = strncmp(layer, KEEPER_SAVED_PREFIX, strlen(KEEPER_SAVED_PREFIX)) == 0;
        (void)snprintf(from, sizeof(from),
                       is_saved ? "/pool/saved/%s/" SAVED_DISK "/" POOL_UPPER : "/pool/layers/%s",
                       layer);
        (void)snprintf(to, sizeof(to), "/l%u", i);
        len += snprintf(lowerdir + len, (size_t)(OPTION_BYTES - len), ":l%u", i);
        r = part_mount(from, to, err);
    }
    return r;
}

/* All directories as lower ones: overlayfs then writes nothing, and does not ask the index. */
static int merged_mount(const struct keeper_travel *what, struct err *err)
{
    char lowerdir[OPTION_BYTES];
    const struct mount_option options[] = {
        {"source", "atoll"},
        {"lowerdir", lowerdir},
        {"index", "off"},
        {"redirect_dir", "follow"},
        {"metacopy", "off"},
        {"xino", "off"},
        {0},
    };

    /* The options' paths are relative, to be short. */
    if (unshare(CLONE_NEWNS) < 0 || chdir("/") < 0) {
        return err_sys(err, "make a mount namespace");
    }
    int r = parts_mount(what, lowerdir, err);
    return r < 0 ? r : mounts_new("overlay", options, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NODEV, err);
}

int lower_links_send(struct send *send, struct pool *pool, int disk_fd,
                     const struct keeper_travel *what, struct err *err)
{
    scoped(links_fini) struct links links = {
        .send = send,
        .index_fd =
            openat(disk_fd, POOL_WORK "/index", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW),
        .upper_fd = openat(disk_fd, POOL_UPPER, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW),
    };

    if (links.index_fd < 0) {
        return errno == ENOENT ? 0 : err_sys(err, "open the index of the disk");
    }
    int r = index_read(&links, pool, err);
    if (r < 0 || links.n == 0 || what->layers_n == 0) {
        return r;
    }
    scoped_fd merged = merged_mount(what, err);
    if (merged < 0) {
        return merged;
    }
    int top = openat(merged, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    send_leave(send, 0);
    return top < 0 ? err_sys(err, "open the disk over its layers")
                   : merged_walk(&links, merged, top, err);
}
