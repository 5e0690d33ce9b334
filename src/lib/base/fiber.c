#include "lib/base/fiber.h"

#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "lib/base/alloc.h"
#include "lib/base/busy.h"

#ifndef __has_feature
#define __has_feature(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#include <sanitizer/common_interface_defs.h>
#define switch_begin __sanitizer_start_switch_fiber
#define switch_end __sanitizer_finish_switch_fiber
#else /* only ASan must be told of a change of stacks */
#define switch_begin(save, bottom, size) ((void)(save), (void)(size))
#define switch_end(save, bottom, size) ((void)(save), (void)(size))
#endif

struct fiber {
    void (*run)(void *arg);
    void *arg;
    struct fiber *waker; /* which goes on when this one stops; NULL: the loop's own stack */
    bool parked;
    bool woken; /* a wake that came while it was not parked */
    bool cancelled;
    bool ended;
    unsigned shields;

    ucontext_t own, back; /* where it stopped; where to go when it stops */
    char *stack;          /* with the guard page below it */
    size_t guard_bytes;
    const void *back_bottom; /* of the stack that woke it, for ASan alone */
    size_t back_bytes;
};

static _Thread_local struct fiber *running;
static _Thread_local unsigned fibers_n;

/* ---- changing stacks ---- */

/* From the waker's stack to the fiber's, and back when it parks or ends. */
static void fiber_enter(struct fiber *fiber)
{
    void *fake = NULL;

    fiber->waker = running;
    fiber->parked = false;
    running = fiber;
    switch_begin(&fake, fiber->stack + fiber->guard_bytes, FIBER_STACK_BYTES);
    (void)swapcontext(&fiber->back, &fiber->own);
    switch_end(fake, NULL, NULL);
    running = fiber->waker;
}

static void fiber_leave(struct fiber *fiber)
{
    void *fake = NULL;

    switch_begin(&fake, fiber->back_bottom, fiber->back_bytes);
    (void)swapcontext(&fiber->own, &fiber->back);
    switch_end(fake, &fiber->back_bottom, &fiber->back_bytes);
}

static void fiber_main(void)
{
    struct fiber *fiber = running;

    switch_end(NULL, &fiber->back_bottom, &fiber->back_bytes);
    fiber->run(fiber->arg);
    assert(fiber->shields == 0);
    fiber->ended = true;
    switch_begin(NULL, fiber->back_bottom, fiber->back_bytes);
    (void)setcontext(&fiber->back);
    abort(); /* there is nothing below */
}

/* ---- its life ---- */

/* Writing past the end of the stack meets a page that cannot be written, never another's memory. */
static char *stack_new(size_t guard_bytes)
{
    char *stack = mmap(NULL, guard_bytes + FIBER_STACK_BYTES, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);

    if (stack == MAP_FAILED) {
        return NULL;
    }
    if (mprotect(stack, guard_bytes, PROT_NONE) < 0) {
        (void)munmap(stack, guard_bytes + FIBER_STACK_BYTES);
        return NULL;
    }
    return stack;
}

static void fiber_free(struct fiber *fiber)
{
    (void)munmap(fiber->stack, fiber->guard_bytes + FIBER_STACK_BYTES);
    free(fiber);
    fibers_n--;
}

static void fiber_resume(struct fiber *fiber)
{
    busy("a tool");
    fiber_enter(fiber);
    if (fiber->ended) {
        fiber_free(fiber);
    }
}

static void context_init(struct fiber *fiber)
{
    (void)getcontext(&fiber->own);
    fiber->own.uc_stack.ss_sp = fiber->stack + fiber->guard_bytes;
    fiber->own.uc_stack.ss_size = FIBER_STACK_BYTES;
    makecontext(&fiber->own, fiber_main, 0);
}

struct fiber *fiber_start(void (*run)(void *arg), void *arg)
{
    size_t guard_bytes = (size_t)sysconf(_SC_PAGESIZE);

    if (fibers_n >= FIBERS_MAX) {
        return NULL;
    }
    char *stack = stack_new(guard_bytes);
    if (!stack) {
        return NULL;
    }
    struct fiber *fiber = xnew(struct fiber);
    fiber->run = run;
    fiber->arg = arg;
    fiber->stack = stack;
    fiber->guard_bytes = guard_bytes;
    context_init(fiber);
    fibers_n++;
    fiber_resume(fiber);
    return fiber;
}

struct fiber *fiber_self(void)
{
    return running;
}

/* ---- waiting ---- */

int fiber_park(void)
{
    struct fiber *fiber = running;

    assert(fiber);
    if (!fiber->woken && !fiber_cancelled(fiber)) {
        fiber->parked = true;
        fiber_leave(fiber);
    }
    fiber->woken = false;
    return fiber_cancelled(fiber) ? -ECANCELED : 0;
}

void fiber_wake(struct fiber *fiber)
{
    if (fiber->parked) {
        fiber_resume(fiber);
    } else {
        fiber->woken = true;
    }
}

void fiber_cancel(struct fiber *fiber)
{
    fiber->cancelled = true;
    if (fiber->parked && fiber->shields == 0) {
        fiber_resume(fiber);
    }
}

bool fiber_cancelled(const struct fiber *fiber)
{
    return fiber->cancelled && fiber->shields == 0;
}

void fiber_shield(void)
{
    running->shields++;
}

void fiber_unshield(void)
{
    assert(running->shields > 0);
    running->shields--;
}
