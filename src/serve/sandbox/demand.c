#include "serve/sandbox/demand.h"

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static uint32_t most(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

void demand_take(struct demand *demand, uint32_t ceiling)
{
    demand->taken++;
    demand->level = most(demand->level, least(DEMAND_HEADROOM * demand->taken, ceiling));
}

void demand_tick(struct demand *demand, bool have)
{
    uint32_t drop = most(demand->level / DEMAND_DECAY, 1);

    demand->quiet_s = demand->taken > 0 ? 0 : demand->quiet_s + 1;
    bool last = demand->level == 1 && demand->quiet_s < DEMAND_LAST_S;
    if (have && demand->taken == 0 && demand->level > 0 && !last) {
        demand->level -= drop;
    }
    demand->taken = 0;
}

uint32_t demand_floor(uint64_t memory_bytes, uint32_t cores, bool is_base)
{
    uint64_t affordable = memory_bytes / DEMAND_FLOOR_SHARE / DEMAND_JAIL_BYTES;
    uint64_t makeable = (uint64_t)cores * DEMAND_FLOOR_PER_CORE;
    uint64_t n = affordable < makeable ? affordable : makeable;
    uint32_t bound = is_base ? DEMAND_FLOOR_MAX : DEMAND_FLOOR_OTHERS;

    return n < bound ? (uint32_t)n : bound;
}

static uint32_t capped(uint64_t n)
{
    return n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

static uint64_t jail_bytes(const struct demand_bounds *bounds)
{
    return bounds->jail_bytes ? bounds->jail_bytes : 1;
}

/* The floor in quiet times for jails that hold the memory of their processes. */
static uint32_t restored_floor(const struct demand_bounds *bounds)
{
    uint64_t n = bounds->memory_bytes / DEMAND_RESTORED_SHARE / jail_bytes(bounds);

    return most(capped(n), 1);
}

/* The number of jails that the host has memory for. */
static uint32_t affordable(const struct demand_bounds *bounds)
{
    uint64_t share = bounds->memory_bytes / 100 * DEMAND_HELD_PERCENT;

    uint64_t keep =
        bounds->free_bytes ? bounds->free_bytes : bounds->memory_bytes / 100 * DEMAND_FREE_PERCENT;

    if (bounds->available_bytes < keep || share <= bounds->held_bytes) {
        return 0;
    }
    return capped((share - bounds->held_bytes) / jail_bytes(bounds));
}

uint32_t demand_target(const struct demand *demand, const struct demand_bounds *bounds)
{
    uint32_t floor = bounds->built_in ? bounds->floor : 0;

    if (bounds->restored) {
        floor = least(floor, restored_floor(bounds));
    }
    return least(least(most(floor, demand->level), bounds->ceiling), affordable(bounds));
}

bool demand_is_low(uint32_t have, uint32_t target)
{
    return (uint64_t)have * DEMAND_LOW < target;
}
