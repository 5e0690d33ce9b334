/* save_as.c - saves a running jail under a name that the caller chose, and will remove. */
#include <stdlib.h>

#include "lib/base/alloc.h"
#include "serve/sandbox/internal.h"

struct save_as {
    struct save save;
    sandbox_saved_as *done;
    void *ctx;
};

static void on_saved(struct save *save, int error, const struct err *err,
                     const struct keeper_saved *saved)
{
    struct save_as *save_as = container_of(save, struct save_as, save);

    save_as->done(save_as->ctx, error, err, saved ? saved->memory_bytes : 0);
    free(save_as);
}

void sandbox_save_as(struct sandbox *sb, const char *name, sandbox_saved_as *done, void *ctx)
{
    struct save_as *save_as = xnew(struct save_as);

    *save_as = (struct save_as){.done = done, .ctx = ctx};
    (void)str_copy(save_as->save.name, sizeof(save_as->save.name), str_of(name));
    save_as->save.flags = KEEPER_SAVE_MEMORY | KEEPER_SAVE_SYNC;
    save_as->save.done = on_saved;
    save_add(sb, &save_as->save);
}
