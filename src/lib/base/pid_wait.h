/* pid_wait.h - waits for the end of one child process.
 *
 * Owns:    nothing; the child is reaped.
 * Blocks:  until the child has ended.
 * Threads: any.
 */
#ifndef BASE_PID_WAIT_H
#define BASE_PID_WAIT_H

#include <stdbool.h>
#include <sys/types.h>

#include "lib/base/compiler.h"

/* Fills `status` as waitpid() does. Returns 0, or -errno with errno set. */
must_check int pid_wait(pid_t pid, int *status);

/* Waits, and returns whether the child exited with status 0. */
bool pid_wait_success(pid_t pid);

#endif
