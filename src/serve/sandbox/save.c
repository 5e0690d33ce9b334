/* save.c - a jail is saved: what pause, snapshot and fork share.
 *
 *      agent is quiet, its channel closed ─► (pause: streams have ended) ─► KEEPER_SAVE ─► done
 *
 * states.c has the phases. A sandbox has one save under way; the others wait in line. A save that
 * fails leaves the jail running: it is attached anew, which ends the agent's quiet. When the keeper
 * goes away in the middle, the outcome is unknown until it is back: a jail that can be attached
 * runs on, and a jail that cannot was paused, if the keeper has it saved.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "serve/sandbox/internal.h"
#include "wire/channel.h"

static bool stops(const struct save *save)
{
    return save->flags & KEEPER_SAVE_STOP;
}

bool save_is(const struct sandbox *sb, enum save_phase phase)
{
    return sb->saves && sb->saves->phase == phase;
}

/* ---- the end of one ---- */

void save_finish(struct sandbox *sb, int error, const struct err *err,
                 const struct keeper_saved *saved)
{
    struct save *save = sb->saves;

    DL_DELETE(sb->saves, save);
    save->done(save, error, err, saved);
    save_next(sb);
    sandbox_release(sb);
}

/* The sandbox runs on, and so do the requests that were held for the pause. */
static void tell_off(struct sandbox *sb)
{
    struct sandbox_watch *watch = NULL, *next = NULL;

    DL_FOREACH_SAFE (sb->watches, watch, next) {
        if (watch->told) {
            watch->told = false;
            watch->pausing(watch, SANDBOX_PAUSE_OFF);
        }
    }
}

void save_abort(struct sandbox *sb, int error, const struct err *err)
{
    struct save *save = sb->saves;
    struct err why = *err;

    if (!sb->internal) { /* else its owner logs it */
        log_warn("sandbox %s: save: %s", sb->id, why.msg);
    }
    sandbox_note_wrong(sb, "it could not be saved: %s", why.msg);
    save_set_phase(save, SAVE_OVER);
    if (sb->state == SANDBOX_PAUSING && sandbox_set_state(sb, SANDBOX_RUNNING)) {
        sandbox_arm(sb);
        sandbox_watch_jail(sb, true);
        tell_off(sb);
    }
    if (!sb->channel) {
        sandbox_attach(sb);
    }
    save_finish(sb, error, &why, NULL);
}

static void save_refuse(struct sandbox *sb, int error, const char *sentence)
{
    struct err err;

    (void)err_set(&err, -error, "%s", sentence);
    save_abort(sb, error, &err);
}

void save_fail_all(struct sandbox *sb, int error, const struct err *err)
{
    while (sb->saves) {
        struct save *save = sb->saves;
        DL_DELETE(sb->saves, save);
        save_set_phase(save, SAVE_OVER);
        save->done(save, error, err, NULL);
        sandbox_release(sb);
    }
}

/* ---- the keeper saves ---- */

struct asked {
    struct sandbox *sb; /* counted */
    char name[KEEPER_SAVED_BYTES];
};

static struct asked *asked_new(struct sandbox *sb)
{
    struct asked *asked = xnew(struct asked);

    asked->sb = sb;
    memcpy(asked->name, sb->saves->name, sizeof(asked->name));
    sandbox_hold(sb);
    return asked;
}

static void save_done(struct sandbox *sb, const struct keeper_saved *saved)
{
    static const struct err none;
    bool paused = stops(sb->saves);

    save_set_phase(sb->saves, paused ? SAVE_RECORDING : SAVE_OVER);
    if (!paused) {
        sandbox_attach(sb);
    }
    save_finish(sb, 0, &none, saved);
}

void save_found(struct sandbox *sb)
{
    const struct keeper_saved saved = {0};

    save_done(sb, &saved);
}

/* The sandbox was killed while the keeper saved it. */
static void killed_meanwhile(const struct asked *asked)
{
    struct sandbox *sb = asked->sb;

    if (!sb->all->closed) {
        saved_forget(sb->all, asked->name);
        if (sb->destroy_due) {
            destroy_jail(sb->all, sb->id, &sb->jail, sb->destroy_slot);
        }
    }
    sb->destroy_due = false;
}

