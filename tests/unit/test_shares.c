/* Places that accounts share: nobody takes all, and whoever comes later finds some. */
#include <errno.h>
#include <stdio.h>

#include "check.h"
#include "lib/base/compiler.h"
#include "lib/base/shares.h"

enum { PLACES = 300, HELD_MAX = 1000 };

struct holder {
    struct share *held[HELD_MAX];
    uint32_t n;
};

static uint32_t take_all(struct shares *shares, struct holder *holder, const char *account)
{
    while (holder->n < HELD_MAX && shares_take(shares, account, &holder->held[holder->n]) == 0) {
        holder->n++;
    }
    return holder->n;
}

static void give_all(struct holder *holder)
{
    while (holder->n > 0) {
        share_give(holder->held[--holder->n]);
    }
}

static void test_one_account_leaves_a_third(void)
{
    struct shares shares;
    struct holder holder = {0};

    shares_init(&shares, PLACES);
    CHECK_INT(take_all(&shares, &holder, "a"), 2 * PLACES / 3);
    CHECK_INT(shares.refused, 1);
    CHECK_INT(shares_room(&shares, "a"), 0);
    CHECK(shares_room(&shares, "b") > 0);
    give_all(&holder);
    CHECK_INT(shares.used, 0);
    shares_fini(&shares);
}

static void test_floods_of_many_leave_room_for_the_next(void)
{
    struct shares shares;
    struct holder holders[4] = {0}, late = {0};

    shares_init(&shares, PLACES);
    for (size_t i = 0; i < countof(holders); i++) {
        char name[8];

        (void)snprintf(name, sizeof(name), "team%zu", i);
        CHECK(take_all(&shares, &holders[i], name) > 0);
    }
    CHECK(take_all(&shares, &late, "late") > 0);
    give_all(&late);
    for (size_t i = 0; i < countof(holders); i++) {
        give_all(&holders[i]);
    }
    shares_fini(&shares);
}

/* Two that take and give all the time come to equal parts, whoever was first. */
static void test_accounts_come_to_equal_parts(void)
{
    struct shares shares;
    struct holder first = {0}, second = {0};

    shares_init(&shares, PLACES);
    (void)take_all(&shares, &first, "first");
    for (int i = 0; i < 10 * PLACES; i++) {
        share_give(first.held[--first.n]);
        (void)take_all(&shares, &second, "second");
        (void)take_all(&shares, &first, "first");
    }
    CHECK(first.n <= second.n + 1 && second.n <= first.n + 1);
    CHECK(shares.used < PLACES);
    give_all(&first);
    give_all(&second);
    shares_fini(&shares);
}

static void test_a_part_leaves_room_for_other_parts(void)
{
    struct shares shares;
    struct holder one = {0}, other = {0};

    shares_init(&shares, PLACES);
    while (shares_take_part(&shares, "team", one.n, &one.held[one.n]) == 0) {
        one.n++;
    }
    CHECK(one.n == PLACES / 3);
    CHECK_INT(shares_take_part(&shares, "team", one.n, &one.held[one.n]), -EDQUOT);
    while (shares_take_part(&shares, "team", other.n, &other.held[other.n]) == 0) {
        other.n++;
    }
    CHECK(other.n > PLACES / 8);
    give_all(&one);
    give_all(&other);
    shares_fini(&shares);
}

static void test_a_single_place_can_be_had(void)
{
    struct shares shares;
    struct share *share = NULL, *more = NULL;

    shares_init(&shares, 1);
    CHECK_INT(shares_take(&shares, "a", &share), 0);
    CHECK_INT(shares_take(&shares, "a", &more), -EBUSY);
    CHECK_INT(shares_take(&shares, "b", &more), -EBUSY);
    share_give(share);
    CHECK_INT(shares_take(&shares, "b", &share), 0);
    share_give(share);
    share_give(NULL);
    shares_fini(&shares);
}

int main(void)
{
    static const struct check_test tests[] = {
        {"one account leaves a third of the places", test_one_account_leaves_a_third},
        {"floods of many leave room for the next", test_floods_of_many_leave_room_for_the_next},
        {"accounts come to equal parts", test_accounts_come_to_equal_parts},
        {"a part leaves room for other parts", test_a_part_leaves_room_for_other_parts},
        {"a single place can be had", test_a_single_place_can_be_had},
    };

    return check_run(tests, countof(tests));
}
