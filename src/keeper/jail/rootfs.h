/* rootfs.h - a jail's root filesystem: an overlay of shared layers and the jail's own disk.
 *
 * Layers and disks hold plain ids on disk (root is 0); they are seen shifted into the jail's range
 * through idmapped mounts. Layers are mounted read-only and shared by all jails, page cache and
 * all. Device nodes that a layer may hold do not open: the overlay is mounted nodev.
 *
 * The overlay is volatile: nothing of it is sure to be on disk until the pool is synced as a whole,
 * and overlayfs refuses a disk that was not left in order until its mark in work/ is removed. Who
 * saves a disk and mounts it again does both.
 *
 * Owns:    nothing.
 * Needs:   a mount namespace that is a copy of the keeper's and will not be needed for another
 * root. Blocks:  for the disk.
 */
#ifndef JAIL_ROOTFS_H
#define JAIL_ROOTFS_H

#include <stdint.h>

#include "lib/base/compiler.h"
#include "lib/base/err.h"
#include "wire/keeper.h"

/* Returns the overlay as a detached mount. What it is made of stays mounted on the scratch
 * directories, and goes with the namespace: to unmount it would be to wait for RCU. */
must_check int rootfs_build(const char *id, const struct keeper_plan *plan, int userns_fd,
                            uint32_t uid_base, struct err *err);

#endif
