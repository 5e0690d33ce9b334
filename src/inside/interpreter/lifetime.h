/* lifetime.h - tells whether this process was restored from a checkpoint.
 *
 * A process that is restored with its sandbox continues without noticing. But it is a new process
 * to the kernel, which reports another start time.
 *
 * Owns:     nothing.
 * Needs:    /proc.
 * Blocks:   on reading a file that is in memory.
 * Threads:  any.
 */
#ifndef INTERPRETER_LIFETIME_H
#define INTERPRETER_LIFETIME_H

#include <stdint.h>

/* When the kernel says that this process began: another number after each restore. 0: unknown. */
uint64_t lifetime_began(void);

#endif
