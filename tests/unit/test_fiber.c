#include <errno.h>
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>

#include "check.h"
#include "lib/base/alloc.h"
#include "lib/base/fiber.h"

struct story {
    struct fiber *fiber;
    char said[64];
    int result;
    struct story *other;
    int rounds;
};

static void say(struct story *story, const char *what)
{
    strcat(story->said, what);
}

/* ---- parking and waking ---- */

static void run_two_steps(void *arg)
{
    struct story *story = arg;

    story->fiber = fiber_self();
    say(story, "a");
    story->result = fiber_park();
    say(story, "b");
    story->result = fiber_park();
    say(story, "c");
}

static void runs_from_wake_to_wake(void)
{
    struct story story = {.result = -1};

    CHECK(!fiber_self());
    CHECK(fiber_start(run_two_steps, &story));
    CHECK(!fiber_self());
    CHECK_STR(story.said, "a");
    fiber_wake(story.fiber);
    CHECK_STR(story.said, "ab");
    CHECK_INT(story.result, 0);
    fiber_wake(story.fiber);
    CHECK_STR(story.said, "abc");
}

static void run_wakes_itself(void *arg)
{
    struct story *story = arg;

    fiber_wake(fiber_self());
    fiber_wake(fiber_self());
    story->result = fiber_park();
    say(story, "once");
    story->fiber = fiber_self();
    if (fiber_park() == 0) {
        say(story, ", then again");
    }
}

static void a_wake_before_the_park_is_kept_once(void)
{
    struct story story = {.result = -1};

    CHECK(fiber_start(run_wakes_itself, &story));
    CHECK_STR(story.said, "once");
    fiber_wake(story.fiber);
    CHECK_STR(story.said, "once, then again");
}

/* ---- one wakes another ---- */

static void run_inner(void *arg)
{
    struct story *story = arg;

    story->fiber = fiber_self();
    while (fiber_park() == 0 && story->rounds++ < 3) {
        say(story->other, "i");
        fiber_wake(story->other->fiber); /* not parked: it waits for us; kept */
    }
    say(story->other, "e");
}

static void run_outer(void *arg)
{
    struct story *story = arg;

    story->fiber = fiber_self();
    for (int i = 0; i < 3; i++) {
        say(story, "o");
        fiber_wake(story->other->fiber);
        if (fiber_self() != story->fiber || fiber_park() < 0) {
            say(story, "?");
        }
    }
    fiber_wake(story->other->fiber);
    say(story, ".");
}

static void a_fiber_that_wakes_another_goes_on_when_that_one_parks(void)
{
    struct story outer = {0}, inner = {.other = &outer};

    outer.other = &inner;
    CHECK(fiber_start(run_inner, &inner));
    CHECK(fiber_start(run_outer, &outer));
    CHECK_STR(outer.said, "oioioie.");
    CHECK(!fiber_self());
}

static void run_nested(void *arg)
{
    struct story *story = arg;

    if (story->rounds-- > 0) {
        CHECK(fiber_start(run_nested, story));
        say(story, "x");
    }
}

static void fibers_start_fibers(void)
{
    struct story story = {.rounds = 20};

    CHECK(fiber_start(run_nested, &story));
    CHECK_STR(story.said, "xxxxxxxxxxxxxxxxxxxx");
}

/* ---- cancellation ---- */

static void on_left(const int *number)
{
    (void)number;
    setenv("TEST_FIBER_LEFT", "yes", 1);
}

static void run_parks(void *arg)
{
    struct story *story = arg;
    scoped(on_left) int guard = 0;

    (void)guard;
    story->fiber = fiber_self();
    story->result = fiber_park();
    say(story, fiber_park() == -ECANCELED ? "still" : "not");
}

static void a_cancelled_fiber_is_woken_and_leaves_its_scopes(void)
{
    struct story story = {0};

    unsetenv("TEST_FIBER_LEFT");
    CHECK(fiber_start(run_parks, &story));
    CHECK(!getenv("TEST_FIBER_LEFT"));
    fiber_cancel(story.fiber);
    CHECK_INT(story.result, -ECANCELED);
    CHECK_STR(story.said, "still");
    CHECK(getenv("TEST_FIBER_LEFT"));
}

