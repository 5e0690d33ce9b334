#include "keeper/disk/saved.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "keeper/disk/charge.h"
#include "keeper/disk/subvol.h"
#include "lib/base/fd.h"
#include "lib/base/id.h"
#include "lib/base/log.h"
#include "wire/keeper.h"

enum {
    NAME_ROOM = KEEPER_SAVED_BYTES + 24,
    GONE_BYTES = 9,
};

static int root_open(struct pool *pool, struct err *err)
{
    int fd = openat(pool_fd(pool), "saved", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

    return fd < 0 ? err_sys(err, "open what was saved") : fd;
}

static int dir_open(int root, const char *name)
{
    return openat(root, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
}

/* ---- making one ---- */

bool saved_exists(struct pool *pool, const char *name)
{
    struct err err;
    scoped_fd root = root_open(pool, &err);

    return root >= 0 && faccessat(root, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

int saved_begin(struct pool *pool, const char *name, struct err *err)
{
    char half[NAME_ROOM];
    scoped_fd root = root_open(pool, err);

    if (root < 0) {
        return root;
    }
    (void)snprintf(half, sizeof(half), ".%s", name);
    if (faccessat(root, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0) {
        return err_set(err, EEXIST, "%s exists already", name);
    }
    if (mkdirat(root, half, 0700) < 0) {
        return errno == EEXIST ? err_set(err, EEXIST, "%s is just being made", name)
                               : err_sys(err, "make %s", name);
    }
    int fd = dir_open(root, half);
    return fd < 0 ? err_sys(err, "open %s", name) : fd;
}

static int plain_take(struct pool *pool, int begun_fd, int disk_fd, struct err *err)
{
    if (mkdirat(begun_fd, SAVED_DISK, 0700) < 0) {
        return err_sys(err, "make a place for the disk");
    }
    scoped_fd to = dir_open(begun_fd, SAVED_DISK);
    return to < 0 ? err_sys(err, "open the place of the disk")
                  : pool_tree_copy(pool, disk_fd, to, err);
}

int saved_disk_take(struct pool *pool, int begun_fd, const char *id, bool stop, struct err *err)
{
    uint64_t group = 0;
    scoped_fd disk = pool_disk_open(pool, id);

    if (disk < 0) {
        return err_set(err, -disk, "jail %s has no disk", id);
    }
    if (!pool_on_btrfs(pool)) {
        return plain_take(pool, begun_fd, disk, err);
    }
    int r = pool_disk_saving(pool, id, err);
    r = r < 0 ? r : charge_keep(pool, disk, id, stop, begun_fd, &group, err);
    if (r < 0) {
        return r;
    }
    r = subvol_snapshot(disk, begun_fd, SAVED_DISK, true, group);
    return r < 0 ? err_code(err, -r, "take a snapshot of the disk of jail %s", id) : 0;
}

int saved_commit(struct pool *pool, int begun_fd, const char *name, bool sync, struct err *err)
{
    char half[NAME_ROOM];
    scoped_fd root = root_open(pool, err);

    if (root < 0) {
        return root;
    }
    if (sync && syncfs(begun_fd) < 0) {
        return err_sys(err, "write %s to the disk", name);
    }
    (void)snprintf(half, sizeof(half), ".%s", name);
    if (renameat2(root, half, root, name, RENAME_NOREPLACE) < 0) {
        return err_sys(err, "name %s", name);
    }
    if (sync && syncfs(begun_fd) < 0) {
        return err_sys(err, "write the name of %s to the disk", name);
    }
    return 0;
}

/* ---- removing ---- */

static int part_remove(struct pool *pool, int dir, const char *part, struct err *err)
{
    int r = pool_on_btrfs(pool) ? subvol_destroy(dir, part) : -EINVAL;

    if (r == 0 || r == -ENOENT) {
        return 0;
    }
    return r == -EINVAL ? pool_trash(pool, dir, part, err)
                        : err_code(err, -r, "remove what was saved");
}

/* Removes an entry whose name begins with a dot. It is found again until its directory is gone. */
static int half_remove(struct pool *pool, int root, const char *half, struct err *err)
{
    scoped_fd dir = dir_open(root, half);

    if (dir < 0) {
        return errno == ENOENT ? 0 : err_sys(err, "open what was saved");
    }
    int r = part_remove(pool, dir, SAVED_DISK, err);
    if (r == 0) {
        r = part_remove(pool, dir, SAVED_MEMORY, err);
    }
    (void)unlinkat(dir, CHARGE_SAVED, 0);
    (void)unlinkat(dir, CHARGE_SIZE, 0);
    if (r == 0 && unlinkat(root, half, AT_REMOVEDIR) < 0) {
        r = errno == ENOTEMPTY ? pool_trash(pool, root, half, err)
                               : err_sys(err, "remove what was saved");
    }
    return r;
}

int saved_forget(struct pool *pool, const char *name, struct err *err)
{
    char gone[NAME_ROOM], random[GONE_BYTES];
    scoped_fd root = root_open(pool, err);

    if (root < 0) {
        return root;
    }
    id_alnum(random, GONE_BYTES - 1);
    (void)snprintf(gone, sizeof(gone), ".%s.%s", name, random);
    if (renameat(root, name, root, gone) < 0) {
        return errno == ENOENT ? 0 : err_sys(err, "remove %s", name);
    }
    return half_remove(pool, root, gone, err);
}

void saved_abandon(struct pool *pool, const char *name)
{
    struct err err;
    char half[NAME_ROOM];
    scoped_fd root = root_open(pool, &err);

    (void)snprintf(half, sizeof(half), ".%s", name);
    if (root < 0 || half_remove(pool, root, half, &err) < 0 || saved_forget(pool, name, &err) < 0) {
        log_warn("%s", err.msg);
    }
}

/* ---- using one ---- */

int saved_open(struct pool *pool, const char *name, struct err *err)
{
    scoped_fd root = root_open(pool, err);

    if (root < 0) {
        return root;
    }
    int fd = dir_open(root, name);
    if (fd < 0 && errno == ENOENT) {
        return err_set(err, ENOENT, "nothing is saved as %s", name);
    }
    return fd < 0 ? err_sys(err, "open %s", name) : fd;
}

int saved_disk_copy(struct pool *pool, const char *name, const char *id, struct err *err)
{
    scoped_fd dir = saved_open(pool, name, err);

    if (dir < 0) {
        return dir;
    }
    scoped_fd disk = dir_open(dir, SAVED_DISK);
    return disk < 0 ? err_sys(err, "open the disk of %s", name)
                    : pool_disk_copy(pool, dir, disk, id, err);
}

/* ---- all of them ---- */

struct sweep {
    struct pool *pool;
    int root;
};

static void sweep_one(void *ctx, const char *name)
{
    struct sweep *sweep = ctx;
    struct err err;

    if (half_remove(sweep->pool, sweep->root, name, &err) < 0) {
        log_warn("%s: %s", name, err.msg);
    }
}

void saved_sweep(struct pool *pool)
{
    struct err err;
    scoped_fd root = root_open(pool, &err);
    struct sweep sweep = {pool, root};

    if (root < 0 || pool_names_each(root, POOL_HIDDEN, sweep_one, &sweep, &err) < 0) {
        log_warn("what was saved cannot be read: %s", err.msg);
    }
}

int saved_each(struct pool *pool, void (*each)(void *ctx, const char *name), void *ctx,
               struct err *err)
{
    scoped_fd root = root_open(pool, err);

    return root < 0 ? root : pool_names_each(root, POOL_SHOWN, each, ctx, err);
}
