/* restore.h - a jail that goes on where a saved one was.
 *
 * Blocks:  until its processes run. Enters a mount namespace (den.h) that is not left: for a
 * process of its own (task.h).
 */
#ifndef KEEPER_RESTORE_H
#define KEEPER_RESTORE_H

#include "base/compiler.h"
#include "base/err.h"
#include "keeper/jail.h"
#include "keeper/keeper.h"

/* On failure *made says what there is to undo, as with jail_create(). */
must_check int restore_jail(struct jail_kit *kit, const char *id, const struct keeper_plan *plan,
                            struct jail *out, unsigned *made, struct err *err);

#endif
