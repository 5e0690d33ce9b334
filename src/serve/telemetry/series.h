/* series.h - figures over time, packed: a ring of the last 24 hours of a sandbox or a team.
 *
 * Owns:     its blocks.
 * Blocks:   never.
 * Threads:  one at a time.
 *
 * A sample is a time and SERIES_VALUES whole numbers. It is stored as what differs from the one
 * before: a byte that says which numbers changed (and whether the step was other than
 * SERIES_STEP_S), then each change as a signed varint. A sandbox that does nothing costs one byte a
 * sample, 17 KB for a day; one whose every number moves by megabytes costs some 13, 220 KB. Blocks
 * decode by themselves, so the oldest can go as a whole: when all of it is older than a day, or
 * when the series would grow past SERIES_BYTES_MAX.
 */
#ifndef TELEMETRY_SERIES_H
#define TELEMETRY_SERIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SERIES_VALUES = 6, /* and a bit for the time: the first byte of a sample has one for each */
    SERIES_STEP_S = 5,
    SERIES_KEPT_S = 24 * 3600,
    SERIES_BLOCK_BYTES = 512, /* as allocated */
    SERIES_BYTES_MAX = 256 * 1024,
};

struct series_sample {
    int64_t time_s; /* wall clock */
    uint32_t values[SERIES_VALUES];
};

struct series_block;

struct series {
    struct series_block *oldest, *newest;
    size_t blocks_n;
    struct series_sample last; /* time_s 0: there is none */
};

void series_fini(struct series *series); /* an all-zero series is empty */
void series_add(struct series *series, const struct series_sample *sample);

/* The samples with from_s <= time_s <= to_s in the order of their adding. */
void series_each(const struct series *series, int64_t from_s, int64_t to_s,
                 void (*each)(void *ctx, const struct series_sample *sample), void *ctx);

/* Time of the oldest sample that is kept. */
int64_t series_first_s(const struct series *series);

size_t series_bytes(const struct series *series); /* of memory */

#endif
