#include "lib/base/clock.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>

enum {
    MS_PER_S = 1000,
    NS_PER_MS = 1000 * 1000,
    US_PER_S = 1000 * 1000,
    NS_PER_US = 1000,
};

static int64_t clock_ms(clockid_t id)
{
    struct timespec ts;

    (void)clock_gettime(id, &ts);
    return (int64_t)ts.tv_sec * MS_PER_S + ts.tv_nsec / NS_PER_MS;
}

int64_t clock_mono_ms(void)
{
    return clock_ms(CLOCK_MONOTONIC);
}

static int64_t clock_us(clockid_t id)
{
    struct timespec ts;

    (void)clock_gettime(id, &ts);
    return (int64_t)ts.tv_sec * US_PER_S + ts.tv_nsec / NS_PER_US;
}

int64_t clock_mono_us(void)
{
    return clock_us(CLOCK_MONOTONIC);
}

int64_t clock_wall_us(void)
{
    return clock_us(CLOCK_REALTIME);
}

int64_t clock_wall_ms(void)
{
    return clock_ms(CLOCK_REALTIME);
}

void clock_stamp(int64_t wall_ms, char out[CLOCK_STAMP_BYTES])
{
    time_t seconds = (time_t)(wall_ms / MS_PER_S);
    int ms = (int)(wall_ms % MS_PER_S);
    struct tm tm;

    if (ms < 0) {
        ms += MS_PER_S;
        seconds--;
    }
    if (!gmtime_r(&seconds, &tm)) {
        (void)snprintf(out, CLOCK_STAMP_BYTES, "1970-01-01T00:00:00.000Z");
        return;
    }
    size_t n = strftime(out, CLOCK_STAMP_BYTES - 6, "%Y-%m-%dT%H:%M:%S", &tm);
    (void)snprintf(out + n, CLOCK_STAMP_BYTES - n, ".%03dZ", ms);
}

/* Reads exactly n digits off the front. */
static int digits_take(struct str *s, size_t n, int *out)
{
    int v = 0;

    if (s->len < n) {
        return -EINVAL;
    }
    for (size_t i = 0; i < n; i++) {
        if (s->at[i] < '0' || s->at[i] > '9') {
            return -EINVAL;
        }
        v = v * 10 + (s->at[i] - '0');
    }
    *s = str_skip(*s, n);
    *out = v;
    return 0;
}

static int char_take(struct str *s, const char *any)
{
    if (s->len == 0 || s->at[0] == '\0' || !strchr(any, s->at[0])) {
        return -EINVAL;
    }
    *s = str_skip(*s, 1);
    return 0;
}

/* The fraction of a second, cut to milliseconds. */
static int fraction_take(struct str *s)
{
    int ms = 0;
    int scale = MS_PER_S / 10;

    while (s->len && s->at[0] >= '0' && s->at[0] <= '9') {
        ms += (s->at[0] - '0') * scale;
        scale /= 10;
        *s = str_skip(*s, 1);
    }
    return ms;
}

static int offset_take(struct str *s, int *seconds)
{
    int hours, minutes;

    *seconds = 0;
    if (s->len == 1 && (s->at[0] == 'Z' || s->at[0] == 'z')) {
        *s = str_skip(*s, 1);
        return 0;
    }
    int sign = s->len && s->at[0] == '-' ? -1 : 1;
    if (char_take(s, "+- ") < 0 || digits_take(s, 2, &hours) < 0 || char_take(s, ":") < 0 ||
        digits_take(s, 2, &minutes) < 0 || hours > 23 || minutes > 59) {
        return -EINVAL;
    }
    *seconds = sign * (hours * 3600 + minutes * 60);
    return 0;
}

int clock_parse(struct str text, int64_t *wall_ms)
{
    struct tm tm = {0};
    int ms = 0;
    int offset_s;

    if (digits_take(&text, 4, &tm.tm_year) < 0 || char_take(&text, "-") < 0 ||
        digits_take(&text, 2, &tm.tm_mon) < 0 || char_take(&text, "-") < 0 ||
        digits_take(&text, 2, &tm.tm_mday) < 0 || char_take(&text, "Tt ") < 0 ||
        digits_take(&text, 2, &tm.tm_hour) < 0 || char_take(&text, ":") < 0 ||
        digits_take(&text, 2, &tm.tm_min) < 0 || char_take(&text, ":") < 0 ||
        digits_take(&text, 2, &tm.tm_sec) < 0) {
        return -EINVAL;
    }
    if (tm.tm_mon < 1 || tm.tm_mon > 12 || tm.tm_mday < 1 || tm.tm_mday > 31 || tm.tm_hour > 23 ||
        tm.tm_min > 59 || tm.tm_sec > 60) {
        return -EINVAL;
    }
    if (text.len && text.at[0] == '.') {
        text = str_skip(text, 1);
        ms = fraction_take(&text);
    }
    if (offset_take(&text, &offset_s) < 0 || text.len != 0) {
        return -EINVAL;
    }
    tm.tm_year -= 1900;
    tm.tm_mon -= 1;
    *wall_ms = ((int64_t)timegm(&tm) - offset_s) * MS_PER_S + ms;
    return 0;
}
