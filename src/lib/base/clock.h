/* clock.h - time. Deadlines use the monotonic clock; times shown to users use the wall clock. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

#include "lib/base/compiler.h"
#include "lib/base/str.h"

enum {
    CLOCK_STAMP_BYTES = 32, /* "2026-01-02T03:04:05.678Z" and room for years past 9999 */
};

int64_t clock_mono_ms(void);
int64_t clock_mono_us(void); /* for measuring what takes less than a millisecond */
int64_t clock_wall_ms(void);
int64_t clock_wall_us(void);

/* RFC 3339 in UTC with milliseconds. */
void clock_stamp(int64_t wall_ms, char out[CLOCK_STAMP_BYTES]);

/* Reads RFC 3339 with any offset and any number of fraction digits. -EINVAL when it is not that. */
must_check int clock_parse(struct str text, int64_t *wall_ms);

#endif
