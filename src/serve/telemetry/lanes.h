/* lanes.h - deliveries that wait, in a lane for each sandbox. Only the head of a lane is ever
 * tried.
 *
 * The lanes are a list, because there are few: adding and searching both walk it. */
#ifndef TELEMETRY_LANES_H
#define TELEMETRY_LANES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "serve/store/store.h"

struct lane_item;

struct lane {
    struct lane *prev, *next;
    char sandbox_id[DELIVERY_SANDBOX_BYTES];
    struct lane_item *items; /* never empty */
    bool busy;               /* its head is under way */
    int64_t due_mono_ms;     /* when its head may be tried */
};

struct lanes {
    struct lane *first;
    size_t items_n;
};

/* At the end of its sandbox's lane. Copies. */
void lanes_add(struct lanes *lanes, const struct delivery *delivery);
void lanes_fini(struct lanes *lanes);

struct delivery *lane_head(struct lane *lane);

/* Takes the head away, and with the last one the lane. */
void lane_shift(struct lanes *lanes, struct lane *lane);

/* The moment of a delivery's next try, on the monotonic clock. */
int64_t lane_due(const struct delivery *delivery);

#endif
