#include "tools/stored.h"

#include "lib/base/alloc.h"

void stored_text(void *ctx, int error, const struct err *err, const char *text)
{
    struct stored *stored = ctx;

    stored->came = true;
    stored->error = error;
    stored->text = xstrdup(text);
    if (error < 0) {
        *stored->err = *err;
    }
    fiber_wake(stored->fiber);
}

void stored_done(void *ctx, int error, const struct err *err)
{
    stored_text(ctx, error, err, NULL);
}

int stored_wait(struct stored *stored)
{
    int r = 0;

    fiber_shield();
    while (!stored->came && r == 0) {
        r = fiber_park();
    }
    fiber_unshield();
    return stored->error;
}
