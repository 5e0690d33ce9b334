/* images.h - reads and changes the image files of CRIU.
 *
 * An image has two words with its type, then entries, each preceded by its length. Entries are
 * protobuf; unknown fields are passed through unchanged.
 *
 * Owns:    nothing.
 * Blocks:  for the disk.
 * Threads: one.
 *
 * The bytes are not hostile, but they are checked: another version may have written the images.
 */
#ifndef CHECKPOINT_IMAGES_H
#define CHECKPOINT_IMAGES_H

#include <stdint.h>

#include "lib/base/compiler.h"
#include "lib/base/err.h"

/* Corrects two faults of a dump. A periodic timer that expired while its jail was frozen is dumped
 * as expired for good: it is set to expire after its interval again. Memory that may be merged is
 * dumped as if the program had asked for it: the keeper decides that at each restore (merge.h). */
must_check int images_correct(int dir_fd, struct err *err);

/* Changes for a restored jail. */
struct images_change {
    uint32_t uid_base;    /* first id of its range on this machine */
    const char *hostname; /* its name */
    uint64_t subvol;      /* its disk, which handles of watched files name */
};

/* Writes the images of from_fd that must be changed to to_fd. */
must_check int images_change(int from_fd, int to_fd, const struct images_change *change,
                             struct err *err);

/* The space that all images of the directory take on the disk. */
must_check int images_bytes(int dir_fd, uint64_t *bytes, struct err *err);

#endif
