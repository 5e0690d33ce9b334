/* disk_repair.h - what must be put right before a disk that was in use is mounted again.
 *
 * overlayfs marks a disk that it mounted as volatile and refuses it from then on; and in work/index
 * it keeps handles of the disk's own directories, which name the subvolume they lie in: in a
 * snapshot they still name the source, and overlayfs refuses that as well. Files keep their numbers
 * and generations in a snapshot, so that setting the subvolume makes each handle right again.
 *
 * Owns:    nothing. Needs CAP_SYS_ADMIN. Blocks for the disk.
 */
#ifndef DISK_DISK_REPAIR_H
#define DISK_DISK_REPAIR_H

#include <stddef.h>
#include <stdint.h>

#include "lib/base/compiler.h"
#include "lib/base/err.h"

/* `subvol` is the subvolume the disk is now, 0 where it is none. Fine when all is in order. */
must_check int disk_repair(int disk_fd, uint64_t subvol, struct err *err);

/* ---- parts that need no kernel, for tests ---- */

/* Sets the subvolume of an overlayfs handle as it is kept in extended attributes. 1 when that was a
 * change, 0 when not, -EINVAL when it is no handle of a file on btrfs. */
must_check int mend_handle(unsigned char *handle, size_t len, uint64_t subvol);

#endif
