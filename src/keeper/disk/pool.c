#include "keeper/disk/pool.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/btrfs.h>
#include <linux/magic.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "keeper/disk/charge.h"
#include "keeper/disk/disk_repair.h"
#include "keeper/disk/image.h"
#include "keeper/disk/spare.h"
#include "keeper/disk/subvol.h"
#include "lib/base/alloc.h"
#include "lib/base/fd.h"
#include "lib/base/id.h"
#include "lib/base/log.h"
#include "lib/base/pid_wait.h"
#include "wire/keeper.h"

enum {
    QUOTA_ENABLE_SIMPLE = 4, /* BTRFS_QUOTA_CTL_ENABLE_SIMPLE_QUOTA: kernel 6.7, in newer headers */
    TRASH_NAME_BYTES = 17,
    DISK_EMPTY_BYTES = 16 * 1024, /* the root of a subvolume, which btrfs counts at commit */
    GROUPS_SWEEP_EVERY = 256,     /* after this many removed disks */
    ASIDE_NICE = 10,
};

struct pool {
    int fd;
    int sandboxes_fd;
    int host_ns_fd; /* mount namespace in which the pool was opened; it has the host's programs */
    bool btrfs;
    bool limits_disk;
    bool simple; /* quotas charge the writer, not the holder, of data */
    unsigned removed_n;
    struct spares *spares; /* NULL where none are kept */
    struct err why;        /* why disks have no limit */
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

static bool is_dots(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

int pool_names_each(int dir_fd, enum pool_names which, void (*each)(void *ctx, const char *name),
                    void *ctx, struct err *err)
{
    int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    scoped(dir_closep) DIR *dir = fd < 0 ? NULL : fdopendir(fd);

    if (!dir) {
        fd_closep(&fd);
        return err_sys(err, "list a directory of the pool");
    }
    for (struct dirent *entry; (entry = readdir(dir));) {
        enum pool_names is = entry->d_name[0] == '.' ? POOL_HIDDEN : POOL_SHOWN;
        if (is == which && !is_dots(entry->d_name)) {
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

/* Opens the pool's directory, with btrfs mounted over it when that is needed and possible. */
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
        fd = dir_open(path, err); /* the file system that is mounted there now */
        if (fd < 0) {
            return fd;
        }
    }
    /* Files of a jail's root belong to root on this disk: no other user may enter. */
    if (fchmod(fd, 0700) < 0) {
        return err_sys(err, "shut the pool %s to others", path);
    }
    pool->btrfs = on_btrfs(fd);
    pool->fd = move_fd(&fd);
    return 0;
}

/* Simple quotas charge extents to the subvolume that wrote them, and cost almost nothing; full
 * quotas walk back references. A file system that has quotas of either kind keeps them. */
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
    pool->simple = subvol_quotas_are_simple(pool->fd);
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
        r = subdir_make(pool->fd, "saved", 0700, err);
    }
    if (r == 0) {
        r = subdir_make(pool->fd, "trash", 0700, err);
    }
    if (r == 0) {
        r = subdir_make(pool->fd, CHARGE_DIR, 0700, err);
    }
    if (r == 0) {
        r = subdir_make(pool->fd, POOL_EMPTY, 0755, err);
    }
    if (r < 0) {
        return r;
    }
    pool->sandboxes_fd = openat(pool->fd, "sandboxes", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (pool->sandboxes_fd < 0) {
        return err_sys(err, "open sandboxes in the pool");
    }
    pool->spares = pool->simple ? spares_open(pool->fd, pool->sandboxes_fd) : NULL;
    *out = move_ptr(&pool);
    return 0;
}

void pool_close(struct pool *pool)
{
    if (!pool) {
        return;
    }
    spares_close(pool->spares);
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

    if (sandboxes < 0 || pool_names_each(sandboxes, POOL_SHOWN, count_one, &count, &err) < 0 ||
        count > 0) {
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

bool pool_on_btrfs(const struct pool *pool)
{
    return pool->btrfs;
}

bool pool_quotas_are_simple(const struct pool *pool)
{
    return pool->simple;
}

int pool_host_ns(const struct pool *pool)
{
    return pool->host_ns_fd;
}

int pool_unlock_child(struct pool *pool, struct err *err)
{
    scoped_fd fd = openat(pool->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0 || dup3(fd, pool->fd, O_CLOEXEC) < 0) {
        return err_sys(err, "open the pool anew");
    }
    return 0;
}

/* The child must hold neither the keeper's clients nor its locks. */
static int aside_enter(struct pool *pool, pid_t parent)
{
    struct err err;

    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent ||
        pool_unlock_child(pool, &err) < 0) {
        return -1;
    }
    const unsigned a = (unsigned)pool->fd, b = (unsigned)pool->sandboxes_fd;
    const unsigned low = a < b ? a : b, high = a < b ? b : a;
    for (unsigned fd = STDERR_FILENO + 1; fd < high; fd++) {
        if (fd != low) {
            (void)close((int)fd);
        }
    }
    return close_range(high + 1, ~0U, 0);
}

void pool_in_background(struct pool *pool, int (*work)(struct pool *pool, const char *id),
                        const char *id)
{
    const pid_t parent = getpid();
    pid_t pid = fork();

    if (pid < 0) {
        log_warn("no process can be started beside the keeper: %s", strerrordesc_np(errno));
    }
    if (pid == 0) {
        (void)setpriority(PRIO_PROCESS, 0, ASIDE_NICE);
        _exit(aside_enter(pool, parent) < 0 || work(pool, id) < 0);
    }
}

/* ---- one disk ---- */

static int disk_volume_create(struct pool *pool, const char *id)
{
    if (!pool->btrfs) {
        return mkdirat(pool->sandboxes_fd, id, 0755) < 0 ? -errno : 0;
    }
    return subvol_create(pool->sandboxes_fd, id);
}

int pool_disk_open(struct pool *pool, const char *id)
{
    int fd = openat(pool->sandboxes_fd, id, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

    return fd < 0 ? -errno : fd;
}

bool pool_disk_exists(struct pool *pool, const char *id)
{
    return faccessat(pool->sandboxes_fd, id, F_OK, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT;
}

static int disk_limit(struct pool *pool, int disk_fd, const char *id, uint32_t disk_mb,
                      struct err *err)
{
    int r = pool->limits_disk ? charge_bound(pool, disk_fd, id, (uint64_t)disk_mb << 20) : 0;

    return r < 0 ? err_code(err, -r, "limit the disk of jail %s", id) : 0;
}

int pool_disk_bound(struct pool *pool, const char *id, uint32_t disk_mb, struct err *err)
{
    scoped_fd fd = pool_disk_open(pool, id);

    return fd < 0 ? err_code(err, -fd, "open the disk of jail %s", id)
                  : disk_limit(pool, fd, id, disk_mb, err);
}

static int disk_fill(struct pool *pool, const char *id, uint32_t disk_mb, struct err *err)
{
    scoped_fd fd = pool_disk_open(pool, id);
    if (fd < 0) {
        return err_code(err, -fd, "open the disk of jail %s", id);
    }
    int r = disk_limit(pool, fd, id, disk_mb, err);
    if (r < 0) {
        return r;
    }
    /* upper/ is the root directory of the overlay, and so / of the jail: 0755, owned by root. */
    if (mkdirat(fd, POOL_UPPER, 0755) < 0 || mkdirat(fd, POOL_WORK, 0700) < 0) {
        return err_sys(err, "make the disk of jail %s", id);
    }
    return 0;
}

static void disk_undo(struct pool *pool, const char *id)
{
    struct err err;

    if (pool_disk_remove(pool, id, &err) < 0) {
        log_warn("%s", err.msg);
    }
}

int pool_disk_create(struct pool *pool, const char *id, uint32_t disk_mb, struct err *err)
{
    int r = spares_take(pool->spares, id);
    const bool is_spare = r == 0;

    r = r == -ENOENT ? disk_volume_create(pool, id) : r;
    if (r < 0) {
        return err_code(err, -r, "make the disk of jail %s", id);
    }
    r = is_spare ? pool_disk_bound(pool, id, disk_mb, err) : disk_fill(pool, id, disk_mb, err);
    if (r < 0) {
        disk_undo(pool, id);
    }
    return r;
}

int pool_tree_copy(struct pool *pool, int source_fd, int to_fd, struct err *err)
{
    char from[48], to[32];
    pid_t pid = fork();

    if (pid < 0) {
        return err_sys(err, "start a process to copy a disk");
    }
    if (pid == 0) {
        (void)snprintf(from, sizeof(from), "/proc/self/fd/%d/" POOL_UPPER,
                       fcntl(source_fd, F_DUPFD, 10));
        (void)snprintf(to, sizeof(to), "/proc/self/fd/%d/", fcntl(to_fd, F_DUPFD, 10));
        if (setns(pool->host_ns_fd, CLONE_NEWNS) == 0) {
            (void)execl("/bin/cp", "cp", "-a", "--reflink=auto", "--", from, to, (char *)NULL);
        }
        _exit(127);
    }
    return pid_wait_success(pid) ? 0 : err_set(err, EIO, "cp could not copy the files of a disk");
}

/* Without btrfs: copies file by file. work/ is not copied: it refers to the files by inode
 * number. */
static int plain_copy(struct pool *pool, int source_fd, const char *id, struct err *err)
{
    if (mkdirat(pool->sandboxes_fd, id, 0755) < 0) {
        return err_sys(err, "make the disk of jail %s", id);
    }
    scoped_fd fd = pool_disk_open(pool, id);
    int r = fd < 0 ? err_set(err, -fd, "open the disk of jail %s", id)
                   : pool_tree_copy(pool, source_fd, fd, err);
    if (r == 0 && mkdirat(fd, POOL_WORK, 0700) < 0) {
        r = err_sys(err, "make the disk of jail %s", id);
    }
    return r;
}

static int btrfs_copy(struct pool *pool, int saved_fd, int source_fd, const char *id,
                      struct err *err)
{
    struct charge charge;
    int r = charge_inherit(pool, saved_fd, source_fd, id, &charge, err);

    if (r < 0) {
        return r;
    }
    r = subvol_snapshot(source_fd, pool->sandboxes_fd, id, false, charge.group);
    if (r < 0) {
        return err_code(err, -r, "copy a saved disk for jail %s", id);
    }
    if (!pool->simple) {
        return 0;
    }
    if (!charge.group) {
        scoped_fd fd = pool_disk_open(pool, id);
        charge.group = fd < 0 ? 0 : subvol_id(fd);
    }
    r = charge_begin(pool, &charge, err);
    if (r < 0) {
        disk_undo(pool, id);
    }
    return r;
}

int pool_disk_copy(struct pool *pool, int saved_fd, int source_fd, const char *id, struct err *err)
{
    if (pool->btrfs) {
        int r = btrfs_copy(pool, saved_fd, source_fd, id, err);
        if (r < 0) {
            return r;
        }
    } else if (faccessat(pool->sandboxes_fd, id, F_OK, AT_SYMLINK_NOFOLLOW) == 0) {
        return err_set(err, EEXIST, "jail %s has a disk already", id);
    } else if (plain_copy(pool, source_fd, id, err) < 0) {
        disk_undo(pool, id);
        return -err->code;
    }
    int r = pool_disk_reuse(pool, id, err);
    if (r < 0) {
        disk_undo(pool, id);
    }
    return r;
}

int pool_disk_reuse(struct pool *pool, const char *id, struct err *err)
{
    scoped_fd fd = pool_disk_open(pool, id);

    if (fd < 0) {
        return err_set(err, -fd, "jail %s has no disk to go on with", id);
    }
    int r = pool->limits_disk ? charge_lift(pool, fd, id) : 0;
    if (r < 0) {
        return err_code(err, -r, "use the disk of jail %s", id);
    }
    r = disk_repair(fd, pool->btrfs ? subvol_id(fd) : 0, err);
    return r < 0 ? err_wrap(err, "use the disk of jail %s", id) : 0;
}

/* Runs in a child: the duration depends on the tenant's files. The caller reaps no children:
 * SIGCHLD is ignored. */
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

int pool_trash(struct pool *pool, int dir_fd, const char *name, struct err *err)
{
    char away[TRASH_NAME_BYTES + 7] = "trash/";

    id_alnum(away + strlen(away), TRASH_NAME_BYTES - 1);
    if (renameat(dir_fd, name, pool->fd, away) < 0) {
        return errno == ENOENT ? 0 : err_sys(err, "put away %s", name);
    }
    return tree_remove(pool, strchr(away, '/') + 1, err);
}

/* A quota group is not removed with its subvolume, because its data goes later, or is held by
 * others. */
static int groups_sweep(struct pool *pool, const char *id)
{
    (void)id;
    return subvol_groups_sweep(pool->fd);
}

int pool_disk_remove(struct pool *pool, const char *id, struct err *err)
{
    struct charge charge;

    if (!charge_read(pool, id, &charge) && spares_keep(pool->spares, id)) {
        return 0;
    }
    int r = pool->btrfs ? subvol_destroy(pool->sandboxes_fd, id) : -EINVAL;
    if (r == 0 || r == -ENOENT) {
        charge_remove(pool, id);
        if (pool->limits_disk && ++pool->removed_n % GROUPS_SWEEP_EVERY == 0) {
            pool_in_background(pool, groups_sweep, id);
        }
        return 0;
    }
    /* Not a subvolume: the pool is not on btrfs, or was not when the disk was made. */
    return r == -EINVAL ? pool_trash(pool, pool->sandboxes_fd, id, err)
                        : err_code(err, -r, "remove the disk of jail %s", id);
}

static void trash_remove(void *ctx, const char *name)
{
    struct err err;

    if (tree_remove(ctx, name, &err) < 0) {
        log_warn("%s", err.msg);
    }
}

static void record_sweep(void *ctx, const char *id)
{
    struct pool *pool = ctx;

    if (faccessat(pool->sandboxes_fd, id, F_OK, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT) {
        charge_remove(pool, id);
    }
}

void pool_sweep(struct pool *pool)
{
    struct err err;
    scoped_fd trash = openat(pool->fd, "trash", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    scoped_fd charges = openat(pool->fd, CHARGE_DIR, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    spares_sweep(pool->spares);
    if (trash < 0 || pool_names_each(trash, POOL_SHOWN, trash_remove, pool, &err) < 0) {
        log_warn("the pool's trash cannot be read");
    }
    if (charges < 0 || pool_names_each(charges, POOL_SHOWN, record_sweep, pool, &err) < 0) {
        log_warn("the records of what disks are charged for cannot be read");
    }
    if (pool->limits_disk) {
        pool_in_background(pool, groups_sweep, "");
    }
}

uint64_t pool_disk_bytes(struct pool *pool, const char *id)
{
    struct charge charge;
    scoped_fd fd = pool->limits_disk ? pool_disk_open(pool, id) : -1;

    if (fd < 0) {
        return 0;
    }
    uint64_t bytes =
        charge_read(pool, id, &charge) ? charge_used(fd, &charge) : subvol_bytes(fd, 0);
    return bytes > DISK_EMPTY_BYTES ? bytes : DISK_EMPTY_BYTES;
}

uint64_t pool_disk_limit(struct pool *pool, const char *id)
{
    struct charge charge;
    scoped_fd fd = pool->limits_disk ? pool_disk_open(pool, id) : -1;

    if (fd < 0) {
        return 0;
    }
    return charge_read(pool, id, &charge) ? charge.limit_bytes : subvol_limit_bytes(fd, 0);
}

int pool_disk_saving(struct pool *pool, const char *id, struct err *err)
{
    return spares_bar(pool->spares, id, err);
}

int pool_each(struct pool *pool, void (*each)(void *ctx, const char *id), void *ctx,
              struct err *err)
{
    return pool_names_each(pool->sandboxes_fd, POOL_SHOWN, each, ctx, err);
}
