/* timing.h - samples of one thing, and what is said of them. */
#ifndef BENCH_TIMING_H
#define BENCH_TIMING_H

#include <stddef.h>
#include <stdint.h>

enum {
    SAMPLES_MAX = 1000,
};

struct samples {
    const char *name;
    double ms[SAMPLES_MAX];
    size_t n;
};

double now_ms(void);
void samples_add(struct samples *s, double ms);

/* q of 0.5 is the median. Sorts in place. */
double samples_quantile(struct samples *s, double q);

/* One row of the table: min, median, p95, and the median as a ratio to the reference's. */
void samples_print(struct samples *s, struct samples *reference);

#endif
