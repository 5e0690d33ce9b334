/* mounted.h - where the volumes of a jail are mounted: found in one that runs, kept beside its
 * images, and set right in one that was restored from them.
 *
 * A jail has the volumes of its own plan, whatever the one had that it was copied from: a place of
 * the images that the plan does not name is empty again, and one that the images do not know is
 * mounted before anything runs.
 *
 * Owns:    nothing.
 * Blocks:  for the disk, and for a child that enters the jail, briefly.
 * Threads: one.
 */
#ifndef CHECKPOINT_MOUNTED_H
#define CHECKPOINT_MOUNTED_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "lib/base/compiler.h"
#include "lib/base/err.h"
#include "wire/keeper.h"

struct mounted {
    size_t n;
    char path[KEEPER_VOLUMES_MAX][KEEPER_VOLUME_PATH_BYTES];
    char gone[KEEPER_VOLUME_PATH_BYTES]; /* a place of which the file or directory that is mounted
                                            there has no name any more; "": none */
};

/* Of the jail whose first process that is, while it stands still: a place that is moved afterwards
 * would be another. -ENOTSUP when one is gone: CRIU would make it anew under its last name, and the
 * jail may have put a link on the way there. */
must_check int mounted_find(pid_t first, struct mounted *out, struct err *err);

must_check int mounted_keep(const struct mounted *at, int memory_fd, struct err *err);
must_check int mounted_load(int memory_fd, struct mounted *out, struct err *err);

bool mounted_have(const struct mounted *at, const char *path);
/* The first place that the plan has no volume for, or NULL. */
const char *mounted_vacant(const struct mounted *at, const struct keeper_plan *plan);

/* In the mount namespace of CRIU (criu_mounts.h), when CRIU has made the jail with the volumes at
 * `had` and nothing runs yet.
 */
must_check int mounted_settle(const struct mounted *had, const struct keeper_plan *plan,
                              pid_t first, struct err *err);

/* ---- parts that need no kernel, for tests ---- */

/* From the text of a jail's mountinfo. */
void mounted_read(const char *mountinfo, struct mounted *out);

#endif
