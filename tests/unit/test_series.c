/* Series: what is added comes out again, for a day, in bounded memory. */
#include <inttypes.h>
#include <string.h>

#include "check.h"
#include "lib/base/compiler.h"
#include "serve/telemetry/series.h"

enum {
    DAY_SAMPLES = SERIES_KEPT_S / SERIES_STEP_S,
    START_S = 1700000000,
};

struct seen {
    size_t n;
    struct series_sample first, last;
    uint64_t sum[SERIES_VALUES];
    bool ordered;
};

static void see(void *ctx, const struct series_sample *sample)
{
    struct seen *seen = ctx;

    seen->first = seen->n == 0 ? *sample : seen->first;
    seen->ordered = seen->n == 0 || (seen->ordered && sample->time_s > seen->last.time_s);
    seen->last = *sample;
    seen->n++;
    for (int i = 0; i < SERIES_VALUES; i++) {
        seen->sum[i] += sample->values[i];
    }
}

static struct seen look(const struct series *series, int64_t from_s, int64_t to_s)
{
    struct seen seen = {0};

    series_each(series, from_s, to_s, see, &seen);
    return seen;
}

static struct series_sample at(int64_t time_s, uint32_t a, uint32_t b)
{
    return (struct series_sample){.time_s = time_s, .values = {a, b, UINT32_MAX - a, a ^ b}};
}

static void an_empty_one_is_empty(void)
{
    struct series series = {0};

    CHECK_INT(look(&series, INT64_MIN, INT64_MAX).n, 0);
    CHECK_INT(series_bytes(&series), 0);
    series_fini(&series);
}

static void what_went_in_comes_out(void)
{
    struct series series = {0};
    uint64_t sum[SERIES_VALUES] = {0};
    uint32_t noise = 1;

    for (int64_t i = 0; i < 1000; i++) {
        noise = noise * 1664525 + 1013904223;
        struct series_sample sample = at(START_S + i * 5 + noise % 3, noise, noise >> 7);
        series_add(&series, &sample);
        for (int v = 0; v < SERIES_VALUES; v++) {
            sum[v] += sample.values[v];
        }
    }
    struct seen seen = look(&series, INT64_MIN, INT64_MAX);
    CHECK_INT(seen.n, 1000);
    CHECK(seen.ordered);
    CHECK(memcmp(seen.sum, sum, sizeof(sum)) == 0);
    CHECK(memcmp(&seen.last, &series.last, sizeof(seen.last)) == 0);
    series_fini(&series);
}

static void ranges_include_both_ends(void)
{
    struct series series = {0};

    for (int64_t i = 0; i < 100; i++) {
        struct series_sample sample = at(START_S + i * 5, 7, 7);
        series_add(&series, &sample);
    }
    struct seen seen = look(&series, START_S + 50, START_S + 100);
    CHECK_INT(seen.n, 11);
    CHECK_INT(seen.first.time_s, START_S + 50);
    CHECK_INT(seen.last.time_s, START_S + 100);
    CHECK_INT(look(&series, START_S - 100, START_S - 1).n, 0);
    CHECK_INT(look(&series, START_S + 10000, INT64_MAX).n, 0);
    CHECK_INT(look(&series, START_S + 20, START_S + 10).n, 0);
    CHECK_INT(series_first_s(&series), START_S);
    series_fini(&series);
}

static void an_idle_day_takes_little(void)
{
    struct series series = {0};

    for (int64_t i = 0; i < DAY_SAMPLES; i++) {
        struct series_sample sample = at(START_S + i * 5, 3, 9);
        series_add(&series, &sample);
    }
    CHECK_INT(look(&series, INT64_MIN, INT64_MAX).n, DAY_SAMPLES);
    CHECK(series_bytes(&series) < 24 * 1024);
    series_fini(&series);
}

static void what_is_older_than_a_day_goes(void)
{
    struct series series = {0};
    size_t most = 0;

    for (int64_t i = 0; i < 3 * DAY_SAMPLES; i++) {
        struct series_sample sample = at(START_S + i * 5, (uint32_t)i, 9);
        series_add(&series, &sample);
        most = series_bytes(&series) > most ? series_bytes(&series) : most;
    }
    struct seen seen = look(&series, INT64_MIN, INT64_MAX);
    CHECK_INT(seen.n, DAY_SAMPLES + 1);
    CHECK_INT(seen.first.time_s, seen.last.time_s - SERIES_KEPT_S);
    CHECK(most < 100 * 1024);
    series_fini(&series);
}

static void the_wildest_is_bounded(void)
{
    struct series series = {0};
    uint32_t noise = 1;

    for (int64_t i = 0; i < 2 * DAY_SAMPLES; i++) {
        noise = noise * 1664525 + 1013904223;
        struct series_sample sample = at(START_S + i * 4, noise, noise * 31);
        series_add(&series, &sample);
    }
    CHECK(series_bytes(&series) <= SERIES_BYTES_MAX);
    CHECK(look(&series, INT64_MIN, INT64_MAX).n > DAY_SAMPLES / 2);
    series_fini(&series);
}

static void a_clock_that_jumps_loses_nothing(void)
{
    struct series series = {0};
    const int64_t times[] = {START_S, START_S + 5, START_S - 3600, START_S - 3595, START_S + 10};

    for (size_t i = 0; i < countof(times); i++) {
        struct series_sample sample = at(times[i], 1, 1);
        series_add(&series, &sample);
    }
    CHECK_INT(look(&series, INT64_MIN, INT64_MAX).n, countof(times));
    CHECK_INT(look(&series, START_S - 3600, START_S - 3000).n, 2);
    series_fini(&series);
}

int main(void)
{
    static const struct check_test tests[] = {
        {"an empty one is empty", an_empty_one_is_empty},
        {"what went in comes out", what_went_in_comes_out},
        {"ranges include both ends", ranges_include_both_ends},
        {"an idle day takes little", an_idle_day_takes_little},
        {"what is older than a day goes", what_is_older_than_a_day_goes},
        {"the wildest is bounded", the_wildest_is_bounded},
        {"a clock that jumps loses nothing", a_clock_that_jumps_loses_nothing},
    };
    return check_run(tests, countof(tests));
}
