/* proc.h - what /proc says of memory. */
#ifndef BENCH_PROC_H
#define BENCH_PROC_H

#include <stdint.h>

/* A "Name:   N kB" line of a file in /proc; 0 when it is not there. */
uint64_t proc_kb(const char *path, const char *name);

/* The resident memory of a sandbox's agent; 0 when none is found. */
uint64_t proc_agent_kb(const char *sandbox_id);

#endif
