#include "keeper/pool.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/btrfs.h>
#include <linux/btrfs_tree.h>
#include <linux/magic.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/log.h"
#include "keeper/image.h"
#include "keeper/keeper.h"

enum {
    QUOTA_ENABLE_SIMPLE = 4, /* BTRFS_QUOTA_CTL_ENABLE_SIMPLE_QUOTA: kernel 6.7, newer headers */
    TRASH_NAME_BYTES = 17,
};

struct pool {
    int fd;
    int sandboxes_fd;
    int host_ns_fd; /* the mount namespace it was opened in, which has the host's programs */
    bool btrfs;
    bool limits_disk;
    struct err why; /* why not */
};

static bool on_btrfs(int fd)
{
    struct statfs fs;

    return fstatfs(fd, &fs) == 0 && fs.f_type == BTRFS_SUPER_MAGIC;
}

static void dir_closep(DIR **dir)
{
    if (*dir) {
        (void)closedir(*dir);
    }
}

static int names_each(int dir_fd, void (*each)(void *ctx, const char *name), void *ctx,
                      struct err *err)
{
    int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    scoped(dir_closep) DIR *dir = fd < 0 ? NULL : fdopendir(fd);

    if (!dir) {
        fd_closep(&fd);
        return err_sys(err, "list a directory of the pool");
    }
    for (struct dirent *entry; (entry = readdir(dir));) {
        if (entry->d_name[0] != '.') {
            each(ctx, entry->d_name);
        }
    }
    return 0;
}

/* ---- opening ---- */

static int dir_open(const char *path, struct err *err)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

    return fd < 0 ? err_sys(err, "open the pool %s", path) : fd;
}

/* The pool's directory, with btrfs mounted over it when that is needed and possible. */
static int pool_dir_open(struct pool *pool, const char *path, uint64_t image_bytes, struct err *err)
{
    if (mkdir(path, 0700) < 0 && errno != EEXIST) {
        return err_sys(err, "make the pool %s", path);
    }
    scoped_fd fd = dir_open(path, err);
    if (fd < 0) {
        return fd;
    }
    if (!on_btrfs(fd) && image_mount(path, image_bytes, &pool->why) == 0) {
        fd_closep(&fd);
        fd = dir_open(path, err); /* what is mounted there now */
        if (fd < 0) {
            return fd;
        }
    }
    /* What root of a jail owns is root's on this disk: nobody else may come near it. */
    if (fchmod(fd, 0700) < 0) {
        return err_sys(err, "shut the pool %s to others", path);
    }
    pool->btrfs = on_btrfs(fd);
    pool->fd = move_fd(&fd);
    return 0;
}

/* Simple quotas charge extents to the subvolume that wrote them, and cost next to nothing; full
 * ones walk back references. A filesystem that has either already keeps it. */
static void quota_enable(struct pool *pool)
{
    struct btrfs_ioctl_quota_ctl_args args = {.cmd = QUOTA_ENABLE_SIMPLE};

    if (!pool->btrfs) {
        return;
    }
    int r = ioctl(pool->fd, BTRFS_IOC_QUOTA_CTL, &args);
    if (r < 0 && errno == EINVAL) {
        args = (struct btrfs_ioctl_quota_ctl_args){.cmd = BTRFS_QUOTA_CTL_ENABLE};
        r = ioctl(pool->fd, BTRFS_IOC_QUOTA_CTL, &args);
    }
    if (r < 0 && errno != EEXIST) {
        (void)err_sys(&pool->why, "enable quotas in the pool");
        return;
    }
    pool->limits_disk = true;
}

static int subdir_make(int fd, const char *name, mode_t mode, struct err *err)
{
    if (mkdirat(fd, name, mode) < 0 && errno != EEXIST) {
        return err_sys(err, "make %s in the pool", name);
    }
    return 0;
}

static void pool_closep(struct pool **pool)
{
    pool_close(*pool);
}

