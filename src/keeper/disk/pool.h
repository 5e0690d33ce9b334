/* pool.h - where layers and sandboxes' disks live: <pool>/layers/<name>, <pool>/sandboxes/<id>.
 * saved.h has <pool>/saved.
 *
 * A pool on btrfs has a subvolume per sandbox with a quota. When the directory is not on btrfs, a
 * sparse image beside it (<pool>.img) is made once and mounted over it, in the host's mount
 * namespace: so it outlives the keeper. Where that cannot be done, sandboxes are plain directories
 * without a disk limit, and pool_limits_disk() is false.
 *
 * Owns:    <pool>.img, and what is below <pool>/sandboxes, <pool>/trash and <pool>/spare.
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
#define POOL_EMPTY "empty" /* a directory that stays empty */

struct pool;

/* Makes the directory a pool, or opens an existing one. `image_bytes` is the size of an image that
 * must be made, at most the free space of the disk; 0: chosen by the free space. */
must_check int pool_open(const char *path, uint64_t image_bytes, struct pool **out,
                         struct err *err);
void pool_close(struct pool *pool);

/* Unmounts the image of a pool without sandboxes that no one has open; otherwise leaves it. The
 * next pool_open() mounts it again. Waits a moment for processes that are ending. */
void pool_unmount_empty(const char *path);

/* Continues the removals of an earlier process: plain directories, records, quota groups. Needs
 * SIGCHLD to be ignored, as pool_disk_remove() does. */
void pool_sweep(struct pool *pool);

bool pool_limits_disk(const struct pool *pool);
/* The reason in one sentence; "" when it does. */
const char *pool_limits_why(const struct pool *pool);
/* A descriptor of <pool>. The pool owns it. */
int pool_fd(const struct pool *pool);
bool pool_on_btrfs(const struct pool *pool);
/* Whether its quotas charge data to the disk that wrote it: charge.h. */
bool pool_quotas_are_simple(const struct pool *pool);
/* The mount namespace in which the pool was opened, which has the host's programs. The pool owns
 * it. */
int pool_host_ns(const struct pool *pool);
/* Called in a process forked from the one that locked the pool: releases the lock, which is
 * shared. */
must_check int pool_unlock_child(struct pool *pool, struct err *err);

/* Makes an empty disk with upper/ and work/ in it. -EEXIST when there is one; nothing is left on
 * failure. */
must_check int pool_disk_create(struct pool *pool, const char *id, uint32_t disk_mb,
                                struct err *err);
/* Makes a disk as a copy of the saved one, source_fd, in the directory saved_fd. -EEXIST when there
 * is one; nothing is left on failure. Slow where the pool is not on btrfs; needs SIGCHLD at its
 * default there. The disk has no limit until pool_disk_bound(). */
must_check int pool_disk_copy(struct pool *pool, int saved_fd, int source_fd, const char *id,
                              struct err *err);
/* Prepares a disk that a jail left behind for the next jail. -ENOENT when there is none. It has no
 * limit until pool_disk_bound(). */
must_check int pool_disk_reuse(struct pool *pool, const char *id, struct err *err);
/* Sets the limit of a prepared disk. It is set last, because a full disk could not be prepared:
 * nothing of the jail may run before. */
must_check int pool_disk_bound(struct pool *pool, const char *id, uint32_t disk_mb,
                               struct err *err);
/* A descriptor of the disk, or -errno. */
must_check int pool_disk_open(struct pool *pool, const char *id);
bool pool_disk_exists(struct pool *pool, const char *id);
/* 0 when the disk is gone already. The space is freed in the background. */
must_check int pool_disk_remove(struct pool *pool, const char *id, struct err *err);
/* Called before a disk is saved: it is removed with its jail, then, and does not become spare. */
must_check int pool_disk_saving(struct pool *pool, const char *id, struct err *err);
/* Bytes that count against its limit; 0 where the pool cannot tell. */
uint64_t pool_disk_bytes(struct pool *pool, const char *id);
/* Its limit; 0 when it has none. */
uint64_t pool_disk_limit(struct pool *pool, const char *id);

/* Calls `work` in a process of its own, which no one waits for and which ends with this one. Needs
 * SIGCHLD to be ignored. */
void pool_in_background(struct pool *pool, int (*work)(struct pool *pool, const char *id),
                        const char *id);

/* ---- for pools that are not on btrfs ---- */

/* Copies upper/ of source_fd to to_fd, file by file. Needs SIGCHLD at its default. */
must_check int pool_tree_copy(struct pool *pool, int source_fd, int to_fd, struct err *err);
/* Renames dir_fd/name away at once and removes it in the background. Needs SIGCHLD to be
 * ignored. */
must_check int pool_trash(struct pool *pool, int dir_fd, const char *name, struct err *err);

enum pool_names { POOL_SHOWN, POOL_HIDDEN }; /* a hidden name begins with a dot */

must_check int pool_names_each(int dir_fd, enum pool_names which,
                               void (*each)(void *ctx, const char *name), void *ctx,
                               struct err *err);

must_check int pool_each(struct pool *pool, void (*each)(void *ctx, const char *id), void *ctx,
                         struct err *err);

#endif
