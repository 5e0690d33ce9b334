/* figures.h - the resources that a sandbox uses, read from its own /proc. */
#ifndef AGENT_FIGURES_H
#define AGENT_FIGURES_H

#include "inside/agent/internal.h"

struct figures {
    uint32_t cpus;
    double cpu_used_pct; /* of all cpus, since the last call */
    uint64_t memory_total_bytes;
    uint64_t memory_used_bytes;
    uint64_t memory_cache_bytes;
    uint64_t disk_total_bytes;
    uint64_t disk_used_bytes;
};

/* Reads /proc once through; a thousand processes take some milliseconds. */
void figures_read(const struct agent_limits *limits, struct figures *out);

#endif
