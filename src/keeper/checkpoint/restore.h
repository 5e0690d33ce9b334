/* restore.h - restores a jail from a save with memory.
 *
 * Owns:    <pool>/restoring.
 * Blocks:  restore_jail() until its processes run. It enters a mount namespace (criu_mounts.h) and
 *          stays in it: call it in a process of its own (task.h).
 * Threads: one.
 */
#ifndef CHECKPOINT_RESTORE_H
#define CHECKPOINT_RESTORE_H

#include <stdbool.h>

#include "keeper/jail/jail.h"
#include "lib/base/compiler.h"
#include "lib/base/err.h"
#include "wire/keeper.h"

/* With tcp_close, TCP connections are closed rather than continued: one in the middle of a
 * handshake cannot be restored. `zygote`: the socket of one (zygote.h), or -1. `lazy`: much memory
 * may come later (fill.h). On failure *made has
 * the parts to remove, as with jail_begin(); -EIO when CRIU failed, and a retry may succeed. */
must_check int restore_jail(struct jail_shared *shared, const char *id,
                            const struct keeper_plan *plan, bool tcp_close, int zygote, bool lazy,
                            struct jail *out, unsigned *made, struct err *err);

/* A jail that is being restored has a mark in the pool until it is complete and taken over. If the
 * keeper ends before that, the next keeper destroys the jail, because no one waits for it. */
must_check int restore_mark(struct jail_shared *shared, const char *id, struct err *err);
void restore_unmark(struct jail_shared *shared, const char *id);
void restore_sweep(struct jail_shared *shared);

#endif
