/* lifecycle.c - the end of a sandbox: on request, when its time is up, or when its jail dies. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "lib/base/alloc.h"
#include "lib/base/busy.h"
#include "lib/base/clock.h"
#include "lib/base/fd.h"
#include "serve/sandbox/internal.h"

enum { DISK_FULL_SLACK_BYTES = 1024 * 1024 }; /* a disk this close to its limit counts as full */

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
    struct err err;

    (void)!sandbox_set_state(sb, SANDBOX_KILLING);
    agent_channel_drain_logs(sb->channel); /* its last words */
    while ((watch = sb->watches)) {
        watch->told = false;
        sandbox_watch_unset(watch);
        watch->gone(watch);
    }
    sandbox_drop_jail(sb);
    sandbox_fail_dials(sb, -ENOTCONN);
    int error = sb->all->closed ? err_set(&err, EAGAIN, "the daemon is stopping; try again")
                                : err_set(&err, ENOENT, "the sandbox was killed meanwhile");
    save_fail_all(sb, error, &err);
    resume_fail_all(sb, error, &err);
    for (size_t i = 0; i < SANDBOX_TIMERS; i++) {
        uv_close((uv_handle_t *)&sb->timers[i], on_closed);
    }
    sandbox_release(sb); /* the table's */
}

/* ---- kill ---- */

void sandbox_kill(struct sandbox *sb, const char *reason, store_done *done, void *ctx)
{
    static const struct err none;

    if (sb->state == SANDBOX_STARTING || sb->state == SANDBOX_PARKING) {
        struct err err;
        (void)err_set(&err, ECANCELED, "the sandbox was killed while it started: %s", reason);
        start_fail(sb, -EIO, &err);
        if (done) {
            done(ctx, 0, &none);
        }
        return;
    }
    if (sb->state == SANDBOX_RESUMING) {
        struct err err;
        (void)err_set(&err, ENOENT, "the sandbox was killed while it resumed: %s", reason);
        start_fail(sb, -ENOENT, &err); /* it is PAUSED now */
    }
    sandbox_hold(sb);
    bool writing = save_is(sb, SAVE_WRITING) || save_is(sb, SAVE_TAKING);
    bool paused = sb->state == SANDBOX_PAUSED;
    if (save_is(sb, SAVE_UNKNOWN)) { /* no answer will come: the keeper may have finished it */
        saved_forget(sb->all, sb->saves->name);
    }
    sandbox_leave(sb);
    if (writing) { /* the keeper's answer comes first */
        sb->destroy_due = true;
        sb->destroy_slot = sb->uid_slot;
    } else if (!paused) {
        destroy_jail(sb->all, sb->id, &sb->jail, sb->uid_slot);
    }
    if (sb->saved) {
        saved_forget(sb->all, sb->saved);
    }
    sandbox_record_end(sb, reason, done, ctx);
    sandbox_release(sb);
}

/* ---- death ---- */

static const char *death_reason(const struct sandbox *sb, const struct keeper_answer *answer)
{
    uint64_t disk_bytes = (uint64_t)sb->disk_mb << 20;

    if (answer->status == 0 && answer->usage.oom_kills > 0) {
        return SANDBOX_END_OUT_OF_MEMORY;
    }
    if (answer->status == 0 && answer->usage.disk_bytes + DISK_FULL_SLACK_BYTES >= disk_bytes) {
        return SANDBOX_END_DISK_FULL;
    }
    return "the sandbox's first process ended";
}

static void on_last_usage(void *ctx, const struct keeper_answer *answer, int fds[KEEPER_FDS_MAX])
{
    struct sandbox *sb = ctx;

    (void)fds;
    if (!sb->all->closed) {
        sandbox_record_end(sb, death_reason(sb, answer), NULL, NULL);
        destroy_jail(sb->all, sb->id, &sb->jail, sb->uid_slot);
    }
    sandbox_release(sb);
}

/* The jail's cgroup knows why, so it is asked before the jail is destroyed. */
void sandbox_died(struct sandbox *sb)
{
    struct keeper_request req = {.op = KEEPER_USAGE, .jail = sb->jail};
    struct err err;

    if (sb->start) {
        (void)err_set(&err, EIO, "the sandbox's first process ended while it started");
        start_lost(sb, &err);
        return;
    }
    if (sb->adopted) { /* the keeper may have gone on with a pause that another daemon asked for */
        sandbox_watch_jail(sb, false);
        sandbox_lost(sb, "the sandbox's first process ended");
        return;
    }
    sandbox_hold(sb);
    sandbox_leave(sb);
    memcpy(req.id, sb->id, sizeof(sb->id));
    keeper_client_ask(sb->all->use.keeper, &req, on_last_usage, sb);
}

