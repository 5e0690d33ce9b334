/* save.h - carries out KEEPER_SAVE, in a process of its own (task.h).
 *
 * Owns:    nothing.
 * Blocks:  until the save is on the disk. After a failure the jail runs and nothing is saved.
 * Threads: one.
 */
#ifndef CHECKPOINT_SAVE_H
#define CHECKPOINT_SAVE_H

#include "keeper/jail/jail.h"
#include "lib/base/compiler.h"
#include "lib/base/err.h"
#include "wire/keeper.h"

/* With KEEPER_SAVE_STOP the jail is frozen afterwards, and the caller destroys it. fds are set with
 * KEEPER_SAVE_ALONE (alone.h). */
must_check int save_jail(struct jail_shared *shared, const char *id, const struct keeper_save *save,
                         int fds[KEEPER_FDS_MAX], struct keeper_saved *out, struct err *err);

#endif
