/* probe.h - whether this machine has what jails need, point by point, for `atoll doctor`.
 *
 * Owns:    nothing; what a check makes it takes away again.
 * Needs:   nothing: without root most checks say so. Blocks briefly (a process, a mount).
 */
#ifndef KEEPER_PROBE_H
#define KEEPER_PROBE_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/base/compiler.h"

enum probe_verdict {
    PROBE_OK,
    PROBE_DEGRADED, /* atoll runs, with less */
    PROBE_MISSING,  /* no jail can be made */
};

struct probe_result {
    const char *name;
    enum probe_verdict verdict;
    char sentence[256]; /* what was found and, unless ok, what to do */
};

enum { PROBE_RESULTS_MAX = 16 };

/* Fills `out` in a fixed order; returns how many. data_dir is where the pool is or will be. */
size_t probe_machine(const char *data_dir, struct probe_result out[PROBE_RESULTS_MAX]);

/* Whether df and sysinfo() in jails tell their own size, if that is wanted. Tries it. */
struct probe_result probe_size_bpf(bool wanted);

/* Whether jails can hold equal pages of memory once, if that is wanted. */
struct probe_result probe_merging(bool wanted);

#endif
