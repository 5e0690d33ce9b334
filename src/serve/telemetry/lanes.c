#include "serve/telemetry/lanes.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/str.h"
#include "serve/telemetry/webhooks.h"

struct lane_item {
    struct lane_item *prev, *next;
    struct delivery delivery;
};

int64_t lane_due(const struct delivery *delivery)
{
    int64_t left = delivery->next_ms - clock_wall_ms();

    if (left < 0) {
        left = 0;
    } else if (left > WEBHOOK_RETRY_MS_MAX) {
        left = WEBHOOK_RETRY_MS_MAX; /* the wall clock was set back */
    }
    return clock_mono_ms() + left;
}

struct delivery *lane_head(struct lane *lane)
{
    return &lane->items->delivery;
}

static struct lane *lane_of(struct lanes *lanes, const char *sandbox_id)
{
    struct lane *lane = NULL;

    DL_FOREACH (lanes->first, lane) {
        if (strcmp(lane->sandbox_id, sandbox_id) == 0) {
            return lane;
        }
    }
    lane = xnew(struct lane);
    (void)str_copy(lane->sandbox_id, sizeof(lane->sandbox_id), str_of(sandbox_id));
    DL_APPEND(lanes->first, lane);
    return lane;
}

void lanes_add(struct lanes *lanes, const struct delivery *delivery)
{
    struct lane *lane = lane_of(lanes, delivery->sandbox_id);
    struct lane_item *item = xnew(struct lane_item);

    item->delivery = *delivery;
    if (!lane->items) {
        lane->due_mono_ms = lane_due(delivery);
    }
    DL_APPEND(lane->items, item);
    lanes->items_n++;
}

void lane_shift(struct lanes *lanes, struct lane *lane)
{
    struct lane_item *item = lane->items;

    DL_DELETE(lane->items, item);
    free(item);
    lanes->items_n--;
    if (lane->items) {
        lane->due_mono_ms = lane_due(&lane->items->delivery);
    } else {
        DL_DELETE(lanes->first, lane);
        free(lane);
    }
}

void lanes_fini(struct lanes *lanes)
{
    while (lanes->first) {
        lane_shift(lanes, lanes->first);
    }
}
