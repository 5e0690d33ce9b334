/* nearest.h - the name that a user probably meant. Pure. */
#ifndef TOOLS_NEAREST_H
#define TOOLS_NEAREST_H

#include <stddef.h>

#include "lib/base/str.h"

enum { NEAREST_BYTES_MAX = 64 }; /* a longer word is no typing error */

/* How many characters must be added, dropped, changed or swapped to get from a to b; case counts
 * nothing. More than NEAREST_BYTES_MAX when one of them is longer than that. */
size_t nearest_distance(struct str a, struct str b);

/* The best of several, offered one by one; NULL when none is near enough to be suggested. */
struct nearest {
    struct str word;
    const char *best;
    size_t distance;
};
void nearest_offer(struct nearest *nearest, const char *name);

#endif
