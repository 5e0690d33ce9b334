/* rootfs.h - a jail's root filesystem: an overlay of shared layers and the jail's own disk.
 *
 * Layers and disks hold plain ids on disk (root is 0); idmapped mounts map them to the jail's
 * range. Layers are mounted read-only and shared by all jails, with their page cache. Device nodes
 * in a layer cannot be opened: the overlay is mounted nodev.
 *
 * The overlay is volatile: its data is on disk for certain only when the pool is synced as a whole,
 * and overlayfs refuses a disk that was not unmounted properly until its mark in work/ is removed.
 * Code that saves a disk and mounts it again must do both.
 *
 * Owns:    nothing.
 * Needs:   a mount namespace that is a copy of the keeper's and is not needed for another root.
 * Blocks:  for the disk.
 * Threads: one.
 */
#ifndef JAIL_ROOTFS_H
#define JAIL_ROOTFS_H

#include <stdint.h>

#include "lib/base/compiler.h"
#include "lib/base/err.h"
#include "wire/keeper.h"

/* Returns the overlay as a detached mount. Its layers stay mounted on the scratch directories, and
 * end with the namespace: unmounting them would wait for RCU. */
must_check int rootfs_build(const char *id, const struct keeper_plan *plan, int userns_fd,
                            uint32_t uid_base, struct err *err);

#endif
