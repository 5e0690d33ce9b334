/* pack.h - the images of a saved jail, compressed where they lie: by the file system (btrfs, zstd),
 * which unpacks them as they are read. So a restore reads either kind, and a packing that is cut
 * off leaves every byte as it was.
 *
 * Owns:    the file `packed` beside the images: what they took before and after, once it is done.
 * Blocks:  for as long as that takes, at the lowest priority and with pauses: for a process of its
 *          own (task.h), which ends with the keeper.
 */
#ifndef CHECKPOINT_PACK_H
#define CHECKPOINT_PACK_H

#include "keeper/disk/pool.h"
#include "lib/base/compiler.h"
#include "lib/base/err.h"
#include "wire/keeper.h"

/* Fine when it was done before: then it only tells. An image that a sample says would gain little
 * stays as it is. */
must_check int pack_saved(struct pool *pool, const char *name, struct keeper_saved *out,
                          struct err *err);

#endif