/* ---- time ---- */

static void on_start_timer(uv_timer_t *timer)
{
    struct sandbox *sb = timer->data;

    busy("the timer of a sandbox's start");
    if (sb->start) {
        start_timeout(sb);
    }
}

static void on_drain_timer(uv_timer_t *timer)
{
    busy("the timer of a sandbox's pause");
    save_drained(timer->data);
}

/* The loop's clock may be late, because it is read once a turn: then the timer is started again. */
static bool is_early(struct sandbox *sb, enum sandbox_timer which)
{
    int64_t left_ms = sb->deadline_mono_ms - clock_mono_ms();

    if (left_ms > 0) {
        sandbox_timer_start(sb, which, left_ms);
    }
    return left_ms > 0;
}

static void on_lifetime_timer(uv_timer_t *timer)
{
    struct sandbox *sb = timer->data;

    busy("the timer of a sandbox's life");
    if (is_early(sb, TIMER_LIFETIME)) {
        return;
    }
    if (json_is_true(json_object_get(sb->options, "autoPause"))) {
        pause_on_timeout(sb);
    } else {
        sandbox_kill(sb, SANDBOX_END_TIMEOUT, NULL, NULL);
    }
}

static void on_retention_timer(uv_timer_t *timer)
{
    struct sandbox *sb = timer->data;

    busy("the timer of a paused sandbox");
    if (!is_early(sb, TIMER_RETENTION)) {
        sandbox_kill(sb, SANDBOX_END_RETENTION, NULL, NULL);
    }
}

void sandbox_timer_start(struct sandbox *sb, enum sandbox_timer which, int64_t ms)
{
    static const uv_timer_cb callbacks[SANDBOX_TIMERS] = {
        [TIMER_START] = on_start_timer,
        [TIMER_DRAIN] = on_drain_timer,
        [TIMER_LIFETIME] = on_lifetime_timer,
        [TIMER_RETENTION] = on_retention_timer,
    };

    assert(timer_states[which] & PHASE(sb->state));
    (void)uv_timer_start(&sb->timers[which], callbacks[which], (uint64_t)ms, 0);
}

void sandbox_arm(struct sandbox *sb)
{
    bool paused = sb->state == SANDBOX_PAUSED;
    enum sandbox_timer which = paused ? TIMER_RETENTION : TIMER_LIFETIME;
    int64_t retention_ms = sb->all->use.retention_ms;
    int64_t left_ms = sb->end_ms - clock_wall_ms() + (paused ? retention_ms : 0);

    /* An internal one ends when its builder wants it to, a parked one when it is claimed. */
    if (!sandbox_is_users(sb) || (paused && retention_ms == 0)) {
        (void)uv_timer_stop(&sb->timers[which]);
        return;
    }
    left_ms = left_ms > 0 ? left_ms : 0;
    sb->deadline_mono_ms = clock_mono_ms() + left_ms;
    sandbox_timer_start(sb, which, left_ms);
}

struct moved_end {
    struct sandbox *sb; /* counted */
    int64_t old_ms, new_ms;
    store_done *done;
    void *ctx;
};

/* A change that is not on record is undone: the next daemon would not know of it. */
static void on_end_saved(void *ctx, int error, const struct err *err)
{
    struct moved_end *moved = ctx;
    struct sandbox *sb = moved->sb;

    if (error < 0 && sb->state == SANDBOX_RUNNING && sb->end_ms == moved->new_ms) {
        sb->end_ms = moved->old_ms;
        sandbox_arm(sb);
    }
    moved->done(moved->ctx, error, err);
    sandbox_release(sb);
    free(moved);
}

void sandbox_set_end(struct sandbox *sb, int64_t end_ms, bool only_extend, store_done *done,
                     void *ctx)
{
    static const struct err none;
    struct moved_end *moved;

    if (only_extend && end_ms <= sb->end_ms) {
        done(ctx, 0, &none);
        return;
    }
    moved = xnew(struct moved_end);
    *moved = (struct moved_end){
        .sb = sb, .old_ms = sb->end_ms, .new_ms = end_ms, .done = done, .ctx = ctx};
    sandbox_hold(sb);
    sb->end_ms = end_ms;
    if (sb->state == SANDBOX_RUNNING) {
        sandbox_arm(sb);
    }
    sandbox_record(sb, CHANGE_UPDATED, NULL, on_end_saved, moved);
}
