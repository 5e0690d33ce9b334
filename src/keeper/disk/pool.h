/* pool.h - where layers and sandboxes' disks live: <pool>/layers/<name>, <pool>/sandboxes/<id>.
 * saved.h has <pool>/saved.
 *
 * A pool on btrfs has a subvolume per sandbox with a quota. When the directory is not on btrfs, a
 * sparse image beside it (<pool>.img) is made once and mounted over it, in the host's mount
 * namespace: so it outlives the keeper. Where that cannot be done, sandboxes are plain directories
 * without a disk limit, and pool_limits_disk() is false.
 *
 * Owns:    <pool>.img, and what is below <pool>/sandboxes and <pool>/trash.
 * Needs:   root; mkfs.btrfs on the first start.
 * Blocks:  pool_open() for seconds on the first start; the rest for the disk, briefly.
 * Threads: one at a time.
 */
#ifndef DISK_POOL_H
#define DISK_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/compiler.h"
#include "lib/base/err.h"

#define POOL_UPPER "upper"
#define POOL_WORK "work"
#define POOL_EMPTY "empty" /* a directory that stays so */

struct pool;

/* Makes the directory a pool, or finds it one already. `image_bytes` is the size of an image that
 * has to be made, at most what the disk has room for; 0 leaves it to the disk. */
must_check int pool_open(const char *path, uint64_t image_bytes, struct pool **out,
                         struct err *err);
void pool_close(struct pool *pool);

/* Unmounts the image of a pool that holds no sandbox and that nobody has open; else leaves it. The
 * next pool_open() mounts it again. Waits a moment for what is just ending. */
void pool_unmount_empty(const char *path);

/* Goes on removing what an earlier process had begun with: plain directories, records, quota
 * groups. Needs SIGCHLD to be ignored, as pool_disk_remove() does. */
void pool_sweep(struct pool *pool);

bool pool_limits_disk(const struct pool *pool);
/* Why not: one sentence; "" when it does. */
const char *pool_limits_why(const struct pool *pool);
/* A descriptor of <pool>. Borrowed. */
int pool_fd(const struct pool *pool);
bool pool_on_btrfs(const struct pool *pool);
/* Whether its quotas charge data to the disk that wrote it: charge.h. */
bool pool_quotas_are_simple(const struct pool *pool);
/* The mount namespace it was opened in, which has the host's programs. Borrowed. */
int pool_host_ns(const struct pool *pool);
/* In a process forked from the one that locked the pool: lets go of the lock, which is shared. */
must_check int pool_unlock_child(struct pool *pool, struct err *err);

/* An empty disk with upper/ and work/ in it. -EEXIST when there is one; nothing is left on
 * failure. */
must_check int pool_disk_create(struct pool *pool, const char *id, uint32_t disk_mb,
                                struct err *err);
/* A disk that begins as the saved one, source_fd, in the directory saved_fd. -EEXIST when there is
 * one; nothing is left on failure. Slow where the pool is not on btrfs; needs SIGCHLD at its
 * default there. It has no limit until pool_disk_bound(). */
must_check int pool_disk_copy(struct pool *pool, int saved_fd, int source_fd, const char *id,
                              struct err *err);
/* Readies a disk that a jail left behind for the next one. -ENOENT when there is none. It has no
 * limit until pool_disk_bound(). */
must_check int pool_disk_reuse(struct pool *pool, const char *id, struct err *err);
/* Sets the limit of a disk that is ready. A full disk cannot be made ready otherwise: nothing of
 * the jail may run before. */
must_check int pool_disk_bound(struct pool *pool, const char *id, uint32_t disk_mb,
                               struct err *err);
/* A descriptor of it, or -errno. */
must_check int pool_disk_open(struct pool *pool, const char *id);
/* Fine when gone. The bytes themselves are freed in the background. */
must_check int pool_disk_remove(struct pool *pool, const char *id, struct err *err);
/* Bytes that count against its limit; 0 where the pool cannot tell. */
uint64_t pool_disk_bytes(struct pool *pool, const char *id);
/* The most that may be; 0 when the disk has no limit. */
uint64_t pool_disk_limit(struct pool *pool, const char *id);

/* Does that in a process of its own, which nobody waits for and which ends with this one. Needs
 * SIGCHLD to be ignored. */
void pool_aside(struct pool *pool, int (*work)(struct pool *pool, const char *id), const char *id);

/* ---- for pools that are not on btrfs ---- */

/* Copies upper/ of source_fd to to_fd, file by file. Needs SIGCHLD at its default. */
must_check int pool_tree_copy(struct pool *pool, int source_fd, int to_fd, struct err *err);
/* Takes dir_fd/name away at once and removes it in the background, with SIGCHLD ignored. */
must_check int pool_trash(struct pool *pool, int dir_fd, const char *name, struct err *err);

enum pool_names { POOL_SHOWN, POOL_HIDDEN }; /* a hidden name begins with a dot */

must_check int pool_names_each(int dir_fd, enum pool_names which,
                               void (*each)(void *ctx, const char *name), void *ctx,
                               struct err *err);

must_check int pool_each(struct pool *pool, void (*each)(void *ctx, const char *id), void *ctx,
                         struct err *err);

#endif
