/* volume.h - volumes: <pool>/volumes/<name>. They outlive the jails in which they are mounted.
 *
 * A volume holds plain ids on disk, as layers and disks do, and every jail sees it through its own
 * id map. So several jails can use one at once, and files of one jail's root belong to the other's
 * root. On btrfs it is a subvolume with a quota; else a directory without one.
 *
 * A mark on the disk of a jail says that it uses the volume (<pool>/sandboxes/<id>/volume-<name>),
 * where the jail cannot see it: it is removed with the disk, and no keeper has to remember it.
 *
 * Owns:    everything below <pool>/volumes.
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

/* KEEPER_VOLUME_MAKE: an empty volume, writable for all users of its jails; -EEXIST when there is
 * one. KEEPER_VOLUME_REMOVE: 0 when it is gone already; -EBUSY while a jail uses it.
 * KEEPER_VOLUME_USAGE: -ENOENT when there is none; 0 bytes where the pool cannot tell.
 */
must_check int volume_request(struct pool *pool, const struct keeper_request *req, uint64_t *bytes,
                              struct err *err);

/* Marks the volumes of the plan on the jail's disk, which must exist. */
must_check int volumes_mark(struct pool *pool, const char *id, const struct keeper_plan *plan,
                            struct err *err);

/* Opens the plan's volumes as detached mounts, mapped through the user namespace; -1 after the
 * last. Needs keeper_root.h entered. On failure all are -1. */
must_check int volumes_open(const struct keeper_plan *plan, int userns_fd,
                            int fds[KEEPER_VOLUMES_MAX], struct err *err);
void volumes_close(int fds[KEEPER_VOLUMES_MAX]);

/* Called in the jail when its root is complete: attaches each volume at its place. Missing
 * directories are made. No part of a path may be a link or lie on another mount. */
must_check int volumes_attach(const struct keeper_plan *plan, const int fds[KEEPER_VOLUMES_MAX],
                              int root_fd, struct err *err);

#endif
