/* save.h - keeping a jail: what is done for KEEPER_SAVE, in a process of its own (task.h).
 *
 * Blocks:  until the disk has it. Whatever fails leaves the jail running and nothing saved.
 */
#ifndef CHECKPOINT_SAVE_H
#define CHECKPOINT_SAVE_H

#include "keeper/jail/jail.h"
#include "lib/base/compiler.h"
#include "lib/base/err.h"
#include "wire/keeper.h"

/* With KEEPER_SAVE_STOP the jail stands still afterwards, for the caller to end. */
must_check int save_jail(struct jail_shared *shared, const char *id, const struct keeper_save *save,
                         struct keeper_saved *out, struct err *err);

#endif
