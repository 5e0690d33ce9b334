/* keep.c - a running jail's state, under a name that others chose and will forget. */
#include <stdlib.h>

#include "lib/base/alloc.h"
#include "serve/sandbox/internal.h"

struct keep {
    struct save save;
    sandbox_kept *done;
    void *ctx;
};

static void on_saved(struct save *save, int error, const struct err *err,
                     const struct keeper_saved *saved)
{
    struct keep *keep = container_of(save, struct keep, save);

    keep->done(keep->ctx, error, err, saved ? saved->memory_bytes : 0);
    free(keep);
}

void sandbox_keep(struct sandbox *sb, const char *name, sandbox_kept *done, void *ctx)
{
    struct keep *keep = xnew(struct keep);

    *keep = (struct keep){.done = done, .ctx = ctx};
    (void)str_copy(keep->save.name, sizeof(keep->save.name), str_of(name));
    keep->save.flags = KEEPER_SAVE_MEMORY | KEEPER_SAVE_SYNC;
    keep->save.done = on_saved;
    save_add(sb, &keep->save);
}
