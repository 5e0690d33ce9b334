/* reason.h - why a jail cannot be saved, in words its owner understands: which process, as it is
 * numbered inside, and what it holds.
 *
 * Owns:    <pool>/criu.log. Needs /proc. Blocks briefly.
 */
#ifndef CHECKPOINT_REASON_H
#define CHECKPOINT_REASON_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "keeper/jail/jail.h"
#include "lib/base/compiler.h"
#include "lib/base/err.h"

/* Looks at the processes of a frozen group: 0 when all can be looked into, -EAGAIN when one is in
 * the middle of something that will pass, -ENOTSUP when one is traced by another. */
must_check int reason_unstill(int group_fd, struct err *err);

/* The same while they run, and for what their descriptors are: -ENOTSUP when one is traced or holds
 * what no dump can hold. 0 says no more than that nothing was seen. */
must_check int reason_ahead(int group_fd, struct err *err);

/* Reads CRIU's log after a dump that failed. -ENOTSUP when something cannot be saved, -EAGAIN when
 * that may pass, -ENOSPC when the pool is full, -EIO when it is not clear, with a sentence each
 * time. */
must_check int reason_dump(int work_fd, const struct jail_shared *shared, const char *id,
                           struct err *err);

/* The same after a restore; -EIO always. */
must_check int reason_restore(int work_fd, const struct jail_shared *shared, struct err *err);

/* ---- parts that need no kernel, for tests ---- */

struct reason {
    pid_t pid;        /* on the host; 0 when the log names none */
    char what[128];   /* what it holds, with its article; "" when that is not known */
    bool passes;      /* it may be gone at the next try */
    char detail[160]; /* CRIU's own words */
};

/* The first error of a log. */
void reason_find(const char *log, struct reason *out);

#endif
