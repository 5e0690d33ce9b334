/* side_fiber.h - additional fibers of a call: parts of its work that run at the same time.
 *
 * Owns:     the fiber, from side_fiber_start() to side_fiber_join().
 * Blocks:   the fiber that joins.
 * Threads:  the loop's.
 */
#ifndef TOOLS_SIDE_FIBER_H
#define TOOLS_SIDE_FIBER_H

#include "lib/base/compiler.h"
#include "lib/base/fiber.h"

struct side_fiber {
    void (*run)(void *arg);
    void *arg;
    struct fiber *fiber;  /* NULL: it has ended, or never began */
    struct fiber *waiter; /* that joins */
};

/* -EAGAIN: there are too many fibers. */
must_check int side_fiber_start(struct side_fiber *side, void (*run)(void *arg), void *arg);

/* Waits for its end, also when the joining fiber was cancelled: then the other is cancelled too. */
void side_fiber_join(struct side_fiber *side);

/* Ends it now; it does not wait for it to end by itself. */
void side_fiber_cancel(struct side_fiber *side);

/* one(ctx, i) for every i < n, at most `width` at a time, each in a fiber. Returns when all have
 * ended; those not begun when the call is cancelled are left out. */
void side_fiber_each(size_t n, size_t width, void (*one)(void *ctx, size_t i), void *ctx);

#endif
