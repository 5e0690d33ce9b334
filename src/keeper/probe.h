/* probe.h - checks whether this machine has what jails need, for `atoll doctor`.
 *
 * Owns:    nothing; a check removes what it makes.
 * Needs:   nothing; without root most checks say so.
 * Blocks:  briefly (a process, a mount).
 * Threads: one.
 */
#ifndef KEEPER_PROBE_H
#define KEEPER_PROBE_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/base/compiler.h"

enum probe_verdict {
    PROBE_OK,
    PROBE_DEGRADED, /* atoll runs, with fewer functions */
    PROBE_MISSING,  /* no jail can be made */
};

struct probe_result {
    const char *name;
    enum probe_verdict verdict;
    char sentence[256]; /* the finding and, unless ok, what to do */
};

enum { PROBE_RESULTS_MAX = 16 };

/* Fills `out` in a fixed order and returns the number of results. data_dir is the pool's directory,
 * or will be. */
size_t probe_machine(const char *data_dir, struct probe_result out[PROBE_RESULTS_MAX]);

/* Whether df and sysinfo() can show a jail its own size, if that is wanted. Tries it. */
struct probe_result probe_size_bpf(bool wanted);

/* Which CRIU restores jails: one that lets them share memory, if that is wanted and there is one.
 */
struct probe_result probe_sharing(bool wanted);

/* Whether equal pages of jails can be merged, if that is wanted. */
struct probe_result probe_merging(bool wanted);

#endif