int pool_open(const char *path, uint64_t image_bytes, struct pool **out, struct err *err)
{
    scoped(pool_closep) struct pool *pool = xnew(struct pool);

    pool->fd = pool->sandboxes_fd = -1;
    pool->host_ns_fd = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
    if (pool->host_ns_fd < 0) {
        return err_sys(err, "open the mount namespace");
    }
    int r = pool_dir_open(pool, path, image_bytes, err);
    if (r < 0) {
        return r;
    }
    quota_enable(pool);
    r = subdir_make(pool->fd, "layers", 0755, err);
    if (r == 0) {
        r = subdir_make(pool->fd, "layers/" KEEPER_LAYER_EMPTY, 0755, err);
    }
    if (r == 0) {
        r = subdir_make(pool->fd, "sandboxes", 0700, err);
    }
    if (r == 0) {
        r = subdir_make(pool->fd, "trash", 0700, err);
    }
    if (r < 0) {
        return r;
    }
    pool->sandboxes_fd = openat(pool->fd, "sandboxes", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (pool->sandboxes_fd < 0) {
        return err_sys(err, "open sandboxes in the pool");
    }
    *out = move_ptr(&pool);
    return 0;
}

void pool_close(struct pool *pool)
{
    if (!pool) {
        return;
    }
    fd_closep(&pool->sandboxes_fd);
    fd_closep(&pool->host_ns_fd);
    fd_closep(&pool->fd);
    free(pool);
}

static void count_one(void *ctx, const char *name)
{
    size_t *count = ctx;

    (void)name;
    ++*count;
}

void pool_unmount_empty(const char *path)
{
    struct err err;
    size_t count = 0;
    scoped_fd fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    scoped_fd sandboxes =
        fd < 0 ? -1 : openat(fd, "sandboxes", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

    if (sandboxes < 0 || names_each(sandboxes, count_one, &count, &err) < 0 || count > 0) {
        return;
    }
    fd_closep(&sandboxes);
    fd_closep(&fd);
    image_unmount(path);
}

bool pool_limits_disk(const struct pool *pool)
{
    return pool->limits_disk;
}

const char *pool_limits_why(const struct pool *pool)
{
    return pool->limits_disk ? "" : pool->why.msg;
}

int pool_fd(const struct pool *pool)
{
    return pool->fd;
}

/* ---- one disk ---- */

static int disk_volume_create(struct pool *pool, const char *id)
{
    struct btrfs_ioctl_vol_args args = {0};

    if (!pool->btrfs) {
        return mkdirat(pool->sandboxes_fd, id, 0755);
    }
    assert(strlen(id) < sizeof(args.name));
    memcpy(args.name, id, strlen(id));
    return ioctl(pool->sandboxes_fd, BTRFS_IOC_SUBVOL_CREATE, &args);
}

static int disk_fill(struct pool *pool, const char *id, uint32_t disk_mb, struct err *err)
{
    scoped_fd fd = openat(pool->sandboxes_fd, id, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) {
        return err_sys(err, "open the disk of jail %s", id);
    }
    if (pool->limits_disk) {
        struct btrfs_ioctl_qgroup_limit_args args = {
            .qgroupid = 0, /* that of the subvolume `fd` lies in */
            .lim = {.flags = BTRFS_QGROUP_LIMIT_MAX_RFER, .max_rfer = (uint64_t)disk_mb << 20},
        };
        if (ioctl(fd, BTRFS_IOC_QGROUP_LIMIT, &args) < 0) {
            return err_sys(err, "limit the disk of jail %s", id);
        }
    }
    /* The overlay's root directory is upper itself: it is / of the jail, so 0755 and root's. */
    if (mkdirat(fd, POOL_UPPER, 0755) < 0 || mkdirat(fd, POOL_WORK, 0700) < 0) {
        return err_sys(err, "make the disk of jail %s", id);
    }
    return 0;
}

int pool_disk_create(struct pool *pool, const char *id, uint32_t disk_mb, struct err *err)
{
    if (disk_volume_create(pool, id) < 0) {
        return err_sys(err, "make the disk of jail %s", id);
    }
    int r = disk_fill(pool, id, disk_mb, err);
    if (r < 0) {
        struct err second;
        if (pool_disk_remove(pool, id, &second) < 0) {
            log_warn("%s", second.msg);
        }
    }
    return r;
}

/* In a child of its own: a tree of files takes as long as its tenant made it. The caller reaps no
 * children: SIGCHLD is ignored. */
static int tree_remove(struct pool *pool, const char *name, struct err *err)
{
    pid_t pid = fork();

    if (pid < 0) {
        return err_sys(err, "start a process to remove a disk");
    }
    if (pid == 0) {
        scoped_fd trash = openat(pool->fd, "trash", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (setns(pool->host_ns_fd, CLONE_NEWNS) == 0 && fchdir(trash) == 0) {
            (void)execl("/bin/rm", "rm", "-rf", "--one-file-system", "--", name, (char *)NULL);
        }
        _exit(127);
    }
    return 0;
}

static int plain_remove(struct pool *pool, const char *id, struct err *err)
{
    char name[TRASH_NAME_BYTES + 7] = "trash/";

    id_alnum(name + strlen(name), TRASH_NAME_BYTES - 1);
    if (renameat(pool->sandboxes_fd, id, pool->fd, name) < 0) {
        return errno == ENOENT ? 0 : err_sys(err, "put away the disk of jail %s", id);
    }
    return tree_remove(pool, strchr(name, '/') + 1, err);
}

int pool_disk_remove(struct pool *pool, const char *id, struct err *err)
{
    struct btrfs_ioctl_vol_args args = {0};

    if (!pool->btrfs) {
        return plain_remove(pool, id, err);
    }
    assert(strlen(id) < sizeof(args.name));
    memcpy(args.name, id, strlen(id));
    if (ioctl(pool->sandboxes_fd, BTRFS_IOC_SNAP_DESTROY, &args) == 0 || errno == ENOENT) {
        return 0;
    }
    /* Not a subvolume: a disk from a time when the pool was not on btrfs. */
    return errno == EINVAL ? plain_remove(pool, id, err)
                           : err_sys(err, "remove the disk of jail %s", id);
}

static void trash_remove(void *ctx, const char *name)
{
    struct err err;

    if (tree_remove(ctx, name, &err) < 0) {
        log_warn("%s", err.msg);
    }
}

void pool_sweep(struct pool *pool)
{
    struct err err;
    scoped_fd trash = openat(pool->fd, "trash", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (trash < 0 || names_each(trash, trash_remove, pool, &err) < 0) {
        log_warn("the pool's trash cannot be read");
    }
}

/* The id of the subvolume that fd lies in: also that of its quota group, at level 0. */
static uint64_t subvolume_id(int fd)
{
    struct btrfs_ioctl_ino_lookup_args args = {.objectid = BTRFS_FIRST_FREE_OBJECTID};

    return ioctl(fd, BTRFS_IOC_INO_LOOKUP, &args) < 0 ? 0 : args.treeid;
}

uint64_t pool_disk_bytes(struct pool *pool, const char *id)
{
    scoped_fd fd = openat(pool->sandboxes_fd, id, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    uint64_t subvolume = fd >= 0 && pool->limits_disk ? subvolume_id(fd) : 0;
    struct btrfs_ioctl_search_args args = {.key = {.tree_id = BTRFS_QUOTA_TREE_OBJECTID,
                                                   .min_type = BTRFS_QGROUP_INFO_KEY,
                                                   .max_type = BTRFS_QGROUP_INFO_KEY,
                                                   .min_offset = subvolume,
                                                   .max_offset = subvolume,
                                                   .max_transid = UINT64_MAX,
                                                   .nr_items = 1}};
    struct btrfs_ioctl_search_header header;
    struct btrfs_qgroup_info_item item;

    if (!subvolume || ioctl(fd, BTRFS_IOC_TREE_SEARCH, &args) < 0 || args.key.nr_items != 1) {
        return 0;
    }
    memcpy(&header, args.buf, sizeof(header));
    if (header.len < sizeof(item)) {
        return 0;
    }
    memcpy(&item, args.buf + sizeof(header), sizeof(item));
    return le64toh(item.rfer);
}

int pool_each(struct pool *pool, void (*each)(void *ctx, const char *id), void *ctx,
              struct err *err)
{
    return names_each(pool->sandboxes_fd, each, ctx, err);
}
