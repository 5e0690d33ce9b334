#include "timing.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

double now_ms(void)
{
    struct timespec ts;

    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec / 1e6;
}

void samples_add(struct samples *s, double ms)
{
    assert(s->n < SAMPLES_MAX);
    s->ms[s->n++] = ms;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

double samples_quantile(struct samples *s, double q)
{
    assert(s->n > 0);
    qsort(s->ms, s->n, sizeof(s->ms[0]), compare);
    return s->ms[(size_t)(q * (double)(s->n - 1))];
}

void samples_print(struct samples *s, struct samples *reference)
{
    if (s->n == 0) {
        printf("%-46s %s\n", s->name, "not run");
        return;
    }
    printf("%-46s %9.2f %9.2f %9.2f", s->name, samples_quantile(s, 0), samples_quantile(s, 0.5),
           samples_quantile(s, 0.95));
    if (reference && reference != s && reference->n > 0) {
        printf(" %8.2fx", samples_quantile(s, 0.5) / samples_quantile(reference, 0.5));
    }
    printf("\n");
}