static void run_shields(void *arg)
{
    struct story *story = arg;

    story->fiber = fiber_self();
    fiber_shield();
    fiber_shield();
    story->result = fiber_park();
    say(story, story->result == 0 && !fiber_cancelled(story->fiber) ? "a" : "!");
    fiber_unshield();
    say(story, fiber_park() == 0 ? "b" : "!");
    fiber_unshield();
    say(story, fiber_cancelled(story->fiber) && fiber_park() == -ECANCELED ? "c" : "!");
}

static void a_shield_waits_as_if_nobody_had_cancelled(void)
{
    struct story story = {.result = -1};

    CHECK(fiber_start(run_shields, &story));
    fiber_cancel(story.fiber);
    CHECK_STR(story.said, "");
    fiber_wake(story.fiber);
    CHECK_STR(story.said, "a");
    fiber_wake(story.fiber);
    CHECK_STR(story.said, "abc");
}

static void run_cancels_itself(void *arg)
{
    struct story *story = arg;

    fiber_cancel(fiber_self());
    story->result = fiber_park();
}

static void a_fiber_can_cancel_itself(void)
{
    struct story story = {0};

    CHECK(fiber_start(run_cancels_itself, &story));
    CHECK_INT(story.result, -ECANCELED);
}

/* ---- limits ---- */

static void run_waits(void *arg)
{
    struct fiber **slot = arg;

    *slot = fiber_self();
    (void)!fiber_park();
}

static void there_are_at_most_so_many(void)
{
    static struct fiber *all[FIBERS_MAX];
    struct fiber *none = NULL;

    for (size_t i = 0; i < FIBERS_MAX; i++) {
        CHECK(fiber_start(run_waits, &all[i]));
    }
    CHECK(!fiber_start(run_waits, &none));
    for (size_t i = 0; i < FIBERS_MAX; i++) {
        fiber_cancel(all[i]);
    }
    CHECK(fiber_start(run_waits, &none));
    fiber_cancel(none);
}

enum { DEEP = 2000 }; /* jansson refuses what is deeper than 2048 */

static void run_deep_json(void *arg)
{
    struct story *story = arg;
    char text[2 * DEEP + 1];

    memset(text, '[', DEEP);
    memset(text + DEEP, ']', DEEP);
    text[2 * DEEP] = '\0';
    json_t *deep = json_loads(text, 0, NULL);
    json_t *copy = json_deep_copy(deep);
    char *printed = json_dumps(copy, JSON_COMPACT);
    story->result = printed && strcmp(printed, text) == 0 && json_equal(deep, copy);
    free(printed);
    json_decref(copy);
    json_decref(deep);
}

static void the_deepest_json_fits_a_stack(void)
{
    struct story story = {0};

    CHECK(fiber_start(run_deep_json, &story));
    CHECK_INT(story.result, 1);
}

int main(void)
{
    static const struct check_test tests[] = {
        {"a fiber runs from wake to wake", runs_from_wake_to_wake},
        {"a wake before the park is kept, once", a_wake_before_the_park_is_kept_once},
        {"a fiber that wakes another goes on when that one parks",
         a_fiber_that_wakes_another_goes_on_when_that_one_parks},
        {"fibers start fibers", fibers_start_fibers},
        {"a cancelled fiber is woken and leaves its scopes",
         a_cancelled_fiber_is_woken_and_leaves_its_scopes},
        {"a shield waits as if nobody had cancelled", a_shield_waits_as_if_nobody_had_cancelled},
        {"a fiber can cancel itself", a_fiber_can_cancel_itself},
        {"there are at most FIBERS_MAX", there_are_at_most_so_many},
        {"the deepest JSON fits a stack", the_deepest_json_fits_a_stack},
    };

    return check_run(tests, countof(tests));
}
