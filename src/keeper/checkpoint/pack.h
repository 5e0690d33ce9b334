/* pack.h - compresses the images of a saved jail in place, by the file system (btrfs, zstd), which
 * decompresses them when they are read. So a restore reads either kind, and an interrupted packing
 * changes no byte.
 *
 * Owns:    the file `packed` beside the images: their size before and after, once it is done.
 * Blocks:  for a long time, at the lowest priority and with pauses: call it in a process of its own
 *          (task.h), which ends with the keeper.
 * Threads: one.
 */
#ifndef CHECKPOINT_PACK_H
#define CHECKPOINT_PACK_H

#include "keeper/disk/pool.h"
#include "lib/base/compiler.h"
#include "lib/base/err.h"
#include "wire/keeper.h"

/* When it was done before, only the sizes are returned. An image that would shrink little, by a
 * sample, stays as it is. */
must_check int pack_saved(struct pool *pool, const char *name, struct keeper_saved *out,
                          struct err *err);

#endif
