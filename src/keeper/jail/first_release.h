/* first_release.h - jails whose agent is of the first release.
 *
 * Such an agent makes the connections to its jail itself, and hands the daemon a copy of each
 * (CHANNEL_VERSION_FIRST). The daemon must not believe an agent that says so of itself: it may have
 * been taken over. So the keeper knows it: a jail was running when the first keeper came that makes
 * those connections from outside, or it was restored from images that were made before.
 *
 * Owns:    <pool>/elders, with an empty file for each, named by the jail's id.
 * Threads: one at a time.
 */
#ifndef JAIL_FIRST_RELEASE_H
#define JAIL_FIRST_RELEASE_H

#include <stdbool.h>

#include "keeper/disk/pool.h"
#include "keeper/jail/cgroup.h"
#include "lib/base/compiler.h"
#include "lib/base/err.h"

/* At the keeper's start. The first time it marks every jail that runs, and all of them or none;
 * later it forgets those that do not run any more. */
must_check int first_release_open(struct pool *pool, struct cgroups *groups, struct err *err);

bool first_release_is(struct pool *pool, const char *id);
must_check int first_release_mark(struct pool *pool, const char *id, struct err *err);
void first_release_unmark(struct pool *pool, const char *id); /* fine if it was none */

#endif
