/* fill.h - jails that run before their memory is there: a pager (pager.h) for each, and who must
 * wait for it. docs/internals/lazy-fill.md has the rules.
 *
 * A pager is two processes with one table of descriptors. One fills; the other waits for it, and
 * ends the jail if it fails or is killed. While either lives, no page of the jail can come up
 * empty. They outlive the keeper.
 *
 * Owns:    <pool>/filling: a file <id> for each, locked by its pager, with the name of the save. A
 *          pager that is done removes it; one that is there and not locked is of a jail that has
 *          lost memory. And the groups .fill-<id>.
 * Blocks:  fill_wait() and fill_wait_save(), which are called in tasks, until the memory is there.
 * Threads: one.
 */
#ifndef CHECKPOINT_FILL_H
#define CHECKPOINT_FILL_H

#include <stdbool.h>
#include <sys/types.h>

#include "keeper/jail/jail.h"
#include "lib/base/compiler.h"
#include "lib/base/err.h"

struct fill {
    int socket;  /* CRIU's end; -1: there is no pager */
    int jail_fd; /* cgroup.kill of the jail */
    int own_fd;  /* and of the pager */
};
#define FILL_NONE ((struct fill){.socket = -1, .jail_fd = -1, .own_fd = -1})

/* Whether a restore of these images is worth a pager, and can have one. */
bool fill_wanted(const struct jail_shared *shared, int memory_fd);

/* Starts a pager for the jail with that group, which is about to be restored from that save. */
must_check int fill_start(struct jail_shared *shared, const char *id, const char *save,
                          int group_fd, struct fill *out, struct err *err);
/* The jail runs: from here on the pager is on its own. */
void fill_leave(struct fill *fill);
/* The restore has failed: ends the jail and the pager. Does nothing when there is none. */
void fill_stop(struct fill *fill);

/* Waits until the jail has all its memory. -EIO when it has lost some: then it is ended. */
must_check int fill_wait(struct jail_shared *shared, const char *id, struct err *err);
/* Whether a jail is being filled from that save; and waits until none is. */
bool fill_uses(struct jail_shared *shared, const char *save);
void fill_wait_save(struct jail_shared *shared, const char *save);

/* Ends jails that have lost memory together with an earlier keeper. */
void fill_sweep(struct jail_shared *shared);

#endif
