#include "cli/units.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lib/base/compiler.h"

enum { MINUTE = 60, HOUR = 60 * MINUTE, DAY = 24 * HOUR, DURATION_MAX = 3650 * DAY };

/* A unit is used from two of it on. */
enum { IN_SECONDS = 2 * MINUTE, IN_MINUTES = 2 * HOUR, IN_HOURS = 2 * DAY };

const char *units_age(int64_t seconds, char out[UNITS_BYTES])
{
    static const struct {
        int64_t below, unit;
        char letter;
    } steps[] = {{IN_SECONDS, 1, 's'}, {IN_MINUTES, MINUTE, 'm'}, {IN_HOURS, HOUR, 'h'}};
    int64_t s = seconds > 0 ? seconds : 0;

    for (size_t i = 0; i < countof(steps); i++) {
        if (s < steps[i].below) {
            (void)snprintf(out, UNITS_BYTES, "%lld%c", (long long)(s / steps[i].unit),
                           steps[i].letter);
            return out;
        }
    }
    (void)snprintf(out, UNITS_BYTES, "%lldd", (long long)(s / DAY));
    return out;
}

const char *units_size(double bytes, char out[UNITS_BYTES])
{
    static const char *const names[] = {"B", "kB", "MB", "GB", "TB", "PB"};
    size_t i = 0;

    while (bytes >= 999.5 && i + 1 < countof(names)) {
        bytes /= 1000;
        i++;
    }
    (void)snprintf(out, UNITS_BYTES, i > 0 && bytes < 9.95 ? "%.1f %s" : "%.0f %s", bytes,
                   names[i]);
    return out;
}

bool units_time(const char *text, int64_t *seconds)
{
    struct tm tm = {0};

    if (!text || !strptime(text, "%Y-%m-%dT%H:%M:%S", &tm)) {
        return false;
    }
    *seconds = timegm(&tm);
    return true;
}

bool units_duration(const char *text, int64_t *seconds)
{
    char *end = NULL;

    errno = 0;
    long long n = strtoll(text, &end, 10);
    int64_t unit = 0;
    if (*end == '\0' || strcmp(end, "s") == 0) {
        unit = 1;
    } else if (end[1] == '\0') {
        unit = *end == 'm' ? MINUTE : *end == 'h' ? HOUR : *end == 'd' ? DAY : 0;
    }
    if (end == text || errno || n < 0 || unit == 0 || n > DURATION_MAX / unit) {
        return false;
    }
    *seconds = n * unit;
    return true;
}
