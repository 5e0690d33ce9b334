#include "serve/telemetry/series.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/alloc.h"

enum {
    VARINT_BYTES_MAX = 10,
    SAMPLE_BYTES_MAX = 1 + (SERIES_VALUES + 1) * VARINT_BYTES_MAX,
    CHANGED_TIME = 1 << SERIES_VALUES, /* in the first byte; below it a bit for each value */
    ROOM = SERIES_BLOCK_BYTES - 32,
    BLOCKS_MAX = SERIES_BYTES_MAX / SERIES_BLOCK_BYTES - 1, /* before one is added */
};

struct series_block {
    struct series_block *next; /* the next newer one */
    int64_t first_s;
    int64_t newest_s; /* of its samples: the clock may have been set back */
    uint32_t used;
    uint8_t bytes[ROOM];
};
_Static_assert(CHANGED_TIME <= 0x80, "the bits of a sample fit into a byte");
_Static_assert(sizeof(struct series_block) <= SERIES_BLOCK_BYTES, "a block is as large as it says");

/* ---- numbers ---- */

static uint64_t zigzag(int64_t n)
{
    return ((uint64_t)n << 1) ^ (uint64_t)(n >> 63);
}

static int64_t unzigzag(uint64_t n)
{
    return (int64_t)(n >> 1) ^ -(int64_t)(n & 1);
}

static size_t varint_put(uint8_t *at, int64_t number)
{
    uint64_t rest = zigzag(number);
    size_t n = 0;

    while (rest >= 0x80) {
        at[n++] = (uint8_t)(rest | 0x80);
        rest >>= 7;
    }
    at[n++] = (uint8_t)rest;
    return n;
}

/* The bytes were written by varint_put(), so the loop ends. */
static int64_t varint_get(const uint8_t **at)
{
    uint64_t number = 0;
    unsigned shift = 0;

    while (**at & 0x80) {
        number |= (uint64_t)(*(*at)++ & 0x7f) << shift;
        shift += 7;
    }
    return unzigzag(number | (uint64_t) * (*at)++ << shift);
}

/* ---- samples ---- */

static size_t sample_put(uint8_t *at, const struct series_sample *before,
                         const struct series_sample *sample)
{
    int64_t step = sample->time_s - before->time_s - SERIES_STEP_S;
    unsigned changed = step != 0 ? CHANGED_TIME : 0;
    size_t n = 1;

    if (step != 0) {
        n += varint_put(at + n, step);
    }
    for (int i = 0; i < SERIES_VALUES; i++) {
        if (sample->values[i] != before->values[i]) {
            changed |= 1U << i;
            n += varint_put(at + n, (int64_t)sample->values[i] - before->values[i]);
        }
    }
    at[0] = (uint8_t)changed;
    return n;
}

/* Turns the sample before into this one. */
static void sample_get(const uint8_t **at, struct series_sample *sample)
{
    unsigned changed = *(*at)++;

    sample->time_s += SERIES_STEP_S + (changed & CHANGED_TIME ? varint_get(at) : 0);
    for (int i = 0; i < SERIES_VALUES; i++) {
        if (changed & 1U << i) {
            sample->values[i] = (uint32_t)(sample->values[i] + varint_get(at));
        }
    }
}

/* ---- blocks ---- */

static void oldest_drop(struct series *series)
{
    struct series_block *block = series->oldest;

    series->oldest = block->next;
    series->newest = series->oldest ? series->newest : NULL;
    series->blocks_n--;
    free(block);
}

static struct series_block *block_add(struct series *series)
{
    struct series_block *block = xnew(struct series_block);

    if (series->newest) {
        series->newest->next = block;
    } else {
        series->oldest = block;
    }
    series->newest = block;
    series->blocks_n++;
    series->last = (struct series_sample){0}; /* a block leans on none before it */
    return block;
}

void series_add(struct series *series, const struct series_sample *sample)
{
    while (series->oldest && (series->oldest->newest_s < sample->time_s - SERIES_KEPT_S ||
                              series->blocks_n > BLOCKS_MAX)) {
        oldest_drop(series);
    }
    struct series_block *block = series->newest;
    if (!block || block->used + SAMPLE_BYTES_MAX > ROOM) {
        block = block_add(series);
    }
    block->used += (uint32_t)sample_put(block->bytes + block->used, &series->last, sample);
    block->first_s = block->first_s ? block->first_s : sample->time_s;
    block->newest_s = sample->time_s > block->newest_s ? sample->time_s : block->newest_s;
    series->last = *sample;
}

static void block_each(const struct series_block *block, int64_t from_s, int64_t to_s,
                       void (*each)(void *ctx, const struct series_sample *sample), void *ctx)
{
    struct series_sample sample = {0};
    const uint8_t *at = block->bytes;

    while (at < block->bytes + block->used) {
        sample_get(&at, &sample);
        if (sample.time_s >= from_s && sample.time_s <= to_s) {
            each(ctx, &sample);
        }
    }
}

void series_each(const struct series *series, int64_t from_s, int64_t to_s,
                 void (*each)(void *ctx, const struct series_sample *sample), void *ctx)
{
    int64_t oldest_s = series->last.time_s - SERIES_KEPT_S;

    from_s = from_s > oldest_s ? from_s : oldest_s;
    for (const struct series_block *block = series->oldest; block; block = block->next) {
        if (block->newest_s >= from_s) {
            block_each(block, from_s, to_s, each, ctx);
        }
    }
}

int64_t series_first_s(const struct series *series)
{
    int64_t oldest_s = series->last.time_s - SERIES_KEPT_S;
    int64_t first_s = series->oldest ? series->oldest->first_s : 0;

    return first_s > oldest_s ? first_s : oldest_s;
}

size_t series_bytes(const struct series *series)
{
    return series->blocks_n * SERIES_BLOCK_BYTES;
}

void series_fini(struct series *series)
{
    while (series->oldest) {
        oldest_drop(series);
    }
    *series = (struct series){0};
}
