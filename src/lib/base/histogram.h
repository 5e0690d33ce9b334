/* histogram.h - how long things took, in buckets that are fixed at compile time.
 *
 * A plain value of about 140 bytes: the code that measures owns one, adds in a few instructions,
 * and hands out a copy. serve/telemetry/prometheus.h formats it.
 */
#ifndef BASE_HISTOGRAM_H
#define BASE_HISTOGRAM_H

#include <stdint.h>

enum { HISTOGRAM_BOUNDS = 14 };

/* Upper bounds in microseconds; longer times are counted in `count` only. */
static const int64_t histogram_bounds_us[HISTOGRAM_BOUNDS] = {
    100,       250,       500,        1000,       2500,        5000,        10 * 1000,
    25 * 1000, 50 * 1000, 100 * 1000, 250 * 1000, 1000 * 1000, 5000 * 1000, 30 * 1000 * 1000};

struct histogram {
    uint64_t buckets[HISTOGRAM_BOUNDS]; /* each for itself, not added up */
    uint64_t count;
    uint64_t sum_us;
};

static inline void histogram_add(struct histogram *histogram, int64_t us)
{
    us = us > 0 ? us : 0;
    histogram->count++;
    histogram->sum_us += (uint64_t)us;
    for (int i = 0; i < HISTOGRAM_BOUNDS; i++) {
        if (us <= histogram_bounds_us[i]) {
            histogram->buckets[i]++;
            return;
        }
    }
}

#endif
