/* criu_uid.h - sets the effective uid of a running CRIU.
 *
 * CRIU makes the user namespace of a jail that it restores, as root. The namespace must belong to
 * the jail's own first id (userns.h), and CRIU has no option for that. So CRIU is stopped while it
 * waits for an answer, made to call setresuid(), and released; it keeps all its capabilities.
 * Nothing is written into its memory: the system call that it waits in is replaced by another one,
 * and then restarted. CRIU's helper, which it forks before it makes the namespace, gets the uid
 * back with it: a few kernel settings can be written only with the effective uid 0.
 *
 * Owns:    nothing.
 * Needs:   root; no one else may trace the process.
 * Blocks:  until the process has made the calls: microseconds, or PTRACE_CALL_WAIT_MS on failure.
 * Threads: one.
 */
#ifndef CHECKPOINT_CRIU_UID_H
#define CHECKPOINT_CRIU_UID_H

#include <stdbool.h>
#include <sys/types.h>

#include "lib/base/compiler.h"
#include "lib/base/err.h"

/* Sets it for the process and its children. Each must wait in a system call that can be restarted,
 * such as recv(). 0 goes back. `tied`: the process is the caller's child and ends with it. */
must_check int criu_uid_set(pid_t pid, uid_t uid, bool tied, struct err *err);

#endif
