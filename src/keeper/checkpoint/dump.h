/* dump.h - the processes of a jail into files, while it stands still.
 *
 * Blocks:  until the files are on the disk. Enters a mount namespace (criu_mounts.h) that is not
 * left: for a process of its own (task.h).
 */
#ifndef CHECKPOINT_DUMP_H
#define CHECKPOINT_DUMP_H

#include "keeper/jail/jail.h"
#include "lib/base/compiler.h"
#include "lib/base/err.h"
#include "wire/keeper.h"

/* Processes and disk into begun_fd, which saved_begin() gave. With KEEPER_SAVE_STOP the jail stands
 * still afterwards, else it runs, as it does when this fails: the sentence then names the process
 * and what it has that cannot be saved. */
must_check int dump_jail(struct jail_shared *shared, const char *id, const struct keeper_save *save,
                         int begun_fd, struct keeper_saved *out, struct err *err);

#endif
