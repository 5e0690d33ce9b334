/* resume.c - callers that want a paused sandbox back. All callers that ask while it is being
 * resumed get the same answer. Traffic that may wake it waits as dials. */
#include <errno.h>
#include <stdlib.h>
#include <utlist.h>

#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "serve/sandbox/internal.h"
#include "wire/channel.h"

struct joiner {
    struct joiner *prev, *next;
    int64_t timeout_ms;
    bool memory;
    sandbox_created *done; /* NULL: traffic */
    void *ctx;
};

static void join(struct sandbox *sb, const struct joiner *with)
{
    struct joiner *joiner = xnew(struct joiner);

    *joiner = *with;
    DL_APPEND(sb->joiners, joiner);
}

int64_t resume_span_ms(const struct sandbox *sb)
{
    const struct joiner *joiner = NULL;
    int64_t span_ms = 0;

    DL_FOREACH (sb->joiners, joiner) {
        span_ms = joiner->timeout_ms > span_ms ? joiner->timeout_ms : span_ms;
    }
    return span_ms;
}

static void ignore(void *ctx, int error, const struct err *err)
{
    (void)ctx, (void)error, (void)err;
}

static void tell_all(struct sandbox *sb, struct sandbox *made, int error, const struct err *err)
{
    struct joiner *joiner = NULL;

    while ((joiner = sb->joiners)) {
        DL_DELETE(sb->joiners, joiner);
        if (joiner->done) {
            joiner->done(joiner->ctx, made, error, err);
        }
        free(joiner);
    }
}

void resume_fail_all(struct sandbox *sb, int error, const struct err *err)
{
    tell_all(sb, NULL, error, err);
}

/* Before the callers: a stream that was held is continued before anybody can open another. */
static void tell_resumed(struct sandbox *sb)
{
    struct sandbox_watch *watch = NULL, *next = NULL;

    DL_FOREACH_SAFE (sb->watches, watch, next) {
        if (watch->resumed) {
            watch->resumed(watch);
        }
    }
}

static void on_started(void *ctx, struct sandbox *made, int error, const struct err *err)
{
    struct sandbox *sb = ctx;
    struct err why = *err;

    if (made) { /* a caller that joined late may want it for longer */
        sandbox_set_end(sb, sb->started_ms + resume_span_ms(sb), true, ignore, NULL);
        tell_resumed(sb);
    } else if (error == -EIO && sb->saved && saved_has_memory(sb->saved)) {
        (void)err_wrap(&why, "it cannot be resumed (it stays paused, and memory: false would start"
                             " it anew on its files)");
    }
    tell_all(sb, made, error, &why);
    sandbox_release(sb);
}

static void begin(struct sandbox *sb)
{
    bool memory = sb->joiners->memory && saved_has_memory(sb->saved);

    (void)!sandbox_set_state(sb, SANDBOX_RESUMING);
    (void)json_object_del(sb->options, SANDBOX_UNRESPONSIVE_OPTION);
    sandbox_hold(sb);
    start_begin(sb, sb->saved, memory, memory ? CHANNEL_PAST_RESTORED : CHANNEL_PAST_NONE,
                on_started, sb);
}

void resume_wanted(struct sandbox *sb)
{
    static const struct err none;

    if (sb->state == SANDBOX_PAUSED && !sb->joiners && sb->dials) {
        if (sandbox_dials_wake(sb) && sandbox_returns(sb)) {
            sandbox_wake(sb);
        } else {
            sandbox_fail_dials(sb, -ESHUTDOWN);
        }
        return;
    }
    if (sb->state == SANDBOX_PAUSED && sb->joiners) {
        begin(sb);
    } else if (sb->state == SANDBOX_RUNNING && sb->joiners) {
        sandbox_set_end(sb, clock_wall_ms() + resume_span_ms(sb), true, ignore, NULL);
        tell_all(sb, sb, 0, &none);
    }
}

void sandbox_resume(struct sandbox *sb, int64_t timeout_ms, bool memory, sandbox_created *done,
                    void *ctx)
{
    static const struct err none;
    struct joiner joiner = {.timeout_ms = timeout_ms, .memory = memory, .done = done, .ctx = ctx};

    if (sb->state == SANDBOX_RUNNING) {
        done(ctx, sb, 0, &none);
        return;
    }
    join(sb, &joiner);
    resume_wanted(sb);
}

void sandbox_set_auto_pause(struct sandbox *sb, bool pauses)
{
    (void)json_object_set_new(sb->options, "autoPause", json_boolean(pauses));
}

/* ---- traffic ---- */

struct sandbox_wanted sandbox_wanted(const struct sandbox *sb)
{
    uint64_t most = (uint64_t)sb->disk_mb << 20;
    uint64_t has = sb->saved_bytes + sb->saved_disk_bytes;

    return (struct sandbox_wanted){
        .team_id = sb->team_id,
        .maker = json_string_value(json_object_get(sb->options, SANDBOX_MAKER_OPTION)),
        .cpu_count = sb->cpu_count,
        .memory_mb = sb->memory_mb,
        .disk_bytes = most > has ? most - has : 0,
    };
}

/* A sandbox that is still being paused counts as running, so it may run again. */
static bool has_room(const struct sandbox *sb)
{
    const struct sandboxes_options *use = &sb->all->use;
    struct sandbox_wanted wanted = sandbox_wanted(sb);
    struct err ignored;

    return !use->admit || sb->state != SANDBOX_PAUSED ||
           use->admit(use->admit_ctx, &wanted, &ignored) == 0;
}

bool sandbox_returns(const struct sandbox *sb)
{
    bool wakes = json_is_true(json_object_get(sb->options, "autoResume")) &&
                 (!sb->saved || saved_has_memory(sb->saved)) && has_room(sb);

    return sb->state == SANDBOX_RESUMING || sb->joiners || wakes;
}

void sandbox_wake(struct sandbox *sb)
{
    int64_t seconds = json_integer_value(json_object_get(sb->options, "timeout"));
    int64_t least = SANDBOX_WAKE_TIMEOUT_S_MIN;
    struct joiner joiner = {.timeout_ms = (seconds > least ? seconds : least) * 1000,
                            .memory = true};

    if (sb->state == SANDBOX_PAUSED) {
        sb->trace = (struct trace_place){0}; /* nobody's call */
        join(sb, &joiner);
        resume_wanted(sb);
    }
}
