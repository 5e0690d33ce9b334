/* volume.h - volumes: <pool>/volumes/<name>, which outlive the jails that they are mounted in.
 *
 * A volume holds plain ids on disk, as layers and disks do, and every jail sees it through its own
 * id map: so several jails can have one at once, and what one's root owns is the other's root's.
 * On btrfs it is a subvolume with a quota; else a directory without one.
 *
 * Which jails have it is written on their disks (<pool>/sandboxes/<id>/volume-<name>), out of the
 * jail's own sight: it goes with the disk, and no keeper has to remember it.
 *
 * Owns:    what is below <pool>/volumes.
 * Blocks:  for the disk, briefly.
 * Threads: one at a time. volumes_attach() is safe between clone3() and exec().
 */
#ifndef DISK_VOLUME_H
#define DISK_VOLUME_H

#include <stdint.h>

#include "keeper/disk/pool.h"
#include "lib/base/compiler.h"
#include "lib/base/err.h"
#include "wire/keeper.h"

/* KEEPER_VOLUME_MAKE: empty, and everybody's in the jails that have it; -EEXIST when there is one.
 * KEEPER_VOLUME_REMOVE: fine when gone; -EBUSY while a jail has it.
 * KEEPER_VOLUME_USAGE: -ENOENT when there is none; 0 bytes where the pool cannot tell. */
must_check int volume_request(struct pool *pool, const struct keeper_request *req, uint64_t *bytes,
                              struct err *err);

/* Notes on the jail's disk, which must be there, which volumes it has. */
must_check int volumes_hold(struct pool *pool, const char *id, const struct keeper_plan *plan,
                            struct err *err);

/* The plan's volumes as detached mounts, shifted through the user namespace; -1 behind the last.
 * Needs keeper_root.h entered. On failure all are -1. */
must_check int volumes_open(const struct keeper_plan *plan, int userns_fd,
                            int fds[KEEPER_VOLUMES_MAX], struct err *err);
void volumes_close(int fds[KEEPER_VOLUMES_MAX]);

/* In the jail, once its root is complete: attaches each at its place. Directories that are missing
 * are made. No part of a path may be a link or lie on another mount. */
must_check int volumes_attach(const struct keeper_plan *plan, const int fds[KEEPER_VOLUMES_MAX],
                              int root_fd, struct err *err);

#endif
