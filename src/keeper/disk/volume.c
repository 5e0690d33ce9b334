#include "keeper/disk/volume.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "keeper/disk/mounts.h"
#include "keeper/disk/subvol.h"
#include "lib/base/fd.h"
#include "lib/base/log.h"

#define VOLUMES_DIR "volumes"
#define MARK_PREFIX "volume-"

enum {
    MARK_BYTES = KEEPER_VOLUME_BYTES + 8, /* "volume-<name>" */
};

static int dir_open(struct pool *pool, struct err *err)
{
    const int fd = pool_fd(pool);

    if (mkdirat(fd, VOLUMES_DIR, 0700) < 0 && errno != EEXIST) {
        return err_sys(err, "make " VOLUMES_DIR " in the pool");
    }
    int dir = openat(fd, VOLUMES_DIR, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    return dir < 0 ? err_sys(err, "open " VOLUMES_DIR " in the pool") : dir;
}

static int volume_open(int dir_fd, const char *name)
{
    int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

    return fd < 0 ? -errno : fd;
}

/* ---- making and removing ---- */

static int destroy(struct pool *pool, int dir_fd, const char *name, struct err *err)
{
    int r = pool_on_btrfs(pool) ? subvol_destroy(dir_fd, name) : -EINVAL;

    if (r == -EINVAL) { /* a plain directory */
        return pool_trash(pool, dir_fd, name, err);
    }
    return r == 0 || r == -ENOENT ? 0 : err_code(err, -r, "remove volume %s", name);
}

static int prepare(struct pool *pool, int dir_fd, const char *name, uint32_t size_mb)
{
    scoped_fd fd = volume_open(dir_fd, name);
    int r = fd < 0 ? fd : 0;

    if (r == 0 && pool_limits_disk(pool)) {
        r = subvol_limit(fd, 0, (uint64_t)size_mb << 20);
    }
    /* All users of a jail can use the volume. */
    if (r == 0 && fchmod(fd, 0777) < 0) {
        r = -errno;
    }
    /* A volume that was reported as made exists after a power cut too, with its limit and mode. */
    return r == 0 && syncfs(fd) < 0 ? -errno : r;
}

static int volume_make(struct pool *pool, const char *name, uint32_t size_mb, struct err *err)
{
    struct err second;
    scoped_fd dir = dir_open(pool, err);

    if (dir < 0) {
        return dir;
    }
    int r = pool_on_btrfs(pool)            ? subvol_create(dir, name)
            : mkdirat(dir, name, 0755) < 0 ? -errno
                                           : 0;
    if (r < 0) {
        return r == -EEXIST ? err_set(err, EEXIST, "there is a volume %s already", name)
                            : err_code(err, -r, "make volume %s", name);
    }
    r = prepare(pool, dir, name, size_mb);
    if (r == 0) {
        return 0;
    }
    if (destroy(pool, dir, name, &second) < 0) {
        log_warn("%s", second.msg);
    }
    return err_code(err, -r, "prepare volume %s", name);
}

struct search {
    int sandboxes_fd;
    const char *mark;
    char holder[KEEPER_ID_BYTES];
};

static void look(void *ctx, const char *id)
{
    struct search *search = ctx;
    char path[NAME_MAX + MARK_BYTES + 2];

    (void)snprintf(path, sizeof(path), "%s/%s", id, search->mark);
    if (faccessat(search->sandboxes_fd, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0) {
        (void)snprintf(search->holder, sizeof(search->holder), "%.*s", KEEPER_ID_BYTES - 1, id);
    }
}

static void mark_of(const char *volume, char out[MARK_BYTES])
{
    (void)snprintf(out, MARK_BYTES, MARK_PREFIX "%.*s", KEEPER_VOLUME_BYTES - 1, volume);
}

static int unused_check(struct pool *pool, const char *name, struct err *err)
{
    char mark[MARK_BYTES];
    scoped_fd sandboxes =
        openat(pool_fd(pool), "sandboxes", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    struct search search = {.sandboxes_fd = sandboxes, .mark = mark};

    if (sandboxes < 0) {
        return err_sys(err, "open sandboxes in the pool");
    }
    mark_of(name, mark);
    int r = pool_each(pool, look, &search, err);
    if (r == 0 && search.holder[0]) {
        r = err_set(err, EBUSY, "jail %s has volume %s", search.holder, name);
    }
    return r;
}

static int volume_remove(struct pool *pool, const char *name, struct err *err)
{
    int r = unused_check(pool, name, err);

    if (r < 0) {
        return r;
    }
    scoped_fd dir = dir_open(pool, err);
    return dir < 0 ? dir : destroy(pool, dir, name, err);
}

static int volume_usage(struct pool *pool, const char *name, uint64_t *bytes, struct err *err)
{
    scoped_fd dir = dir_open(pool, err);

    if (dir < 0) {
        return dir;
    }
    scoped_fd fd = volume_open(dir, name);
    if (fd < 0) {
        return err_set(err, -fd, "there is no volume %s", name);
    }
    *bytes = pool_limits_disk(pool) ? subvol_bytes(fd, 0) : 0;
    return 0;
}

int volume_request(struct pool *pool, const struct keeper_request *req, uint64_t *bytes,
                   struct err *err)
{
    const struct keeper_volume *volume = &req->volume;

    if (req->op == KEEPER_VOLUME_MAKE) {
        return volume_make(pool, volume->name, volume->size_mb, err);
    }
    return req->op == KEEPER_VOLUME_REMOVE ? volume_remove(pool, volume->name, err)
                                           : volume_usage(pool, volume->name, bytes, err);
}

/* ---- into a jail ---- */

static void mark_remove(void *ctx, const char *name)
{
    const int *disk = ctx;

    if (strncmp(name, MARK_PREFIX, strlen(MARK_PREFIX)) == 0) {
        (void)unlinkat(*disk, name, 0);
    }
}

int volumes_mark(struct pool *pool, const char *id, const struct keeper_plan *plan, struct err *err)
{
    char path[KEEPER_ID_BYTES + 16];

    (void)snprintf(path, sizeof(path), "sandboxes/%s", id);
    scoped_fd disk = openat(pool_fd(pool), path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (disk < 0) {
        return err_sys(err, "open the disk of jail %s", id);
    }
    /* A disk that was copied from another has the marks of that one. */
    int r = pool_names_each(disk, POOL_SHOWN, mark_remove, &disk, err);
    if (r < 0) {
        return r;
    }
    for (uint32_t i = 0; i < plan->volumes_n; i++) {
        char mark[MARK_BYTES];
        mark_of(plan->volumes[i].volume, mark);
        scoped_fd fd = openat(disk, mark, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0) {
            return err_sys(err, "note volume %s of jail %s", plan->volumes[i].volume, id);
        }
    }
    return 0;
}

void volumes_close(int fds[KEEPER_VOLUMES_MAX])
{
    for (size_t i = 0; i < KEEPER_VOLUMES_MAX; i++) {
        fd_closep(&fds[i]);
    }
}

int volumes_open(const struct keeper_plan *plan, int userns_fd, int fds[KEEPER_VOLUMES_MAX],
                 struct err *err)
{
    /* A volume is shared: a setuid file made by one jail's root must do nothing in another jail. */
    const uint64_t attr = MOUNT_ATTR_NODEV | MOUNT_ATTR_NOSUID;

    for (size_t i = 0; i < KEEPER_VOLUMES_MAX; i++) {
        fds[i] = -1;
    }
    for (uint32_t i = 0; i < plan->volumes_n; i++) {
        char from[KEEPER_VOLUME_BYTES + 32];
        (void)snprintf(from, sizeof(from), "/pool/" VOLUMES_DIR "/%s", plan->volumes[i].volume);
        fds[i] = mounts_clone_idmapped(AT_FDCWD, from, attr, userns_fd, err);
        if (fds[i] < 0) {
            int r = fds[i] == -ENOENT
                        ? err_set(err, ENOENT, "there is no volume %s", plan->volumes[i].volume)
                        : fds[i];
            fds[i] = -1;
            volumes_close(fds);
            return r;
        }
    }
    return 0;
}

static int target_refuse(const char *path, int r, struct err *err)
{
    switch (r) {
    case -ELOOP:
        return err_set(err, ELOOP, "a volume cannot be mounted at %s: a part of it is a link",
                       path);
    case -ENOTDIR:
        return err_set(err, ENOTDIR,
                       "a volume cannot be mounted at %s: a part of it is not a directory", path);
    case -EXDEV:
        return err_set(err, EXDEV, "a volume cannot be mounted at %s: it lies on another mount",
                       path);
    default:
        return err_code(err, -r, "a volume cannot be mounted at %s", path);
    }
}

/* Opens part by part, each from the one before: nothing can be replaced in between. */
static int target_open(int root_fd, const char *path, struct err *err)
{
    scoped_fd at = dup(root_fd);
    char part[KEEPER_VOLUME_PATH_BYTES];

    for (const char *p = path; at >= 0 && *(p += strspn(p, "/"));) {
        size_t len = strcspn(p, "/");
        (void)snprintf(part, sizeof(part), "%.*s", (int)len, p);
        int next = mounts_open_beneath(at, part, O_PATH | O_DIRECTORY, 0, RESOLVE_NO_XDEV);
        if (next == -ENOENT && (mkdirat(at, part, 0755) == 0 || errno == EEXIST)) {
            next = mounts_open_beneath(at, part, O_PATH | O_DIRECTORY, 0, RESOLVE_NO_XDEV);
        }
        if (next < 0) {
            return target_refuse(path, next, err);
        }
        fd_closep(&at);
        at = next;
        p += len;
    }
    return at < 0 ? err_sys(err, "open the jail's root") : move_fd(&at);
}

int volumes_attach(const struct keeper_plan *plan, const int fds[KEEPER_VOLUMES_MAX], int root_fd,
                   struct err *err)
{
    for (uint32_t i = 0; i < plan->volumes_n; i++) {
        scoped_fd at = target_open(root_fd, plan->volumes[i].path, err);
        int r = at < 0 ? at : mounts_attach(fds[i], at, "", err);
        if (r < 0) {
            return r;
        }
    }
    return 0;
}
