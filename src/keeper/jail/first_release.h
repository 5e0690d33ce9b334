/* first_release.h - knows the jails whose agent is of the first release.
 *
 * Such an agent makes the connections to its jail itself, and sends the daemon a copy of each
 * (CHANNEL_VERSION_FIRST). The daemon must not trust an agent that claims to be one: it may have
 * been taken over. So the keeper keeps a mark for each: for jails that were running when the first
 * keeper started that makes those connections from outside, and for jails restored from older
 * images.
 *
 * Owns:    <pool>/elders, with an empty file for each such jail, named by its id.
 * Blocks:  for the disk, briefly.
 * Threads: one at a time.
 */
#ifndef JAIL_FIRST_RELEASE_H
#define JAIL_FIRST_RELEASE_H

#include <stdbool.h>

#include "keeper/disk/pool.h"
#include "keeper/jail/cgroup.h"
#include "lib/base/compiler.h"
#include "lib/base/err.h"

/* Called at the keeper's start. The first time it marks all running jails, or none on failure;
 * later it removes the marks of jails that do not run any more. */
must_check int first_release_open(struct pool *pool, struct cgroups *groups, struct err *err);

bool first_release_is(struct pool *pool, const char *id);
must_check int first_release_mark(struct pool *pool, const char *id, struct err *err);
void first_release_unmark(struct pool *pool, const char *id); /* does nothing without a mark */

#endif
