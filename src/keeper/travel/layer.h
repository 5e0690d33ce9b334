/* layer.h - the layers below a disk: where they lie, and a digest by which two machines compare
 * theirs.
 *
 * Owns:    nothing.
 * Blocks:  for the disk: a digest looks at every file of a layer, but reads none.
 * Threads: one.
 */
#ifndef TRAVEL_LAYER_H
#define TRAVEL_LAYER_H

#include "keeper/disk/pool.h"
#include "lib/base/compiler.h"
#include "lib/base/encode.h"
#include "lib/base/err.h"

/* A descriptor of the layer's root; -ENOENT with a sentence that names it. */
must_check int layer_open(struct pool *pool, const char *name, struct err *err);

/* A digest of all paths, types, modes, owners, sizes, times and links of a tree. Times and sizes of
 * directories are not in it: they depend on how the tree was made. */
must_check int layer_digest(int layer_fd, char out[SHA256_HEX_LEN + 1], struct err *err);

#endif
