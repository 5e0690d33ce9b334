/* pool.h - where layers and sandboxes' disks live: <pool>/layers/<name>, <pool>/sandboxes/<id>.
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
#ifndef KEEPER_POOL_H
#define KEEPER_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/err.h"

#define POOL_UPPER "upper"
#define POOL_WORK "work"

struct pool;

/* Makes the directory a pool, or finds it one already. `image_bytes` is the size of an image that
 * has to be made, at most what the disk has room for; 0 leaves it to the disk. */
must_check int pool_open(const char *path, uint64_t image_bytes, struct pool **out,
                         struct err *err);
void pool_close(struct pool *pool);

/* Unmounts the image of a pool that holds no sandbox and that nobody has open; else leaves it. The
 * next pool_open() mounts it again. Waits a moment for what is just ending. */
void pool_unmount_empty(const char *path);

/* Goes on removing plain directories that an earlier process had begun with. Needs SIGCHLD to be
 * ignored, as pool_disk_remove() does. */
void pool_sweep(struct pool *pool);

bool pool_limits_disk(const struct pool *pool);
/* Why not: one sentence; "" when it does. */
const char *pool_limits_why(const struct pool *pool);
/* A descriptor of <pool>. Borrowed. */
int pool_fd(const struct pool *pool);

/* An empty disk with upper/ and work/ in it. -EEXIST when there is one; nothing is left on
 * failure. */
must_check int pool_disk_create(struct pool *pool, const char *id, uint32_t disk_mb,
                                struct err *err);
/* Fine when gone. The bytes themselves are freed in the background. */
must_check int pool_disk_remove(struct pool *pool, const char *id, struct err *err);
/* Bytes charged to the disk; 0 where the pool cannot tell. */
uint64_t pool_disk_bytes(struct pool *pool, const char *id);

must_check int pool_each(struct pool *pool, void (*each)(void *ctx, const char *id), void *ctx,
                         struct err *err);

#endif
