/* units.h - times and sizes as people read them.
 *
 * Blocks:   never; pure. Any thread.
 */
#ifndef CLI_UNITS_H
#define CLI_UNITS_H

#include <stdbool.h>
#include <stdint.h>

enum { UNITS_BYTES = 32 };

/* "45s", "3m", "2h", "5d". Below zero counts as zero. */
const char *units_age(int64_t seconds, char out[UNITS_BYTES]);

/* "0 B", "512 kB", "1.2 GB": powers of ten, as `atoll disk` counts. */
const char *units_size(double bytes, char out[UNITS_BYTES]);

/* Seconds since 1970 of "2026-01-02T03:04:05.678Z". False: it is no time. */
bool units_time(const char *text, int64_t *seconds);

/* Seconds of "90", "90s", "5m", "2h", "1d". False: it is none of these. */
bool units_duration(const char *text, int64_t *seconds);

#endif
