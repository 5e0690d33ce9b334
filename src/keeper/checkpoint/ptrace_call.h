/* ptrace_call.h - a call of ptrace() that another process wanted to make, made here instead: what
 * it points to is in that process's memory.
 *
 * Owns:    nothing. Needs root.
 */
#ifndef CHECKPOINT_PTRACE_CALL_H
#define CHECKPOINT_PTRACE_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { PTRACE_CALL_WAIT_MS = 2000 }; /* for one to stop: what runs stops within microseconds */

/* As waitpid() of one thread, for at most PTRACE_CALL_WAIT_MS. False: it neither stopped nor ended.
 */
bool ptrace_call_wait(pid_t tid, int *status);
void ptrace_call_pause(void); /* for a millisecond */

/* The arguments are those of the system call: request, thread, addr, data. Its value, or -errno;
 * -EIO for a request that is not known here. */
long ptrace_call(pid_t caller, const uint64_t args[4]);

/* Whether a request changes the thread, or lets it run. */
bool ptrace_call_changes(long request);
bool ptrace_call_runs(long request);

/* Into the caller's memory: 0 or -EFAULT. */
int ptrace_call_write(pid_t caller, uint64_t at, const void *bytes, size_t n);

#endif
