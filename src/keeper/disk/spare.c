#include "keeper/disk/spare.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/btrfs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "keeper/disk/pool.h"
#include "keeper/disk/subvol.h"
#include "keeper/disk/tenant_file.h"
#include "lib/base/alloc.h"
#include "lib/base/fd.h"
#include "lib/base/id.h"
#include "lib/base/log.h"
#include "lib/base/small_file.h"
#include "wire/keeper.h"

enum {
    NAME_BYTES = 17,
    MARK_BYTES = KEEPER_ID_BYTES + 1,
    SYSFS_BYTES = 96,
    BLOCK_BYTES = 512,
};

struct spares {
    int dir_fd;
    int disks_fd;  /* of the pool */
    int groups_fd; /* the kernel's live figures of the quota groups */
    size_t n;
    char names[SPARES_MAX][NAME_BYTES];
};

/* ---- opening ---- */

/* The figures in sysfs are current; the file system's tree has those of the last commit. */
static int groups_open(int pool_fd)
{
    struct btrfs_ioctl_fs_info_args info = {0};
    char path[SYSFS_BYTES];

    if (ioctl(pool_fd, BTRFS_IOC_FS_INFO, &info) < 0) {
        return -1;
    }
    const uint8_t *u = info.fsid;
    (void)snprintf(path, sizeof(path),
                   "/sys/fs/btrfs/%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-"
                   "%02x%02x%02x%02x%02x%02x/qgroups",
                   u[0], u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12],
                   u[13], u[14], u[15]);
    return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

struct spares *spares_open(int pool_fd, int disks_fd)
{
    scoped_fd groups = groups_open(pool_fd);

    if (groups < 0 || (mkdirat(pool_fd, "spare", 0700) < 0 && errno != EEXIST)) {
        return NULL;
    }
    scoped_fd dir = openat(pool_fd, "spare", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (dir < 0) {
        return NULL;
    }
    struct spares *spares = xnew(struct spares);
    spares->dir_fd = move_fd(&dir);
    spares->disks_fd = disks_fd;
    spares->groups_fd = move_fd(&groups);
    return spares;
}

void spares_close(struct spares *spares)
{
    if (spares) {
        fd_closep(&spares->dir_fd);
        fd_closep(&spares->groups_fd);
        free(spares);
    }
}

/* ---- emptying ---- */

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

/* Removes a file that has little content: the time for a large one depends on the tenant. */
static bool file_remove(int dir_fd, const char *name)
{
    struct stat st;

    return fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
           (uint64_t)st.st_blocks * BLOCK_BYTES <= SPARE_BYTES_MAX &&
           unlinkat(dir_fd, name, 0) == 0;
}

/* Takes the descriptor. *left is the number of files that may still be removed. */
static bool dir_empty(int dir_fd, int depth, int *left)
{
    scoped_fd fd = dir_fd;
    scoped(dir_closep) DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct err ignored;

    if (!dir) {
        return false;
    }
    const int here = move_fd(&fd); /* closed with dir */
    for (struct dirent *entry; (entry = readdir(dir));) {
        const char *name = entry->d_name;
        if (is_dots(name)) {
            continue;
        }
        if (--*left < 0 || depth == 0) {
            return false;
        }
        if (entry->d_type != DT_DIR) {
            if (!file_remove(here, name)) {
                return false;
            }
            continue;
        }
        if (!dir_empty(tenant_dir_read(here, name, &ignored), depth - 1, left) ||
            unlinkat(here, name, AT_REMOVEDIR) < 0) {
            return false;
        }
    }
    return true;
}

static uint64_t inode_of(int dir_fd, const char *name)
{
    struct stat st;

    return fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ? 0 : st.st_ino;
}

static bool is_charged_little(const struct spares *spares, int disk_fd)
{
    char path[SYSFS_BYTES], text[32];
    const uint64_t id = subvol_id(disk_fd);

    (void)snprintf(path, sizeof(path), "0_%" PRIu64 "/referenced", id);
    return id && small_file_read(spares->groups_fd, path, text, sizeof(text)) > 0 &&
           strtoull(text, NULL, 10) <= SPARE_BYTES_MAX;
}

/* upper/ is the first file that is made on a disk, so its number shows how many its jail made. */
static bool disk_empty(const struct spares *spares, int disk_fd)
{
    int left = SPARE_FILES_MAX;
    const uint64_t from = inode_of(disk_fd, POOL_UPPER);

    if (!is_charged_little(spares, disk_fd) ||
        !dir_empty(openat(disk_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), SPARE_DEPTH_MAX,
                   &left) ||
        mkdirat(disk_fd, POOL_UPPER, 0755) < 0 || mkdirat(disk_fd, POOL_WORK, 0700) < 0) {
        return false;
    }
    const uint64_t now = inode_of(disk_fd, POOL_UPPER);
    return from && now > from && now - from <= SPARE_FILES_MAX && now <= SPARE_INODES_MAX;
}

/* ---- keeping ---- */

static void mark_of(const char *id, char out[MARK_BYTES])
{
    (void)snprintf(out, MARK_BYTES, ".%s", id);
}

int spares_bar(struct spares *spares, const char *id, struct err *err)
{
    char mark[MARK_BYTES];

    if (!spares) {
        return 0;
    }
    mark_of(id, mark);
    scoped_fd fd = openat(spares->dir_fd, mark, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    return fd < 0 ? err_sys(err, "mark the disk of jail %s as saved", id) : 0;
}

static bool is_barred(const struct spares *spares, const char *id)
{
    char mark[MARK_BYTES];

    mark_of(id, mark);
    return unlinkat(spares->dir_fd, mark, 0) == 0 || errno != ENOENT;
}

bool spares_keep(struct spares *spares, const char *id)
{
    if (!spares || is_barred(spares, id) || spares->n == SPARES_MAX) {
        return false;
    }
    scoped_fd disk = openat(spares->disks_fd, id, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (disk < 0 || !disk_empty(spares, disk)) {
        return false;
    }
    char *name = spares->names[spares->n];
    id_alnum(name, NAME_BYTES - 1);
    if (renameat(spares->disks_fd, id, spares->dir_fd, name) < 0) {
        return false;
    }
    spares->n++;
    return true;
}

/* A name that is gone was taken by another process, which had this one's list when it was forked.
 */
int spares_take(struct spares *spares, const char *id)
{
    int r = -ENOENT;

    while (r == -ENOENT && spares && spares->n > 0) {
        const char *name = spares->names[--spares->n];
        r = renameat2(spares->dir_fd, name, spares->disks_fd, id, RENAME_NOREPLACE) < 0 ? -errno
                                                                                        : 0;
        spares->n += r == -EEXIST;
    }
    return r;
}

/* ---- after an earlier process ---- */

static void disk_sweep(void *ctx, const char *name)
{
    const struct spares *spares = ctx;
    int r = subvol_destroy(spares->dir_fd, name);

    if (r < 0) {
        log_warn("a spare disk cannot be removed: %s", strerrordesc_np(-r));
    }
}

static void mark_sweep(void *ctx, const char *name)
{
    const struct spares *spares = ctx;

    if (faccessat(spares->disks_fd, name + 1, F_OK, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT) {
        (void)unlinkat(spares->dir_fd, name, 0);
    }
}

void spares_sweep(struct spares *spares)
{
    struct err err;

    if (spares && (pool_names_each(spares->dir_fd, POOL_SHOWN, disk_sweep, spares, &err) < 0 ||
                   pool_names_each(spares->dir_fd, POOL_HIDDEN, mark_sweep, spares, &err) < 0)) {
        log_warn("%s", err.msg);
    }
}