static void on_keeper_saved(void *ctx, const struct keeper_answer *answer, int fds[KEEPER_FDS_MAX])
{
    struct asked *asked = ctx;
    struct sandbox *sb = asked->sb;

    (void)fds;
    if (!save_is(sb, SAVE_WRITING) || strcmp(sb->saves->name, asked->name) != 0) {
        killed_meanwhile(asked);
    } else if (answer->status == 0) {
        save_done(sb, &answer->saved);
    } else if (answer->status == -ENOTCONN || answer->status == -ECONNRESET) {
        save_set_phase(sb->saves, SAVE_UNKNOWN);
        sandbox_attach(sb); /* it may be back already; else when it is */
    } else {
        saved_forget(sb->all, asked->name);
        save_abort(sb, answer->status, &answer->err);
    }
    sandbox_release(sb);
    free(asked);
}

static void save_ask(struct sandbox *sb)
{
    struct save *save = sb->saves;
    struct keeper_request req = {.op = KEEPER_SAVE, .jail = sb->jail};

    memcpy(req.id, sb->id, sizeof(sb->id));
    memcpy(req.save.name, save->name, sizeof(save->name));
    req.save.flags = save->flags;
    save_set_phase(save, SAVE_WRITING);
    if (stops(save)) {
        sandbox_watch_jail(sb, false); /* the keeper's answer tells */
        (void)uv_timer_stop(&sb->timers[TIMER_DRAIN]);
    }
    keeper_client_ask_for(sb->all->use.keeper, sb->team_id, &req, on_keeper_saved, asked_new(sb));
}

/* ---- before it ---- */

static struct sandbox_watch *unsettled_watch(const struct sandbox *sb)
{
    struct sandbox_watch *watch = NULL;

    DL_FOREACH (sb->watches, watch) {
        if (watch->told && !watch->settled) {
            return watch;
        }
    }
    return NULL;
}

void save_check_drained(struct sandbox *sb)
{
    if (save_is(sb, SAVE_DRAINING) && !unsettled_watch(sb)) {
        sandbox_timer_start(sb, TIMER_DRAIN, 0);
    }
}

void save_drained(struct sandbox *sb)
{
    struct sandbox_watch *watch = NULL;

    if (!save_is(sb, SAVE_DRAINING)) {
        return;
    }
    while ((watch = unsettled_watch(sb))) { /* a client that does not read */
        watch->settled = true;
        watch->pausing(watch, SANDBOX_PAUSE_DUE);
    }
    save_ask(sb);
}

/* The memory would bring back an agent that does not answer. */
static void go_on_without_memory(struct sandbox *sb, struct save *save)
{
    if (save->flags & KEEPER_SAVE_MEMORY) {
        save->silent = true;
        save->flags &= ~(uint32_t)KEEPER_SAVE_MEMORY;
        saved_name_pause(sb, false, save->name);
        log_warn("sandbox %s: its agent does not answer; paused without its memory", sb->id);
        sandbox_note_wrong(sb, "its agent did not answer: it was paused without its memory");
    }
}

static void on_quiet(void *ctx, int error)
{
    struct sandbox *sb = ctx;
    struct save *save = sb->saves;

    if (sb->state == SANDBOX_KILLING || !save_is(sb, SAVE_QUIETING)) {
        return;
    }
    if (error == -ETIMEDOUT && stops(save) && !save->healthy) {
        go_on_without_memory(sb, save);
    }
    bool needs = save->flags & KEEPER_SAVE_MEMORY;
    if (error < 0 && save->healthy) {
        save_refuse(sb, -EBUSY, "the sandbox's agent does not answer; the sandbox goes on running");
    } else if (error == -ETIMEDOUT && needs) {
        save_refuse(sb, -ETIMEDOUT, "the sandbox's agent did not answer in time");
    } else if (error < 0 && needs) {
        save_refuse(sb, -EIO, "the sandbox's agent cannot be made quiet");
    } else {
        agent_channel_close(error < 0 ? sb->channel : NULL);
        sb->channel = NULL;
        if (!stops(save)) {
            save_ask(sb);
        } else {
            save_set_phase(save, SAVE_DRAINING);
            sandbox_timer_start(sb, TIMER_DRAIN, SANDBOX_DRAIN_MS);
            save_check_drained(sb);
        }
    }
}

