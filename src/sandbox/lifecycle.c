/* lifecycle.c - the end of a sandbox: by request, by its time, or by itself. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "sandbox/internal.h"

/* ---- leaving ---- */

static void on_closed(uv_handle_t *handle)
{
    sandbox_release(handle->data);
}

void sandbox_leave(struct sandbox *sb)
{
    table_remove(&sb->all->table, sb);
    sandbox_close(sb);
}

void sandbox_close(struct sandbox *sb)
{
    struct sandbox_watch *watch = NULL;

    sb->state = SANDBOX_KILLING;
    while ((watch = sb->watches)) {
        sandbox_watch_unset(watch);
        watch->gone(watch);
    }
    agent_channel_close(move_ptr(&sb->channel));
    egress_close(move_ptr(&sb->net));
    sandbox_fail_dials(sb, -ENOTCONN);
    if (sb->pidfd >= 0) {
        uv_close((uv_handle_t *)&sb->pidfd_poll, on_closed);
        fd_closep(&sb->pidfd);
    }
    uv_close((uv_handle_t *)&sb->timer, on_closed);
    sandbox_release(sb); /* the table's */
}

/* ---- on record ---- */

struct ending {
    struct sandbox *sb; /* counted */
    void (*done)(void *ctx);
    void *ctx;
};

static void on_recorded(void *ctx, int error, const struct err *err)
{
    struct ending *ending = ctx;

    if (error < 0) {
        log_error("sandbox %s: record its end: %s", ending->sb->id, err->msg);
    }
    if (ending->done) {
        ending->done(ending->ctx);
    }
    sandbox_release(ending->sb);
    free(ending);
}

static void record_end(struct sandbox *sb, const char *reason, void (*done)(void *ctx), void *ctx)
{
    struct ending *ending = xnew(struct ending);

    *ending = (struct ending){.sb = sb, .done = done, .ctx = ctx};
    sandbox_hold(sb);
    sb->end_ms = clock_wall_ms();
    log_info("sandbox %s: killed: %s", sb->id, reason);
    sandbox_save(sb, "killed", reason, on_recorded, ending);
}

/* ---- kill ---- */

void sandbox_kill(struct sandbox *sb, const char *reason, void (*done)(void *ctx), void *ctx)
{
    if (sb->state == SANDBOX_STARTING) {
        struct err err;
        (void)err_set(&err, ECANCELED, "the sandbox was killed while it started: %s", reason);
        start_fail(sb, -EIO, &err);
        if (done) {
            done(ctx);
        }
        return;
    }
    sandbox_hold(sb);
    sandbox_leave(sb);
    doom(sb->all, sb->id, &sb->jail, sb->uid_slot);
    record_end(sb, reason, done, ctx);
    sandbox_release(sb);
}

/* ---- death ---- */

static void on_last_usage(void *ctx, const struct keeper_answer *answer, int fds[KEEPER_FDS_MAX])
{
    struct sandbox *sb = ctx;
    bool oom = answer->status == 0 && answer->usage.oom_kills > 0;

    (void)fds;
    if (!sb->all->closed) {
        record_end(sb, oom ? "out of memory" : "the sandbox's first process ended", NULL, NULL);
        doom(sb->all, sb->id, &sb->jail, sb->uid_slot);
    }
    sandbox_release(sb);
}

/* The jail's cgroup knows why, so it is asked before the jail is destroyed. */
void sandbox_died(struct sandbox *sb)
{
    struct keeper_request req = {.op = KEEPER_USAGE, .jail = sb->jail};
    struct err err;

    if (sb->state == SANDBOX_STARTING) {
        (void)err_set(&err, EIO, "the sandbox's first process ended while it started");
        start_fail(sb, -EIO, &err);
        return;
    }
    sandbox_hold(sb);
    sandbox_leave(sb);
    memcpy(req.id, sb->id, sizeof(sb->id));
    keeper_client_ask(sb->all->use.keeper, &req, on_last_usage, sb);
}

/* ---- time ---- */

void sandbox_on_timer(uv_timer_t *timer)
{
    struct sandbox *sb = timer->data;

    if (sb->state == SANDBOX_STARTING) {
        start_timeout(sb);
        return;
    }
    int64_t left = sb->deadline_mono_ms - clock_mono_ms();
    if (left > 0) { /* the loop's clock runs behind: it is read once a turn */
        (void)uv_timer_start(timer, sandbox_on_timer, (uint64_t)left, 0);
        return;
    }
    sandbox_kill(sb, "timeout", NULL, NULL);
}

void sandbox_arm(struct sandbox *sb)
{
    int64_t left = sb->end_ms - clock_wall_ms();

    left = left > 0 ? left : 0;
    sb->deadline_mono_ms = clock_mono_ms() + left;
    (void)uv_timer_start(&sb->timer, sandbox_on_timer, (uint64_t)left, 0);
}

void sandbox_set_end(struct sandbox *sb, int64_t end_ms, bool only_extend)
{
    if (only_extend && end_ms <= sb->end_ms) {
        return;
    }
    sb->end_ms = end_ms;
    if (sb->state == SANDBOX_RUNNING) {
        sandbox_arm(sb);
    }
    sandbox_save(sb, sb->state == SANDBOX_PAUSED ? "paused" : "running", NULL, NULL, NULL);
}
