/* client_walk.c - lists the names of all saves, with a request for each. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/alloc.h"
#include "serve/keeper/client.h"

struct walk {
    struct keeper_client *client;
    struct keeper_saved_walk use;
    struct keeper_request req; /* save.name: the last one told */
};

static void on_walked(void *ctx, const struct keeper_answer *answer, int fds[KEEPER_FDS_MAX])
{
    struct walk *walk = ctx;
    char *name = walk->req.save.name;

    (void)fds;
    if (answer->status == 0) {
        memcpy(name, answer->saved.name, KEEPER_SAVED_BYTES - 1);
        if (walk->use.each(walk->use.ctx, name)) {
            keeper_client_ask(walk->client, &walk->req, on_walked, walk);
            return;
        }
    }
    bool whole = answer->status == 0 || answer->status == -ENOENT;
    walk->use.end(walk->use.ctx, whole ? 0 : answer->status, &answer->err);
    free(walk);
}

void keeper_client_saved_each(struct keeper_client *client, const struct keeper_saved_walk *with)
{
    struct walk *walk = xnew(struct walk);

    *walk = (struct walk){.client = client, .use = *with, .req = {.op = KEEPER_LIST_SAVED}};
    keeper_client_ask(client, &walk->req, on_walked, walk);
}
