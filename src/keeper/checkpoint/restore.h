/* restore.h - a jail that goes on where a saved one was.
 *
 * Owns:    <pool>/restoring.
 * Blocks:  restore_jail() until its processes run. It enters a mount namespace (criu_mounts.h) that
 * is not left: for a process of its own (task.h).
 */
#ifndef CHECKPOINT_RESTORE_H
#define CHECKPOINT_RESTORE_H

#include <stdbool.h>

#include "keeper/jail/jail.h"
#include "lib/base/compiler.h"
#include "lib/base/err.h"
#include "wire/keeper.h"

/* With tcp_close its TCP connections are closed rather than continued: one in the middle of its
 * handshake cannot be made again. On failure *made says what there is to undo, as with
 * jail_begin(); -EIO when CRIU could not, and another try may go better. */
must_check int restore_jail(struct jail_shared *shared, const char *id,
                            const struct keeper_plan *plan, bool tcp_close, struct jail *out,
                            unsigned *made, struct err *err);

/* A jail that is being restored has a mark in the pool until it is whole and has been taken over:
 * should the keeper end before that, the next one ends such a jail, which nobody waits for. */
must_check int restore_mark(struct jail_shared *shared, const char *id, struct err *err);
void restore_unmark(struct jail_shared *shared, const char *id);
void restore_sweep(struct jail_shared *shared);

#endif
