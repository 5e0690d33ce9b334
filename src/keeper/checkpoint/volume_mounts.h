/* volume_mounts.h - where the volumes of a jail are mounted: found in a running jail, stored beside
 * its images, and corrected in a jail that was restored from them.
 *
 * A jail has the volumes of its own plan, whatever the jail had that it was copied from. A place of
 * the images that the plan does not name becomes empty again. A place that the images do not have
 * is mounted before anything runs.
 *
 * Owns:    nothing.
 * Blocks:  for the disk, and for a child that enters the jail, briefly.
 * Threads: one.
 */
#ifndef CHECKPOINT_VOLUME_MOUNTS_H
#define CHECKPOINT_VOLUME_MOUNTS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "lib/base/compiler.h"
#include "lib/base/err.h"
#include "wire/keeper.h"

struct volume_mounts {
    size_t n;
    char path[KEEPER_VOLUMES_MAX][KEEPER_VOLUME_PATH_BYTES];
    char gone[KEEPER_VOLUME_PATH_BYTES]; /* a mount point that was removed inside, or "" */
};

/* Finds the volumes of the jail with that first process, while it is frozen: otherwise a place
 * could be moved afterwards. -ENOTSUP when a mount point was removed: CRIU would make it again
 * under its last name, and the jail may have put a link in the way. */
must_check int volume_mounts_find(pid_t first, struct volume_mounts *out, struct err *err);

must_check int volume_mounts_keep(const struct volume_mounts *at, int memory_fd, struct err *err);
must_check int volume_mounts_load(int memory_fd, struct volume_mounts *out, struct err *err);

bool volume_mounts_have(const struct volume_mounts *at, const char *path);
/* The first place for which the plan has no volume, or NULL. */
const char *volume_mounts_vacant(const struct volume_mounts *at, const struct keeper_plan *plan);

/* Called in CRIU's mount namespace (criu_mounts.h), when CRIU has made the jail with the volumes at
 * `had` and nothing runs yet. */
must_check int volume_mounts_settle(const struct volume_mounts *had, const struct keeper_plan *plan,
                                    pid_t first, struct err *err);

/* ---- parts that need no kernel, for tests ---- */

/* Parses the text of a jail's mountinfo. */
void volume_mounts_read(const char *mountinfo, struct volume_mounts *out);

#endif
