/* doom.c - jails that must go. Each is asked for until the keeper says it is gone; only then is its
 * uid range free again. A daemon that dies first leaves the rest to the next one's adoption. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/alloc.h"
#include "lib/base/log.h"
#include "serve/sandbox/internal.h"

struct doomed {
    UT_hash_handle hh;     /* in all->doomed, by id: each create asks for its own */
    struct sandboxes *all; /* counted */
    char id[KEEPER_ID_BYTES];
    struct keeper_jail jail;
    uint32_t slot;
    int failures;
    bool asked;
};

static void doomed_free(struct doomed *it)
{
    struct sandboxes *all = it->all;

    HASH_DEL(all->doomed, it);
    free(it);
    sandboxes_release(all);
}

static void on_timer(uv_timer_t *timer)
{
    doom_resend(timer->data);
}

/* The keeper is there but could not: a mount may be busy for a moment. */
static void doom_failed(struct doomed *it, const struct keeper_answer *answer)
{
    it->failures++;
    if (it->failures == 1) {
        log_warn("destroy jail %s: %s", it->id, answer->err.msg);
    }
    if (it->failures == SANDBOX_DESTROY_TRIES) {
        log_error("destroy jail %s: given up, its uid range stays taken: %s", it->id,
                  answer->err.msg);
        doomed_free(it);
        return;
    }
    (void)uv_timer_start(&it->all->doom_timer, on_timer, SANDBOX_DESTROY_RETRY_MS, 0);
}

static void on_destroyed(void *ctx, const struct keeper_answer *answer, int fds[KEEPER_FDS_MAX])
{
    struct doomed *it = ctx;

    (void)fds;
    it->asked = false;
    if (it->all->closed) {
        doomed_free(it);
    } else if (answer->status == 0) {
        struct sandboxes *all = it->all;
        slots_give(&all->slots, it->slot);
        all->refs++;
        doomed_free(it);
        start_waiting(all); /* one may wait for just this */
        sandboxes_release(all);
    } else if (answer->status != -ENOTCONN && answer->status != -ECONNRESET) {
        doom_failed(it, answer);
    }
}

static void ask(struct doomed *it)
{
    struct keeper_request req = {.op = KEEPER_DESTROY, .jail = it->jail};

    if (!it->asked && keeper_client_connected(it->all->use.keeper)) {
        it->asked = true;
        memcpy(req.id, it->id, sizeof(req.id));
        keeper_client_ask(it->all->use.keeper, &req, on_destroyed, it);
    }
}

void doom(struct sandboxes *all, const char *id, const struct keeper_jail *jail, uint32_t slot)
{
    struct doomed *it = xnew(struct doomed);

    *it = (struct doomed){.all = all, .jail = *jail, .slot = slot};
    (void)str_copy(it->id, sizeof(it->id), str_of(id));
    all->refs++;
    HASH_ADD_STR(all->doomed, id, it);
    ask(it);
}

void doom_resend(struct sandboxes *all)
{
    struct doomed *it = NULL, *next = NULL;

    HASH_ITER (hh, all->doomed, it, next) {
        ask(it);
    }
}

bool doom_has(const struct sandboxes *all, const char *id)
{
    const struct doomed *it = NULL;

    HASH_FIND_STR(all->doomed, id, it);
    return it != NULL;
}

void doom_free(struct sandboxes *all)
{
    struct doomed *it = NULL, *next = NULL;

    HASH_ITER (hh, all->doomed, it, next) {
        if (!it->asked) {
            doomed_free(it);
        }
    }
}
