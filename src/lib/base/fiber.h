/* fiber.h - a function with a stack of its own on the loop's thread, so that work of many steps
 * reads from top to bottom.
 *
 * Owns:     each fiber's stack, from fiber_start() until its function has returned.
 * Needs:    callbacks that wake it: of libuv, of an exchange, of anything that runs on the loop.
 * Blocks:   fiber_park() gives the thread back to the loop; nothing here blocks the thread.
 * Threads:  the one that started it. A fiber runs only inside fiber_start() and fiber_wake().
 *
 * A fiber that was cancelled is woken, and every fiber_park() of it returns -ECANCELED at once,
 * until it has returned or shields itself: its function cleans up as after any other error. A fiber
 * is never dropped: what its scopes hold is always given back.
 */
#ifndef BASE_FIBER_H
#define BASE_FIBER_H

#include <stdbool.h>

#include "lib/base/compiler.h"

enum {
    /* Address space: a page is used when it is touched. JSON as deep as jansson takes it fits: it
     * is printed and freed by recursion. */
    FIBER_STACK_BYTES = 2 * 1024 * 1024,
    FIBERS_MAX = 1024,
};

struct fiber;

/* Runs `run` until it first parks or returns. NULL: there are FIBERS_MAX, or no memory. Otherwise
 * the fiber, which is dead already when `run` has returned: code that needs it later takes it from
 * fiber_self() inside `run`. */
struct fiber *fiber_start(void (*run)(void *arg), void *arg);

/* The one that runs; NULL on the loop's own stack. */
struct fiber *fiber_self(void);

/* Waits for a fiber_wake(). 0, or -ECANCELED. Several causes may wake it: look again, in a loop. */
must_check int fiber_park(void);

/* Runs a parked fiber on; from the loop's stack, or from another fiber, which then goes on when
 * this one parks. A wake of one that is not parked is kept for its next fiber_park(). */
void fiber_wake(struct fiber *fiber);

/* Good until the fiber's function has returned. It runs inside the call, if it was parked.
 * fiber_cancelled() is false inside a shield. */
void fiber_cancel(struct fiber *fiber);
bool fiber_cancelled(const struct fiber *fiber);

/* Inside a shield the fiber waits as if it were not cancelled, so that it can clean up. Nests. */
void fiber_shield(void);
void fiber_unshield(void);

#endif
