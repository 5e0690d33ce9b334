/* stored.h - a fiber waits for the store.
 *
 * What was asked answers in any case, and until then knows the struct: so no cancellation ends the
 * wait.
 *
 * Blocks:   the fiber. Threads: the loop's.
 */
#ifndef TOOLS_STORED_H
#define TOOLS_STORED_H

#include "lib/base/compiler.h"
#include "lib/base/err.h"
#include "lib/base/fiber.h"

struct stored {
    struct fiber *fiber;
    struct err *err; /* the waiter's */
    char *text;      /* the waiter frees it; NULL: none */
    int error;
    bool came;
};

static inline struct stored stored_begin(struct err *err)
{
    return (struct stored){.fiber = fiber_self(), .err = err};
}

/* A store_text and a store_done, with the struct as ctx. */
void stored_text(void *ctx, int error, const struct err *err, const char *text);
void stored_done(void *ctx, int error, const struct err *err);

must_check int stored_wait(struct stored *stored);

#endif
