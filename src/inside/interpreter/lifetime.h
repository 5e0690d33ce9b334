/* lifetime.h - whether this process is still the one that it remembers to be.
 *
 * A process that is restored with its sandbox goes on in the middle of an instruction and has no
 * part in it. But it is a new one to the kernel, which says when it began.
 *
 * Owns: nothing. Needs: /proc. Blocks: on reading a file that is in memory. Threads: any.
 */
#ifndef INTERPRETER_LIFETIME_H
#define INTERPRETER_LIFETIME_H

#include <stdint.h>

/* When the kernel says that this process began: another number after each restore. 0: unknown. */
uint64_t lifetime_began(void);

#endif
