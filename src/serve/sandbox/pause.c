/* pause.c - RUNNING to PAUSED: by request, at the end of its time, or found so at the start.
 *
 * The order makes the promise: the keeper has saved and synced, then the row is committed and
 * synced, then the caller is told. A daemon that dies in between leaves a row that says running, no
 * jail, and a save whose name says which execution it is of: the next daemon recognizes this as a
 * pause.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/text.h"
#include "serve/sandbox/internal.h"

/* ---- on record ---- */

struct pause {
    struct save save;
    store_done *done;
    void *ctx;
};

/* The sandbox is paused even if the store refuses the row: the next daemon would find the save. */
static void on_recorded(void *ctx, int error, const struct err *err)
{
    struct pause *pause = ctx;
    struct sandbox *sb = pause->save.sb;
    static const struct keeper_jail none;
    struct err gone;

    if (sb->state != SANDBOX_PAUSING || !sandbox_set_state(sb, SANDBOX_PAUSED)) {
        error = err_set(&gone, ENOENT, "the sandbox was killed meanwhile");
        err = &gone;
    } else {
        if (error < 0) {
            log_error("sandbox %s: record its pause: %s", sb->id, err->msg);
        }
        sb->all->pauses++;
        destroy_jail(sb->all, sb->id, &sb->jail, sb->uid_slot); /* its disk, which was saved too */
        sb->uid_slot = SLOT_NONE;
        sb->jail = none;
        sandbox_arm(sb);
        log_info("sandbox %s: paused%s", sb->id,
                 saved_has_memory(sb->saved) ? "" : ", without its memory");
    }
    free(move_ptr(&sb->forfeit));
    save_set_phase(&pause->save, SAVE_OVER);
    pause->done(pause->ctx, error, err);
    if (sb->state == SANDBOX_PAUSED) {
        save_next(sb);
        resume_wanted(sb);
    }
    sandbox_release(sb);
    free(pause);
}

/* Ends all watches but those that wait for the sandbox to be resumed. */
static void tell_gone(struct sandbox *sb)
{
    struct sandbox_watch *watch = NULL, *next = NULL;

    DL_FOREACH_SAFE (sb->watches, watch, next) {
        if (watch->told || !watch->pausing) {
            sandbox_watch_unset(watch);
            watch->gone(watch);
        }
    }
}

/* The phase is RECORDING. The pause is freed when it is on record. */
static void pause_record(struct pause *pause, const struct keeper_saved *saved)
{
    struct sandbox *sb = pause->save.sb;

    sandbox_hold(sb);
    text_set(&sb->saved, pause->save.name);
    sb->saved_bytes = saved->memory_bytes;
    sb->saved_disk_bytes = saved->disk_bytes;
    (void)json_object_set_new(sb->options, SANDBOX_WANTED_END, json_integer(sb->end_ms));
    sb->packed = false;
    sb->end_ms = clock_wall_ms();
    sb->adopted = false;
    (void)uv_timer_stop(&sb->timers[TIMER_DRAIN]);
    tell_gone(sb);
    sandbox_drop_jail(sb);
    sandbox_record(sb, CHANGE_PAUSED, NULL, on_recorded, pause);
}

/* ---- by request ---- */

static void on_saved(struct save *save, int error, const struct err *err,
                     const struct keeper_saved *saved)
{
    struct pause *pause = container_of(save, struct pause, save);
    struct sandbox *sb = save->sb;
    struct err why = *err;

    if (error == 0 && saved) {
        if (save->silent) {
            (void)json_object_set_new(sb->options, SANDBOX_UNRESPONSIVE_OPTION, json_true());
        }
        pause_record(pause, saved);
    } else {
        sb->all->pauses_failed += error < 0 && error != -ENOENT;
        if (error < 0 && (save->flags & KEEPER_SAVE_MEMORY) && error != -ENOENT &&
            error != -EAGAIN && error != -EBUSY) {
            (void)err_wrap(&why, "its memory cannot be saved (a pause without it would keep its"
                                 " files: memory: false, in the SDKs keep_memory=False or"
                                 " keepMemory: false)");
        }
        pause->done(pause->ctx, error, &why);
        free(pause);
    }
    if (sb->state == SANDBOX_RUNNING) {
        resume_wanted(sb); /* those who waited for it have it running */
    }
}

