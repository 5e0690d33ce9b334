/* Whose request the keeper gets next. */
#include <stdio.h>

#include "check.h"
#include "lib/base/compiler.h"
#include "serve/keeper/turns.h"

enum { MANY = 200 };

static struct turn of_a[MANY], of_b[MANY];

static void test_a_late_owner_is_next(void)
{
    struct turns turns;
    struct turn *first[KEEPER_TURNS_MAX];
    size_t n = 0;

    turns_init(&turns);
    for (size_t i = 0; i < MANY; i++) {
        turns_add(&turns, "a", &of_a[i]);
    }
    while ((first[n] = turns_next(&turns))) {
        CHECK(first[n] == &of_a[n]); /* in the order of the asking */
        n++;
    }
    CHECK(n > 1 && n < KEEPER_TURNS_MAX);
    turns_add(&turns, "b", &of_b[0]);
    CHECK(turns_next(&turns) == &of_b[0]); /* there was a slot for it */
    turn_over(&of_b[0]);
    for (size_t i = 0; i < n; i++) {
        turn_over(first[i]);
    }
    while (turns_drop(&turns)) {
    }
    CHECK_INT(turns.waiting_n, 0);
    CHECK_INT(turns.slots.used, 0);
}

static void test_owners_alternate(void)
{
    struct turns turns;
    struct turn *turn;
    int a = 0, b = 0;

    turns_init(&turns);
    for (size_t i = 0; i < MANY; i++) {
        turns_add(&turns, "a", &of_a[i]);
    }
    for (size_t i = 0; i < 10; i++) {
        turns_add(&turns, "b", &of_b[i]);
    }
    while (b < 10 && (turn = turns_next(&turns))) {
        bool is_a = turn >= of_a && turn < of_a + MANY;
        a += is_a;
        b += !is_a;
        turn_over(turn);
    }
    CHECK_INT(b, 10);
    CHECK(a <= 10);
    while (turns_drop(&turns)) {
    }
}

/* Work that never ends keeps its slots, but not all of them. */
static void test_hanging_work_leaves_slots(void)
{
    struct turns turns;
    struct turn *turn;
    size_t hanging = 0;

    turns_init(&turns);
    for (size_t i = 0; i < MANY; i++) {
        turns_add(&turns, "a", &of_a[i]);
    }
    while (turns_next(&turns)) {
        hanging++;
    }
    for (size_t i = 0; i < MANY; i++) {
        turns_add(&turns, "b", &of_b[i]);
        turn = turns_next(&turns);
        CHECK(turn == &of_b[i]);
        turn_over(turn);
    }
    CHECK(hanging < KEEPER_TURNS_MAX);
    for (size_t i = 0; i < hanging; i++) {
        turn_over(&of_a[i]);
    }
    while (turns_drop(&turns)) {
    }
    CHECK_INT(turns.slots.used, 0);
}

int main(void)
{
    static const struct check_test tests[] = {
        {"a late owner is next", test_a_late_owner_is_next},
        {"owners alternate", test_owners_alternate},
        {"hanging work leaves slots", test_hanging_work_leaves_slots},
    };

    return check_run(tests, countof(tests));
}
