/* spare.h - empty disks that ended jails left behind, for the next jails: <pool>/spare/<name>.
 *
 * Since Linux 6.11 btrfs commits a transaction for every subvolume that is removed from a file
 * system with quotas. That is the dearest part of the end of a jail that has hardly written
 * anything. So the disk of such a jail is emptied and kept.
 *
 * The next jail must not find anything of the last one. A spare disk has no file that an ended jail
 * could write to: also upper/ and work/ are new directories. A disk is not kept when it was ever
 * saved or copied, when more than a little is charged to it at this moment, or when its jail made
 * more than a few files, because the numbers of inodes go on where the last jail stopped.
 *
 * Owns:    <pool>/spare.
 * Needs:   a pool on btrfs with simple quotas, and sysfs when it is opened.
 * Blocks:  for the disk, for a bounded number of files.
 * Threads: one. Several processes may use one directory: a rename decides who has a disk.
 */
#ifndef DISK_SPARE_H
#define DISK_SPARE_H

#include <stdbool.h>

#include "lib/base/compiler.h"
#include "lib/base/err.h"

enum {
    SPARES_MAX = 128,           /* kept by one process */
    SPARE_FILES_MAX = 64,       /* on a disk that is emptied, and made by its jail */
    SPARE_DEPTH_MAX = 12,       /* directories within each other */
    SPARE_BYTES_MAX = 1 << 20,  /* charged to a disk that is kept */
    SPARE_INODES_MAX = 1 << 20, /* number of an inode: higher ones would show the disk's age */
};

struct spares;

/* NULL where disks cannot be kept: they are removed, then. */
struct spares *spares_open(int pool_fd, int disks_fd);
void spares_close(struct spares *spares);

/* Takes the disk of an ended jail. False when it must be removed; some of it may be gone. */
bool spares_keep(struct spares *spares, const char *id);
/* Gives the jail a disk with an empty upper/ and work/, and an old limit. -ENOENT when there is
 * none to give, -EEXIST when the jail has a disk. */
must_check int spares_take(struct spares *spares, const char *id);

/* The disk of that jail is about to be saved: it shall not be kept. */
must_check int spares_bar(struct spares *spares, const char *id, struct err *err);

/* Removes the disks and marks that an earlier process left. */
void spares_sweep(struct spares *spares);

#endif
