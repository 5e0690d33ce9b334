/* dump.h - writes the processes of a frozen jail to files.
 *
 * Owns:    nothing.
 * Blocks:  until the files are on the disk. Enters a mount namespace (criu_mounts.h) and stays in
 *          it: call it in a process of its own (task.h).
 * Threads: one.
 */
#ifndef CHECKPOINT_DUMP_H
#define CHECKPOINT_DUMP_H

#include "keeper/jail/jail.h"
#include "lib/base/compiler.h"
#include "lib/base/err.h"
#include "wire/keeper.h"

/* Saves processes and disk into begun_fd, which saved_begin() returned. With KEEPER_SAVE_STOP the
 * jail is frozen afterwards. Otherwise it runs, as it does after a failure: the sentence then names
 * the process and what cannot be saved. */
must_check int dump_jail(struct jail_shared *shared, const char *id, const struct keeper_save *save,
                         int begun_fd, struct keeper_saved *out, struct err *err);

#endif