static void tell_pausing(struct sandbox *sb)
{
    struct sandbox_watch *watch = NULL, *next = NULL;

    DL_FOREACH_SAFE (sb->watches, watch, next) {
        if (watch->told) {
            watch->pausing(watch, SANDBOX_PAUSE_BEGINS);
        }
    }
}

/* A watch that is set when a pause begins is told of it, unless the pause is refused. A watch that
 * is set later waits. */
static void mark_told(struct sandbox *sb)
{
    struct sandbox_watch *watch = NULL;

    DL_FOREACH (sb->watches, watch) {
        watch->told = watch->pausing;
        watch->settled = false;
    }
}

static void save_go(struct sandbox *sb)
{
    struct save *save = sb->saves;

    save_set_phase(save, SAVE_QUIETING);
    if (stops(save)) {
        tell_pausing(sb);
        preconnect_drop(sb);
    }
    agent_channel_quiet(sb->channel, stops(save) ? CHANNEL_QUIET_END : CHANNEL_QUIET_HOLD,
                        on_quiet);
}

static void save_begin(struct sandbox *sb);

/* A refusal now costs nothing: no stream has ended, no request was cut off. */
static void on_checked(void *ctx, const struct keeper_answer *answer, int fds[KEEPER_FDS_MAX])
{
    struct asked *asked = ctx;
    struct sandbox *sb = asked->sb;
    struct save *save = sb->saves;

    (void)fds;
    if (sb->state == SANDBOX_PAUSING && save_is(sb, SAVE_CHECKING) &&
        strcmp(save->name, asked->name) == 0) {
        save_set_phase(save, SAVE_CHECKED);
        if (answer->status == -ENOTSUP) {
            save_abort(sb, answer->status, &answer->err);
        } else if (sb->channel) {
            save_go(sb);
        } else {
            tell_off(sb);
            (void)!sandbox_set_state(sb, SANDBOX_RUNNING);
            save_begin(sb);
        }
    }
    sandbox_release(sb);
    free(asked);
}

static void save_check(struct sandbox *sb)
{
    struct save *save = sb->saves;
    struct keeper_request req = {.op = KEEPER_SAVE, .jail = sb->jail};

    memcpy(req.id, sb->id, sizeof(sb->id));
    memcpy(req.save.name, save->name, sizeof(save->name));
    req.save.flags = save->flags | KEEPER_SAVE_LOOK;
    save_set_phase(save, SAVE_CHECKING);
    keeper_client_ask_for(sb->all->use.keeper, sb->team_id, &req, on_checked, asked_new(sb));
}

static void save_begin(struct sandbox *sb)
{
    struct save *save = sb->saves;

    if (!keeper_client_connected(sb->all->use.keeper)) {
        save_refuse(sb, -EAGAIN, "the keeper is not running; try again");
        return;
    }
    if (!sb->channel) {
        sandbox_attach(sb); /* comes back here */
        return;
    }
    if (stops(save)) {
        (void)!sandbox_set_state(sb, SANDBOX_PAUSING);
        mark_told(sb);
    }
    if (stops(save) && save->flags & KEEPER_SAVE_MEMORY && save->phase == SAVE_WAITING) {
        save_check(sb);
    } else if (save->alone) {
        alone_start(sb);
    } else {
        save_go(sb);
    }
}

/* The first in line has come too late: the sandbox is paused. */
static void save_too_late(struct sandbox *sb)
{
    static const struct err none;
    struct err err;

    save_set_phase(sb->saves, SAVE_OVER);
    if (stops(sb->saves)) {
        save_finish(sb, 0, &none, NULL);
    } else {
        (void)err_set(&err, ESTALE, "sandbox '%s' is paused", sb->id);
        save_finish(sb, -ESTALE, &err, NULL);
    }
}

void save_next(struct sandbox *sb)
{
    bool may_begin = save_is(sb, SAVE_WAITING) || save_is(sb, SAVE_CHECKED);

    if (sb->state == SANDBOX_RUNNING && may_begin) {
        save_begin(sb);
    } else if (sb->saves && sb->state != SANDBOX_RUNNING && sb->state != SANDBOX_PAUSING) {
        save_too_late(sb);
    }
}

void save_add(struct sandbox *sb, struct save *save)
{
    save->sb = sb;
    save->trace = sb->trace;
    save->step_us = clock_mono_us();
    sb->trace = (struct trace_place){0};
    sandbox_hold(sb);
    DL_APPEND(sb->saves, save);
    save_next(sb);
}
