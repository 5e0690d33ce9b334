/* record.c - the row of a sandbox, and an event for every change of it.
 *
 * The store writes both in one transaction, so there is no change without its event and no event
 * without its change, whenever the daemon dies. An event is made here once, as the JSON text that
 * lists show and webhooks get.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/encode.h"
#include "lib/base/log.h"
#include "serve/sandbox/internal.h"

static const char *const types[] = {
    [CHANGE_CREATED] = "sandbox.lifecycle.created",
    [CHANGE_UPDATED] = "sandbox.lifecycle.updated",
    [CHANGE_PAUSED] = "sandbox.lifecycle.paused",
    [CHANGE_RESUMED] = "sandbox.lifecycle.resumed",
    [CHANGE_SNAPSHOTTED] = "sandbox.lifecycle.snapshotted",
    [CHANGE_KILLED] = "sandbox.lifecycle.killed",
};

/* ---- the event ---- */

static json_t *stamp(int64_t wall_ms)
{
    char text[CLOCK_STAMP_BYTES];

    clock_stamp(wall_ms, text);
    return json_string(text);
}

/* An execution lasts from a start to the next end. Its name follows from both, so every daemon that
 * adopts the sandbox gives it the same name. */
static void execution_id(const struct sandbox *sb, char out[ID_UUID_LEN + 1])
{
    char plain[64], hex[SHA256_HEX_LEN + 1];

    (void)snprintf(plain, sizeof(plain), "%s %lld", sb->id, (long long)sb->started_ms);
    sha256_hex(plain, strlen(plain), hex);
    (void)snprintf(out, ID_UUID_LEN + 1, "%.8s-%.4s-8%.3s-a%.3s-%.12s", hex, hex + 8, hex + 12,
                   hex + 15, hex + 18);
}

static json_t *execution_json(const struct sandbox *sb)
{
    int64_t lasted_ms = sb->end_ms > sb->started_ms ? sb->end_ms - sb->started_ms : 0;
    json_t *execution = json_object();

    (void)json_object_set_new(execution, "started_at", stamp(sb->started_ms));
    (void)json_object_set_new(execution, "vcpu_count", json_integer(sb->cpu_count));
    (void)json_object_set_new(execution, "memory_mb", json_integer(sb->memory_mb));
    (void)json_object_set_new(execution, "execution_time", json_integer(lasted_ms));
    return execution;
}

static json_t *data_json(const struct sandbox *sb, enum sandbox_change change, const char *reason)
{
    json_t *data = json_object();

    (void)json_object_set(data, "sandbox_metadata", sb->metadata);
    if (change == CHANGE_CREATED && sb->fork_of) {
        (void)json_object_set_new(data, "fork_of", json_string(sb->fork_of));
    }
    if (change == CHANGE_UPDATED) {
        (void)json_object_set_new(data, "set_timeout", stamp(sb->end_ms));
    }
    if (change == CHANGE_KILLED || change == CHANGE_PAUSED) {
        (void)json_object_set_new(data, "execution", execution_json(sb));
    }
    if (change == CHANGE_KILLED) {
        (void)json_object_set_new(data, "kill_reason", json_string(reason));
    }
    if (change == CHANGE_PAUSED && sb->forfeit) {
        (void)json_object_set_new(data, "memory_lost", json_string(sb->forfeit));
    }
    return data;
}

/* The caller frees it. */
static char *event_text(const struct sandbox *sb, const struct event_row *event, json_t *data)
{
    char execution[ID_UUID_LEN + 1];
    json_t *body = json_object();

    execution_id(sb, execution);
    (void)json_object_set_new(body, "version", json_string("v1"));
    (void)json_object_set_new(body, "id", json_string(event->id));
    (void)json_object_set_new(body, "type", json_string(event->type));
    (void)json_object_set_new(body, "eventData", data);
    (void)json_object_set_new(body, "sandboxBuildId", json_string(sb->build_id));
    (void)json_object_set_new(body, "sandboxExecutionId", json_string(execution));
    (void)json_object_set_new(body, "sandboxId", json_string(sb->id));
    (void)json_object_set_new(body, "sandboxTeamId", json_string(sb->team_id));
    (void)json_object_set_new(body, "sandboxTemplateId", json_string(sb->template_id));
    (void)json_object_set_new(body, "timestamp", stamp(event->timestamp_ms));
    char *text = json_dumps(body, JSON_COMPACT);
    json_decref(body);
    if (!text) {
        abort(); /* made of values that were checked */
    }
    return text;
}

/* ---- row and event ---- */

static const char *row_state(const struct sandbox *sb, enum sandbox_change change)
{
    switch (change) {
    case CHANGE_KILLED:
        return "killed";
    case CHANGE_PAUSED:
        return "paused";
    case CHANGE_CREATED:
    case CHANGE_RESUMED:
        return "running";
    case CHANGE_UPDATED:
    case CHANGE_SNAPSHOTTED:
        return sb->state == SANDBOX_PAUSED ? "paused" : "running";
    }
    abort();
}

/* The row of a running sandbox need not be durable: its jail would not survive a power loss either.
 * That of a pause must be. A power loss before the row of a resume has settled leaves the sandbox
 * paused: its save is removed only after that (saved.c). */
static enum store_durability durability(enum sandbox_change change)
{
    return change == CHANGE_PAUSED ? STORE_SYNC : STORE_LAZY;
}

static void log_failure(void *ctx, int error, const struct err *err)
{
    (void)ctx;
    if (error < 0) {
        log_error("save a sandbox: %s", err->msg);
    }
}

