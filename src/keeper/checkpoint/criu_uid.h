/* criu_uid.h - makes another process take another effective uid.
 *
 * CRIU makes the user namespace of a jail that it restores, as root. The namespace must belong to
 * the jail's own first id (userns.h), and CRIU has no option for that. So CRIU is stopped while it
 * waits for an answer, made to call setresuid(), and let go; it keeps all its capabilities. Nothing
 * is written into its memory: the system call that it waits in is exchanged for another one, and
 * then begun again. CRIU's helper, which it forks before the namespace, goes back with it: a few
 * kernel settings can be written by the effective uid 0 alone.
 *
 * Owns:    nothing. Needs root; nobody else may trace the process.
 * Blocks:  until the process has made the calls, which is some microseconds, or
 *          PTRACE_CALL_WAIT_MS when it does not.
 */
#ifndef CHECKPOINT_CRIU_UID_H
#define CHECKPOINT_CRIU_UID_H

#include <sys/types.h>

#include "lib/base/compiler.h"
#include "lib/base/err.h"

/* The process, and children that it has. Each waits in a system call that can be begun again, as
 * recv() can. 0 goes back. */
must_check int criu_uid_set(pid_t pid, uid_t uid, struct err *err);

#endif