void sandbox_pause(struct sandbox *sb, unsigned how, store_done *done, void *ctx)
{
    bool memory = how & SANDBOX_PAUSE_MEMORY;
    struct err err;

    if (sb->state == SANDBOX_PAUSED) {
        (void)err_set(&err, EALREADY, "Error pausing sandbox - sandbox '%s' is already paused",
                      sb->id);
        done(ctx, -EALREADY, &err);
        return;
    }
    if (sb->state == SANDBOX_RESUMING) {
        (void)err_set(&err, ESTALE, "Sandbox '%s' cannot be paused while it is being resumed",
                      sb->id);
        done(ctx, -ESTALE, &err);
        return;
    }
    struct pause *pause = xnew(struct pause);
    *pause = (struct pause){.done = done, .ctx = ctx};
    pause->save.flags = KEEPER_SAVE_STOP | KEEPER_SAVE_SYNC | (memory ? KEEPER_SAVE_MEMORY : 0);
    pause->save.healthy = how & SANDBOX_PAUSE_HEALTHY;
    pause->save.done = on_saved;
    saved_name_pause(sb, memory, pause->save.name);
    save_add(sb, &pause->save);
}

/* ---- when its time is up ---- */

struct timeout {
    struct sandbox *sb; /* counted */
    bool memory;
};

static void try_pause(struct sandbox *sb, bool memory);

static void on_timeout_paused(void *ctx, int error, const struct err *err)
{
    struct timeout *timeout = ctx;
    struct sandbox *sb = timeout->sb;
    bool runs = error < 0 && sb->state == SANDBOX_RUNNING && !sb->all->closed;

    if (runs && timeout->memory && error != -EAGAIN) {
        log_warn("sandbox %s: its time is up: paused without its memory", sb->id);
        sandbox_note_wrong(sb, "its time was up and it was paused without its memory: %s",
                           err->msg);
        text_set(&sb->forfeit, err->msg);
        try_pause(sb, false);
    } else if (runs) {
        sandbox_timer_start(sb, TIMER_LIFETIME, SANDBOX_PAUSE_RETRY_MS);
    }
    sandbox_release(sb);
    free(timeout);
}

static void try_pause(struct sandbox *sb, bool memory)
{
    struct timeout *timeout = xnew(struct timeout);

    *timeout = (struct timeout){.sb = sb, .memory = memory};
    sandbox_hold(sb);
    sandbox_pause(sb, memory ? SANDBOX_PAUSE_MEMORY : SANDBOX_PAUSE_DISK, on_timeout_paused,
                  timeout);
}

void pause_on_timeout(struct sandbox *sb)
{
    sb->trace = (struct trace_place){0}; /* nobody's call */
    try_pause(sb, !json_is_false(json_object_get(sb->options, "autoPauseMemory")));
}

/* ---- found so ---- */

struct lost {
    struct sandbox *sb; /* counted */
    char *reason;
};

static void ignore(void *ctx, int error, const struct err *err)
{
    (void)ctx, (void)error, (void)err;
}

static void record_found(struct sandbox *sb, const char *name)
{
    static const struct keeper_saved unknown;
    struct pause *found = xnew(struct pause);

    *found = (struct pause){.save = {.sb = sb}, .done = ignore};
    (void)str_copy(found->save.name, sizeof(found->save.name), str_of(name));
    save_set_phase(&found->save, SAVE_RECORDING);
    pause_record(found, &unknown);
}

/* Other saves in line are answered when the pause is on record. */
static void settle(struct sandbox *sb, int error, const char *name, const char *reason)
{
    bool is_first = name && sb->saves && strcmp(sb->saves->name, name) == 0;

    if (error == 0 && !name) {
        sandbox_kill(sb, reason, NULL, NULL);
    } else if (error == 0 && is_first) {
        save_found(sb);
    } else if (error == 0) {
        record_found(sb, name);
    } else if (!sb->saves && sandbox_set_state(sb, SANDBOX_RUNNING)) {
        sandbox_arm(sb); /* attached, or looked for again, when the keeper is back */
    }
}

static void on_found(void *ctx, int error, const char *name)
{
    struct lost *lost = ctx;

    if (lost->sb->state == SANDBOX_PAUSING) { /* else it was killed meanwhile */
        settle(lost->sb, error, name, lost->reason);
    }
    sandbox_release(lost->sb);
    free(lost->reason);
    free(lost);
}

void sandbox_lost(struct sandbox *sb, const char *reason)
{
    if (!sandbox_is_users(sb)) { /* nobody pauses those */
        sandbox_kill(sb, reason, NULL, NULL);
        return;
    }
    struct lost *lost = xnew(struct lost);
    *lost = (struct lost){.sb = sb, .reason = xstrdup(reason)};
    sandbox_hold(sb);
    if (sb->state != SANDBOX_PAUSING) {
        (void)!sandbox_set_state(sb, SANDBOX_PAUSING);
    }
    (void)uv_timer_stop(&sb->timers[TIMER_DRAIN]);
    saved_find(sb, on_found, lost);
}
