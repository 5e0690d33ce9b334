/* destroy.c - the destroy queue: jails that the keeper must destroy.
 *
 * Each is asked for until the keeper says it is gone; only then is its uid range free again. The
 * jails that are left when the daemon dies are destroyed by the next daemon's adoption. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/alloc.h"
#include "lib/base/log.h"
#include "serve/sandbox/internal.h"

struct destroying {
    UT_hash_handle hh;     /* in all->destroying, by id: each create asks for its own */
    struct sandboxes *all; /* counted */
    char id[KEEPER_ID_BYTES];
    struct keeper_jail jail;
    uint32_t slot;
    int failures;
    bool asked;
};

static void entry_free(struct destroying *it)
{
    struct sandboxes *all = it->all;

    HASH_DEL(all->destroying, it);
    free(it);
    sandboxes_release(all);
}

static void on_timer(uv_timer_t *timer)
{
    destroy_resend(timer->data);
}

/* The keeper is there but could not: a mount may be busy for a moment. */
static void destroy_failed(struct destroying *it, const struct keeper_answer *answer)
{
    it->failures++;
    if (it->failures == 1) {
        log_warn("destroy jail %s: %s", it->id, answer->err.msg);
    }
    if (it->failures == SANDBOX_DESTROY_TRIES) {
        log_error("destroy jail %s: given up, its uid range stays taken: %s", it->id,
                  answer->err.msg);
        entry_free(it);
        return;
    }
    (void)uv_timer_start(&it->all->destroy_timer, on_timer, SANDBOX_DESTROY_RETRY_MS, 0);
}

static void on_destroyed(void *ctx, const struct keeper_answer *answer, int fds[KEEPER_FDS_MAX])
{
    struct destroying *it = ctx;

    (void)fds;
    it->asked = false;
    if (it->all->closed) {
        entry_free(it);
    } else if (answer->status == 0) {
        struct sandboxes *all = it->all;
        slots_give(&all->slots, it->slot);
        all->refs++;
        entry_free(it);
        start_waiting(all); /* one may wait for just this */
        sandboxes_release(all);
    } else if (answer->status != -ENOTCONN && answer->status != -ECONNRESET) {
        destroy_failed(it, answer);
    }
}

static void ask(struct destroying *it)
{
    struct keeper_request req = {.op = KEEPER_DESTROY, .jail = it->jail};

    if (!it->asked && keeper_client_connected(it->all->use.keeper)) {
        it->asked = true;
        memcpy(req.id, it->id, sizeof(req.id));
        keeper_client_ask(it->all->use.keeper, &req, on_destroyed, it);
    }
}

void destroy_jail(struct sandboxes *all, const char *id, const struct keeper_jail *jail,
                  uint32_t slot)
{
    struct destroying *it = xnew(struct destroying);

    *it = (struct destroying){.all = all, .jail = *jail, .slot = slot};
    (void)str_copy(it->id, sizeof(it->id), str_of(id));
    all->refs++;
    HASH_ADD_STR(all->destroying, id, it);
    ask(it);
}

void destroy_resend(struct sandboxes *all)
{
    struct destroying *it = NULL, *next = NULL;

    HASH_ITER (hh, all->destroying, it, next) {
        ask(it);
    }
}

bool destroy_has(const struct sandboxes *all, const char *id)
{
    const struct destroying *it = NULL;

    HASH_FIND_STR(all->destroying, id, it);
    return it != NULL;
}

void destroy_free(struct sandboxes *all)
{
    struct destroying *it = NULL, *next = NULL;

    HASH_ITER (hh, all->destroying, it, next) {
        if (!it->asked) {
            entry_free(it);
        }
    }
}
