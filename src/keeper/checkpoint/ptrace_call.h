/* ptrace_call.h - makes a ptrace() call on behalf of another process, whose memory the arguments
 * point to.
 *
 * Owns:    nothing.
 * Needs:   root.
 * Blocks:  ptrace_call_wait() for at most PTRACE_CALL_WAIT_MS.
 * Threads: one, the tracer.
 */
#ifndef CHECKPOINT_PTRACE_CALL_H
#define CHECKPOINT_PTRACE_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { PTRACE_CALL_WAIT_MS = 2000 }; /* a running thread stops within microseconds */

/* As waitpid() for one thread, for at most PTRACE_CALL_WAIT_MS. False when it neither stopped nor
 * ended. */
bool ptrace_call_wait(pid_t tid, int *status);
void ptrace_call_pause(void); /* sleeps for a millisecond */

/* The arguments are those of the system call: request, thread, addr, data. Returns its value, or
 * -errno; -EIO for an unknown request. */
long ptrace_call(pid_t caller, const uint64_t args[4]);

/* Whether a request changes the thread, or lets it run. */
bool ptrace_call_changes(long request);
bool ptrace_call_runs(long request);

/* Writes into the caller's memory: 0 or -EFAULT. */
int ptrace_call_write(pid_t caller, uint64_t at, const void *bytes, size_t n);

#endif
