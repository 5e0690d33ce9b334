/* disk_repair.h - repairs a disk that was in use, so that it can be mounted again.
 *
 * overlayfs marks a disk that it mounted as volatile, and refuses it from then on. In work/index it
 * keeps handles of the disk's own directories, which name the subvolume: in a snapshot they still
 * name the source, and overlayfs refuses that as well. Files keep their inode numbers and
 * generations in a snapshot, so changing the subvolume corrects each handle.
 *
 * Owns:    nothing.
 * Needs:   CAP_SYS_ADMIN.
 * Blocks:  for the disk.
 * Threads: one for each disk.
 */
#ifndef DISK_DISK_REPAIR_H
#define DISK_DISK_REPAIR_H

#include <stddef.h>
#include <stdint.h>

#include "lib/base/compiler.h"
#include "lib/base/err.h"

/* `subvol` is the disk's subvolume now, 0 where it is none. Does nothing when all is in order. */
must_check int disk_repair(int disk_fd, uint64_t subvol, struct err *err);

/* ---- parts that need no kernel, for tests ---- */

/* Sets the subvolume of an overlayfs handle, as stored in extended attributes. 1 when that was a
 * change, 0 when not, -EINVAL when it is not a handle of a file on btrfs. */
must_check int handle_repair(unsigned char *handle, size_t len, uint64_t subvol);

#endif
