/* demand.h - how many jails of a template should be parked. Arithmetic alone: no state of its own.
 *
 * The level follows the recent claims. It rises at once, so that a second burst as large as the
 * first finds enough, and falls slowly once that many have been parked. A template that was used
 * within the last minute has one jail ready; otherwise a template that is used now and then would
 * never find one. The floor is the number in quiet times, the ceiling is never exceeded, and the
 * host's memory limits both.
 */
#ifndef SANDBOX_DEMAND_H
#define SANDBOX_DEMAND_H

#include <stdbool.h>
#include <stdint.h>

enum {
    /* Jails of a template that is restored with its processes hold their memory: in quiet times
     * this part of the host's memory, or a single jail. */
    DEMAND_RESTORED_SHARE = 32,
    DEMAND_HELD_PERCENT = 10, /* of the host's memory, that parked jails may hold together */
    DEMAND_FREE_PERCENT = 10, /* of it, that must stay available: below, none are parked */
    DEMAND_HEADROOM = 2,      /* for each one taken in a second, so many are wanted */
    DEMAND_DECAY = 32,        /* a second without takers costs this part of the level, or 1 */
    DEMAND_LAST_S = 60,       /* without takers, until the last one goes as well */
    DEMAND_LOW = 4,           /* fewer than this part of the target is low */
    DEMAND_JAIL_BYTES = 2 * 1024 * 1024, /* of a jail with nothing but its agent */
    DEMAND_SHARED_PART = 8, /* of a save's memory: an idle jail has written, where it is shared */

    DEMAND_FLOOR_SHARE = 64,    /* a floor that nobody set: this part of the host's memory, */
    DEMAND_FLOOR_PER_CORE = 64, /* so many for each processor, which has to make them, */
    DEMAND_FLOOR_MAX = 128,     /* and no more than this: whichever is least; */
    DEMAND_FLOOR_OTHERS = 8,    /* for templates other than the default, at most this */
};

struct demand {
    uint32_t taken; /* since the last second began */
    uint32_t level;
    uint32_t quiet_s; /* since the last taker */
};

void demand_take(struct demand *demand, uint32_t ceiling);

/* A second is over. have: as many are parked as should be. Until then the level does not fall, so
 * that what was asked for is made, however long that takes. */
void demand_tick(struct demand *demand, bool have);

struct demand_bounds {
    uint32_t floor, ceiling; /* of one template; as the operator set them */
    bool built_in;           /* others have no floor: they are parked when somebody uses them */
    bool restored;           /* with processes */
    uint64_t jail_bytes;     /* memory of a jail */
    uint64_t held_bytes;     /* memory of the jails of all other templates */
    uint64_t memory_bytes;   /* the host's */
    uint64_t free_bytes;     /* of it, that must stay available; 0: DEMAND_FREE_PERCENT */
    uint64_t available_bytes;
};

/* The floor for a host of that size in quiet times, for a template that is not restored. */
uint32_t demand_floor(uint64_t memory_bytes, uint32_t cores, bool is_base);

/* How many there should be now. */
uint32_t demand_target(const struct demand *demand, const struct demand_bounds *bounds);

/* have: parked or being made. None at all is low whatever the target is. */
bool demand_is_low(uint32_t have, uint32_t target);

#endif
