/* memory.h - whether the system ran out of memory. */
#ifndef INTERPRETER_MEMORY_H
#define INTERPRETER_MEMORY_H

#include <stdint.h>

/* Processes that were killed for it since the start, of this machine or of this sandbox; 0 when
 * that cannot be read. It grows when a kernel is among them. */
uint64_t memory_oom_kills(void);

#endif
