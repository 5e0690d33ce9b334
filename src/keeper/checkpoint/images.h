/* images.h - the files CRIU wrote: what has to be changed in them.
 *
 * An image is two words that say what it is, then entries, each with its length before it. Entries
 * are protobuf; what is not known here goes through unchanged.
 *
 * Owns:    nothing. Blocks for the disk. No hostile bytes come here, but they are checked all the
 *          same: a saved jail may have been written by another version.
 */
#ifndef CHECKPOINT_IMAGES_H
#define CHECKPOINT_IMAGES_H

#include <stdint.h>

#include "lib/base/compiler.h"
#include "lib/base/err.h"

/* What a dump gets wrong. A periodic timer that went off while its jail stood still was dumped as
 * one that is over: such is set to go off after its interval again. Memory that may be merged with
 * equal pages of others was dumped as a wish of the program's: that is for the keeper to say anew
 * whenever it is restored (merge.h). */
must_check int images_correct(int dir_fd, struct err *err);

/* What a restored jail is to be. */
struct images_change {
    uint32_t uid_base;    /* first id of its range on this machine */
    const char *hostname; /* its name */
    uint64_t subvol;      /* its disk, which the handles of watched files name */
};

/* Writes those images of from_fd that have to be changed to to_fd. */
must_check int images_change(int from_fd, int to_fd, const struct images_change *change,
                             struct err *err);

/* What all images of the directory take together on the disk. */
must_check int images_bytes(int dir_fd, uint64_t *bytes, struct err *err);

#endif
