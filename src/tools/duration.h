/* duration.h - lengths of time as people write them.
 *
 * Pure.
 */
#ifndef TOOLS_DURATION_H
#define TOOLS_DURATION_H

#include <stdint.h>

#include "lib/base/compiler.h"
#include "lib/base/str.h"

enum { DURATION_S_MAX = 10 * 366 * 24 * 3600 };

/* "5 minutes", "every 90s", "an hour and 30 minutes", "1.5 hours": whole seconds, 1 to
 * DURATION_S_MAX. -EINVAL when it is not that. */
must_check int duration_parse(struct str text, int64_t *seconds);

/* "until stopped", "forever". */
bool duration_is_endless(struct str text);

#endif
