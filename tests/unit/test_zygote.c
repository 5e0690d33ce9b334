/* When a zygote may be filled and used. tests/system/test_clones.py has zygotes themselves. */
#include "keeper/checkpoint/zygote.h"

#include "check.h"

static const uint64_t gib = 1ULL << 30;

static void a_zygote_leaves_an_eighth_of_the_memory(void)
{
    const struct zygote_memory memory = {16 * gib, 4 * gib, 0};

    CHECK(zygote_fits(&memory, 0, 2 * gib));
    CHECK(!zygote_fits(&memory, 0, 2 * gib + 1));
}

static void what_clones_may_write_is_kept_for_them(void)
{
    const struct zygote_memory memory = {16 * gib, 4 * gib, gib};

    CHECK(zygote_fits(&memory, 0, gib));
    CHECK(!zygote_fits(&memory, 0, gib + 1));
    CHECK(zygote_start_fits(&memory, 2 * gib + gib / 2));
    CHECK(!zygote_start_fits(&memory, 2 * gib + gib / 2 + 1));
}

static void all_zygotes_fill_a_quarter_of_the_memory(void)
{
    const struct zygote_memory memory = {16 * gib, 16 * gib, 0};

    CHECK(zygote_fits(&memory, 3 * gib, gib));
    CHECK(!zygote_fits(&memory, 3 * gib, gib + 1));
    CHECK(!zygote_fits(&memory, 0, 5 * gib));
}

static void below_a_sixteenth_a_zygote_is_ended(void)
{
    CHECK(!zygote_presses(&(struct zygote_memory){16 * gib, gib, 0}));
    CHECK(zygote_presses(&(struct zygote_memory){16 * gib, gib - 1, 0}));
    CHECK(zygote_presses(&(struct zygote_memory){16 * gib, 2 * gib, gib + 1}));
}

/* /proc/meminfo could not be read: no zygote is made, and no start is refused. */
static void unknown_memory_has_no_room(void)
{
    const struct zygote_memory memory = {0};

    CHECK(!zygote_fits(&memory, 0, 0));
    CHECK(zygote_start_fits(&memory, 1));
}

int main(void)
{
    static const struct check_test tests[] = {
        {"a zygote leaves an eighth of the memory", a_zygote_leaves_an_eighth_of_the_memory},
        {"what clones may write is kept for them", what_clones_may_write_is_kept_for_them},
        {"all zygotes fill a quarter of the memory", all_zygotes_fill_a_quarter_of_the_memory},
        {"below a sixteenth a zygote is ended", below_a_sixteenth_a_zygote_is_ended},
        {"unknown memory has no room", unknown_memory_has_no_room},
    };
    return check_run(tests, countof(tests));
}
