#include "tools/side_fiber.h"

#include <assert.h>
#include <errno.h>
#include <stdint.h>

enum { SIDES_MAX = 16 };

static void side_fiber_main(void *arg)
{
    struct side_fiber *side = arg;

    side->fiber = fiber_self();
    side->run(side->arg);
    side->fiber = NULL;
    if (side->waiter) {
        fiber_wake(side->waiter); /* `side` may be no more when this returns */
    }
}

int side_fiber_start(struct side_fiber *side, void (*run)(void *arg), void *arg)
{
    *side = (struct side_fiber){.run = run, .arg = arg};
    return fiber_start(side_fiber_main, side) ? 0 : -EAGAIN;
}

void side_fiber_cancel(struct side_fiber *side)
{
    if (side->fiber) {
        fiber_cancel(side->fiber);
    }
}

void side_fiber_join(struct side_fiber *side)
{
    unsigned shields = 0;

    side->waiter = fiber_self();
    while (side->fiber) {
        if (fiber_park() < 0) {
            fiber_shield();
            shields++;
            side_fiber_cancel(side);
        }
    }
    side->waiter = NULL;
    while (shields-- > 0) {
        fiber_unshield();
    }
}

/* ---- many ---- */

struct each {
    size_t n, next;
    void (*one)(void *ctx, size_t i);
    void *ctx;
};

static void each_main(void *arg)
{
    struct each *each = arg;

    while (each->next < each->n && !fiber_cancelled(fiber_self())) {
        each->one(each->ctx, each->next++);
    }
}

void side_fiber_each(size_t n, size_t width, void (*one)(void *ctx, size_t i), void *ctx)
{
    struct each each = {n, 0, one, ctx};
    struct side_fiber sides[SIDES_MAX] = {0};
    size_t begun = 0;

    assert(width <= SIDES_MAX);
    while (begun < width && each.next < n &&
           side_fiber_start(&sides[begun], each_main, &each) == 0) {
        begun++;
    }
    if (begun == 0) {
        each_main(&each); /* no fiber is available: one after the other, in ours */
    }
    for (size_t i = 0; i < begun; i++) {
        side_fiber_join(&sides[i]);
    }
}
