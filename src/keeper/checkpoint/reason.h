/* reason.h - explains to the owner why a jail cannot be saved: which process, by its pid inside,
 * and what it holds.
 *
 * Owns:    <pool>/criu.log.
 * Needs:   /proc.
 * Blocks:  briefly.
 * Threads: one.
 */
#ifndef CHECKPOINT_REASON_H
#define CHECKPOINT_REASON_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "keeper/jail/jail.h"
#include "lib/base/compiler.h"
#include "lib/base/err.h"

/* Checks the processes of a frozen group: 0 when all can be traced, -EAGAIN when one is in a state
 * that will pass, -ENOTSUP when one is traced by another. */
must_check int reason_frozen(int group_fd, struct err *err);

/* The same for running processes, and for their descriptors: -ENOTSUP when one is traced or holds
 * something that cannot be dumped. 0 means only that nothing was found. */
must_check int reason_running(int group_fd, struct err *err);

/* Reads CRIU's log after a failed dump. -ENOTSUP when something cannot be saved, -EAGAIN when
 * that may pass, -ENOSPC when the pool is full, -EIO when the cause is unclear; always with a
 * sentence. */
must_check int reason_dump(int work_fd, const struct jail_shared *shared, const char *id,
                           struct err *err);

/* The same after a failed restore; always -EIO. */
must_check int reason_restore(int work_fd, const struct jail_shared *shared, struct err *err);

/* ---- parts that need no kernel, for tests ---- */

struct reason {
    pid_t pid;        /* on the host; 0 when the log has none */
    char what[128];   /* what it holds, with an article; "" when unknown */
    bool passes;      /* the next attempt may succeed */
    char detail[160]; /* CRIU's message */
};

/* Finds the first error of a log. */
void reason_find(const char *log, struct reason *out);

#endif