void sandbox_record(struct sandbox *sb, enum sandbox_change change, const char *reason,
                    store_done *done, void *ctx)
{
    char event_id[ID_UUID_LEN + 1];
    json_t *all = json_pack("{sOsOsOsOss?}", "metadata", sb->metadata, "envVars", sb->env_vars,
                            "options", sb->options, "init", sb->init, "layers", sb->layers);
    bool paused = strcmp(row_state(sb, change), "paused") == 0;
    char *options = all ? json_dumps(all, JSON_COMPACT) : NULL;
    struct sandbox_row row = {.id = sb->id,
                              .team_id = sb->team_id,
                              .template_id = sb->template_id,
                              .template_alias = sb->template_alias,
                              .build_id = sb->build_id,
                              .fork_of = sb->fork_of,
                              .state = row_state(sb, change),
                              .started_ms = sb->started_ms,
                              .execution = sb->execution,
                              .end_ms = sb->end_ms,
                              .created_ms = sb->created_ms,
                              .end_reason = reason,
                              .access_token = sb->access_token,
                              .options_json = options ? options : "{}",
                              .cpu_count = sb->cpu_count,
                              .memory_mb = sb->memory_mb,
                              .disk_mb = sb->disk_mb,
                              .uid_slot = sb->uid_slot,
                              .pid = sb->jail.pid,
                              .start_ticks = sb->jail.start_ticks,
                              .saved = paused ? sb->saved : NULL,
                              .saved_bytes = paused ? sb->saved_bytes : 0,
                              .saved_disk_bytes = paused ? sb->saved_disk_bytes : 0};
    struct event_row event = {.id = event_id,
                              .team_id = sb->team_id,
                              .sandbox_id = sb->id,
                              .type = types[change],
                              .timestamp_ms = clock_wall_ms()};

    id_uuid(event_id);
    char *body = event_text(sb, &event, data_json(sb, change, reason));
    event.body = body;
    store_sandbox_save(sb->all->use.store, &row, &event, durability(change),
                       done ? done : log_failure, ctx);
    json_decref(all);
    free(options);
    free(body);
}

/* ---- events beside ---- */

static void on_event_saved(void *ctx, int error, const struct err *err)
{
    (void)ctx;
    if (error < 0) {
        log_error("save an event: %s", err->msg);
    }
}

void sandbox_tell(struct sandbox *sb, const char *type, const json_t *data)
{
    char event_id[ID_UUID_LEN + 1];
    struct event_row event = {.id = event_id,
                              .team_id = sb->team_id,
                              .sandbox_id = sb->id,
                              .type = type,
                              .timestamp_ms = clock_wall_ms()};
    json_t *own = json_deep_copy(data);

    (void)json_object_set(own, "sandbox_metadata", sb->metadata);
    id_uuid(event_id);
    char *body = event_text(sb, &event, own);
    event.body = body;
    store_event_save(sb->all->use.store, &event, on_event_saved, NULL);
    free(body);
}

/* ---- the end ---- */

struct ending {
    struct ending *prev, *next; /* in all->unrecorded */
    struct sandbox *sb;         /* counted */
    char *reason;
    store_done *done;
    void *ctx;
};

static void ending_free(struct ending *ending)
{
    sandbox_release(ending->sb);
    free(ending->reason);
    free(ending);
}

static void on_recorded(void *ctx, int error, const struct err *err);

static void on_record_timer(uv_timer_t *timer)
{
    struct sandboxes *all = timer->data;
    struct ending *again = all->unrecorded, *ending = NULL, *next = NULL;

    all->unrecorded = NULL;
    DL_FOREACH_SAFE (again, ending, next) {
        DL_DELETE(again, ending);
        sandbox_record(ending->sb, CHANGE_KILLED, ending->reason, on_recorded, ending);
    }
}

static void on_recorded(void *ctx, int error, const struct err *err)
{
    struct ending *ending = ctx;
    struct sandboxes *all = ending->sb->all;
    store_done *done = move_ptr(&ending->done);
    void *done_ctx = ending->ctx;

    if (error < 0 && !all->closed) {
        DL_APPEND(all->unrecorded, ending);
        (void)uv_timer_start(&all->record_timer, on_record_timer, SANDBOX_RECORD_RETRY_MS, 0);
    }
    if (error < 0 && (done || all->closed)) {
        log_error("sandbox %s: record its end: %s", ending->sb->id, err->msg);
    }
    if (error == 0 || all->closed) {
        ending_free(ending);
    }
    if (done) {
        done(done_ctx, error, err);
    }
}

static void ignore(void *ctx, int error, const struct err *err)
{
    (void)ctx, (void)error, (void)err;
}

void sandbox_record_end(struct sandbox *sb, const char *reason, store_done *done, void *ctx)
{
    static const struct err none;

    if (!sb->on_record) {
        log_write(sb->internal ? LOG_INFO : LOG_DEBUG,
                  "sandbox %s: a jail of the daemon's own ended: %s", sb->id, reason);
        if (done) {
            done(ctx, 0, &none);
        }
        return;
    }
    struct ending *ending = xnew(struct ending);
    *ending = (struct ending){.sb = sb, .done = done ? done : ignore, .ctx = ctx};
    ending->reason = xstrdup(reason);
    sandbox_hold(sb);
    sandboxes_count_end(sb->all, reason);
    sb->end_ms = clock_wall_ms();
    log_info("sandbox %s: killed: %s", sb->id, reason);
    sandbox_record(sb, CHANGE_KILLED, reason, on_recorded, ending);
}

/* Their rows say "running", and the next daemon will find them gone. */
void record_free(struct sandboxes *all)
{
    struct ending *ending = NULL, *next = NULL;

    DL_FOREACH_SAFE (all->unrecorded, ending, next) {
        DL_DELETE(all->unrecorded, ending);
        ending_free(ending);
    }
}
