/* pack.c - the memory of sandboxes that have been paused for a while is compressed, one after the
 * other. Only pauses are: the saves of templates and snapshots are read too often. The keeper
 * remembers which saves are compressed, so a daemon asks once for each, and learns its size. */
#include <inttypes.h>

#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "serve/sandbox/internal.h"

enum { PACK_LOOK_MS = 30 * 1000 };

struct candidate {
    struct sandbox *sb;
    int64_t before_ms; /* paused at least since */
};

static bool look(void *ctx, struct sandbox *sb)
{
    struct candidate *candidate = ctx;

    if (sb->state == SANDBOX_PAUSED && sb->saved && !sb->packed && saved_has_memory(sb->saved) &&
        sb->end_ms <= candidate->before_ms) {
        candidate->sb = sb;
    }
    return !candidate->sb;
}

static void pack_next(struct sandboxes *all);

static void on_packed(void *ctx, const struct keeper_answer *answer, int fds[KEEPER_FDS_MAX])
{
    struct sandbox *sb = ctx;
    struct sandboxes *all = sb->all;
    bool lost = answer->status == -ENOTCONN || answer->status == -ECONNRESET;

    (void)fds;
    all->packing = false;
    sb->packed = !lost;
    if (answer->status == 0 && sb->state == SANDBOX_PAUSED) {
        sb->saved_bytes = answer->saved.memory_bytes;
        usage_sums_update(sb);
        log_info("sandbox %s: its memory takes %" PRIu64 " kB on the disk, %" PRIu64
                 " kB before it was packed",
                 sb->id, answer->saved.memory_bytes / 1024, answer->saved.plain_bytes / 1024);
    } else if (!lost && sb->state == SANDBOX_PAUSED) {
        log_warn("sandbox %s: pack its memory: %s", sb->id, answer->err.msg);
    }
    sandbox_release(sb);
    if (!lost && !all->closed) {
        pack_next(all);
    }
    sandboxes_release(all);
}

static void pack_next(struct sandboxes *all)
{
    struct candidate candidate = {.before_ms = clock_wall_ms() - all->use.pack_after_ms};
    struct keeper_request req = {.op = KEEPER_PACK};

    if (all->packing || all->adoption != ADOPT_READY || !keeper_client_connected(all->use.keeper)) {
        return;
    }
    table_each(&all->table, true, NULL, look, &candidate);
    if (!candidate.sb) {
        return;
    }
    all->packing = true;
    all->refs++;
    sandbox_hold(candidate.sb);
    (void)str_copy(req.save.name, sizeof(req.save.name), str_of(candidate.sb->saved));
    keeper_client_ask(all->use.keeper, &req, on_packed, candidate.sb);
}

static void on_timer(uv_timer_t *timer)
{
    pack_next(timer->data);
}

void pack_start(struct sandboxes *all)
{
    int64_t after = all->use.pack_after_ms;
    uint64_t look_ms = after < PACK_LOOK_MS ? (uint64_t)after : PACK_LOOK_MS;

    if (after > 0) {
        (void)uv_timer_start(&all->pack_timer, on_timer, look_ms, look_ms);
    }
}
