/* How many jails should lie parked: by demand, between bounds, within the host's memory. */
#include "check.h"
#include "lib/base/compiler.h"
#include "serve/sandbox/demand.h"

enum { FLOOR = 8, CEILING = 128, SECONDS = 300 };

static const uint64_t gib = (uint64_t)1 << 30;

static struct demand_bounds bounds(void)
{
    return (struct demand_bounds){.floor = FLOOR,
                                  .ceiling = CEILING,
                                  .built_in = true,
                                  .jail_bytes = DEMAND_JAIL_BYTES,
                                  .memory_bytes = 24 * gib,
                                  .available_bytes = 20 * gib};
}

static void take(struct demand *demand, uint32_t n)
{
    while (n-- > 0) {
        demand_take(demand, CEILING);
    }
}

static void test_a_quiet_template_has_its_floor(void)
{
    struct demand quiet = {0};
    struct demand_bounds at = bounds();

    CHECK(demand_target(&quiet, &at) == FLOOR);
    at.built_in = false;
    CHECK(demand_target(&quiet, &at) == 0);
    at = bounds();
    at.ceiling = 3;
    CHECK(demand_target(&quiet, &at) == 3);
}

static void test_it_follows_demand_at_once(void)
{
    struct demand demand = {0};
    struct demand_bounds at = bounds();

    take(&demand, 20);
    CHECK(demand_target(&demand, &at) == 20 * DEMAND_HEADROOM);
    take(&demand, 1000);
    CHECK(demand_target(&demand, &at) == CEILING);
}

static void test_it_falls_slowly(void)
{
    struct demand demand = {0};
    struct demand_bounds at = bounds();
    uint32_t last;
    bool falls = true;

    take(&demand, 50);
    demand_tick(&demand, true);
    CHECK(demand_target(&demand, &at) == 100);
    last = demand_target(&demand, &at);
    for (int second = 0; second < SECONDS; second++) {
        demand_tick(&demand, true);
        falls = falls && demand_target(&demand, &at) <= last &&
                last - demand_target(&demand, &at) <= 1 + last / DEMAND_DECAY;
        last = demand_target(&demand, &at);
    }
    CHECK(falls);
    CHECK(last == FLOOR && demand.level == 0);
}

static void test_it_does_not_fall_before_they_are_there(void)
{
    struct demand demand = {0};

    take(&demand, 10);
    for (int second = 0; second < SECONDS; second++) {
        demand_tick(&demand, false);
    }
    CHECK(demand.level == 10 * DEMAND_HEADROOM);
    demand_tick(&demand, true);
    CHECK(demand.level == 10 * DEMAND_HEADROOM - 1);
}

static void test_the_last_one_stays_for_a_minute(void)
{
    struct demand demand = {0};
    struct demand_bounds at = bounds();
    bool stays = true;

    at.built_in = false;
    take(&demand, 1);
    demand_tick(&demand, true);
    CHECK(demand_target(&demand, &at) == DEMAND_HEADROOM);
    for (int second = 1; second < DEMAND_LAST_S; second++) {
        demand_tick(&demand, true);
        stays = stays && demand_target(&demand, &at) >= 1;
    }
    CHECK(stays);
    CHECK(demand_target(&demand, &at) == 1);
    demand_tick(&demand, true);
    CHECK(demand_target(&demand, &at) == 0);
}

static void test_an_empty_pool_is_low(void)
{
    CHECK(demand_is_low(0, 1));
    CHECK(demand_is_low(0, DEMAND_LOW - 1));
    CHECK(!demand_is_low(0, 0));
    CHECK(!demand_is_low(1, DEMAND_LOW));
    CHECK(demand_is_low(1, DEMAND_LOW + 1));
    CHECK(!demand_is_low(UINT32_MAX, UINT32_MAX));
}

static void test_steady_demand_keeps_its_level(void)
{
    struct demand demand = {0};
    struct demand_bounds at = bounds();

    for (int second = 0; second < SECONDS; second++) {
        take(&demand, 10);
        demand_tick(&demand, true);
    }
    CHECK(demand_target(&demand, &at) == 10 * DEMAND_HEADROOM);
}

static void test_restored_ones_are_as_many_as_memory_allows(void)
{
    struct demand demand = {0};
    struct demand_bounds at = bounds();

    at.restored = true;
    at.jail_bytes = gib / 8;
    CHECK(demand_target(&demand, &at) == 6); /* a thirty-second part of 24 GiB */
    at.floor = 2;
    CHECK(demand_target(&demand, &at) == 2);
    at.jail_bytes = 2 * gib;
    CHECK(demand_target(&demand, &at) == 1); /* more than that part, within the tenth */
    at.jail_bytes = gib / 8;
    take(&demand, 100);
    CHECK(demand_target(&demand, &at) == 19); /* a tenth of 24 GiB */
    at.built_in = false;
    CHECK(demand_target(&demand, &at) == 19);
}

static void test_memory_has_the_last_word(void)
{
    struct demand demand = {0};
    struct demand_bounds at = bounds();

    take(&demand, 1000);
    at.jail_bytes = gib;
    CHECK(demand_target(&demand, &at) == 2); /* a tenth of 24 GiB */
    at.held_bytes = 2 * gib;
    CHECK(demand_target(&demand, &at) == 0);
    at = bounds();
    at.available_bytes = 2 * gib;
    CHECK(demand_target(&demand, &at) == 0);
    at.free_bytes = gib;
    CHECK(demand_target(&demand, &at) == CEILING);
    at.free_bytes = 3 * gib;
    CHECK(demand_target(&demand, &at) == 0);
}

static void test_a_host_has_a_floor_of_its_size(void)
{
    const uint64_t mib = gib / 1024;

    CHECK(demand_floor(24 * gib, 2, true) == 128);
    CHECK(demand_floor(24 * gib, 1, true) == DEMAND_FLOOR_PER_CORE);
    CHECK(demand_floor(1024 * gib, 96, true) == DEMAND_FLOOR_MAX);
    CHECK(demand_floor(4 * gib, 4, true) == 32);
    CHECK(demand_floor(gib, 2, true) == 8);
    CHECK(demand_floor(100 * mib, 2, true) == 0);
    CHECK(demand_floor(24 * gib, 0, true) == 0);
    CHECK(demand_floor(24 * gib, 2, false) == DEMAND_FLOOR_OTHERS);
    CHECK(demand_floor(512 * mib, 2, false) == 4);
}

int main(void)
{
    static const struct check_test tests[] = {
        {"a quiet template has its floor", test_a_quiet_template_has_its_floor},
        {"it follows demand at once", test_it_follows_demand_at_once},
        {"it falls slowly", test_it_falls_slowly},
        {"it does not fall before they are there", test_it_does_not_fall_before_they_are_there},
        {"the last one stays for a minute", test_the_last_one_stays_for_a_minute},
        {"an empty pool is low", test_an_empty_pool_is_low},
        {"steady demand keeps its level", test_steady_demand_keeps_its_level},
        {"restored ones are as many as memory allows",
         test_restored_ones_are_as_many_as_memory_allows},
        {"memory has the last word", test_memory_has_the_last_word},
        {"a host has a floor of its size", test_a_host_has_a_floor_of_its_size},
    };
    return check_run(tests, countof(tests));
}
