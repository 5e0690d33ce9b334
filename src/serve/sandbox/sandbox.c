/* sandbox.c - one sandbox: counted, loaded, described, watched. */
#include "serve/sandbox/sandbox.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/text.h"
#include "serve/egress/destinations.h"
#include "serve/sandbox/internal.h"

/* ---- life ---- */

struct sandbox *sandbox_new(struct sandboxes *all)
{
    struct sandbox *sb = xnew(struct sandbox);

    sb->all = all;
    all->refs++;
    sb->refs = 1 + SANDBOX_TIMERS; /* the table's, and each timer's until libuv has closed it */
    sb->uid_slot = SLOT_NONE;
    for (size_t i = 0; i < SANDBOX_TIMERS; i++) {
        if (uv_timer_init(all->use.loop, &sb->timers[i]) < 0) {
            abort();
        }
        sb->timers[i].data = sb;
    }
    return sb;
}

void sandbox_hold(struct sandbox *sb)
{
    sb->refs++;
}

void sandbox_release(struct sandbox *sb)
{
    if (--sb->refs > 0) {
        return;
    }
    free(sb->team_id);
    free(sb->template_id);
    free(sb->template_alias);
    free(sb->build_id);
    free(sb->fork_of);
    free(sb->wrong);
    destinations_release(sb->destinations);
    free(sb->access_token);
    free(sb->layers);
    free(sb->saved);
    free(sb->forfeit);
    json_decref(sb->metadata);
    json_decref(sb->env_vars);
    json_decref(sb->options);
    json_decref(sb->init);
    sandboxes_release(sb->all);
    free(sb);
}

/* ---- the row ---- */

static json_t *object_of(const json_t *all, const char *name)
{
    json_t *member = json_object_get(all, name);

    return json_is_object(member) ? json_incref(member) : json_object();
}

static void load_options(struct sandbox *sb, const char *text)
{
    json_t *all = json_loads(text ? text : "{}", 0, NULL);

    sb->metadata = object_of(all, "metadata");
    sb->env_vars = object_of(all, "envVars");
    sb->options = object_of(all, "options");
    sb->init = object_of(all, "init");
    sb->layers = xstrdup(json_string_value(json_object_get(all, "layers")));
    json_decref(all);
}

bool sandbox_load(struct sandbox *sb, const struct sandbox_row *row)
{
    if (!str_copy(sb->id, sizeof(sb->id), str_of(row->id)) || !sb->id[0]) {
        return false;
    }
    (void)!sandbox_set_state(sb,
                             strcmp(row->state, "paused") == 0 ? SANDBOX_PAUSED : SANDBOX_RUNNING);
    sb->on_record = true;
    sb->saved = xstrdup(row->saved);
    sb->saved_bytes = row->saved_bytes;
    sb->saved_disk_bytes = row->saved_disk_bytes;
    sb->team_id = xstrdup(row->team_id);
    sb->template_id = xstrdup(row->template_id);
    sb->template_alias = xstrdup(row->template_alias);
    sb->build_id = xstrdup(row->build_id);
    sb->fork_of = xstrdup(row->fork_of);
    sb->access_token = xstrdup(row->access_token);
    sb->started_ms = row->started_ms;
    sb->execution = row->execution;
    sb->end_ms = row->end_ms;
    sb->created_ms = row->created_ms;
    sb->cpu_count = row->cpu_count;
    sb->memory_mb = row->memory_mb;
    sb->disk_mb = row->disk_mb;
    sb->uid_slot = sb->state == SANDBOX_PAUSED ? SLOT_NONE : row->uid_slot;
    sb->jail = (struct keeper_jail){.pid = row->pid, .start_ticks = row->start_ticks};
    load_options(sb, row->options_json);
    return true;
}

/* ---- description ---- */

void sandbox_note_wrong(struct sandbox *sb, const char *format, ...)
{
    struct err sentence;
    va_list args;

    va_start(args, format);
    (void)vsnprintf(sentence.msg, sizeof(sentence.msg), format, args);
    va_end(args);
    text_set(&sb->wrong, sentence.msg);
    sb->wrong_ms = clock_wall_ms();
}

struct sandbox_info sandbox_info(const struct sandbox *sb)
{
    bool changing = sb->state == SANDBOX_PAUSING || sb->state == SANDBOX_RESUMING;

    return (struct sandbox_info){.id = sb->id,
                                 .team_id = sb->team_id,
                                 .access_token = sb->access_token,
                                 .template_id = sb->template_id,
                                 .template_alias = sb->template_alias,
                                 .state = changing ? SANDBOX_PAUSED : sb->state,
                                 .changing = changing,
                                 .exact = sb->state,
                                 .fork_of = sb->fork_of,
                                 .wrong = sb->wrong,
                                 .wrong_ms = sb->wrong_ms,
                                 .started_ms = sb->started_ms,
                                 .end_ms = sb->end_ms,
                                 .created_ms = sb->created_ms,
                                 .cpu_count = sb->cpu_count,
                                 .memory_mb = sb->memory_mb,
                                 .disk_mb = sb->disk_mb,
                                 .saved_memory = sb->saved && saved_has_memory(sb->saved),
                                 .saved_bytes = sb->saved_bytes + sb->saved_disk_bytes,
                                 .metadata = sb->metadata,
                                 .env_vars = sb->env_vars,
                                 .options = sb->options};
}

struct keeper_jail sandbox_jail(const struct sandbox *sb)
{
    return sb->jail;
}

struct sandbox *sandboxes_find(struct sandboxes *all, struct str id)
{
    struct sandbox *sb = table_find(&all->table, id);

    return sb && sandbox_is_users(sb) && sb->state != SANDBOX_STARTING ? sb : NULL;
}

void sandboxes_each(struct sandboxes *all, bool ascending, const struct sandbox_position *after,
                    bool (*each)(void *ctx, struct sandbox *sb), void *ctx)
{
    table_each(&all->table, ascending, after, each, ctx);
}

static const char *const reasons[SANDBOX_REASONS] = {
    SANDBOX_END_REQUEST,      SANDBOX_END_TIMEOUT, SANDBOX_END_OUT_OF_MEMORY, SANDBOX_END_DISK_FULL,
    SANDBOX_END_HOST_RESTART, SANDBOX_END_ADMIN,   SANDBOX_END_RETENTION,     "other"};

void sandboxes_count_end(struct sandboxes *all, const char *reason)
{
    size_t i = 0;

    while (i < SANDBOX_REASONS - 1 && strcmp(reasons[i], reason) != 0) {
        i++;
    }
    all->ended[i]++;
}

bool sandboxes_adopted(const struct sandboxes *all)
{
    return all->adoption == ADOPT_READY;
}

struct sandboxes_figures sandboxes_figures(const struct sandboxes *all)
{
    const int64_t *in_state = all->in_state;
    struct sandboxes_figures figures = {
        .running = (uint32_t)(in_state[SANDBOX_RUNNING] + in_state[SANDBOX_PAUSING] +
                              in_state[SANDBOX_RESUMING]),
        .paused = (uint32_t)in_state[SANDBOX_PAUSED],
        .starting = (uint32_t)in_state[SANDBOX_STARTING],
        .created = all->created,
        .create_failed = all->create_failed,
        .pauses = all->pauses,
        .pauses_failed = all->pauses_failed,
        .resumes = all->resumes,
        .resumes_failed = all->resumes_failed,
        .snapshots = all->snapshots,
        .forks_of_disks = all->forks_of_disks,
        .forks_of_memory = all->forks_of_memory,
        .dials = all->dials,
        .dials_failed = all->dials_failed,
    };

    for (size_t i = 0; i < SANDBOX_REASONS; i++) {
        figures.ended[i].reason = reasons[i];
        figures.ended[i].count = all->ended[i];
    }
    parked_figures(all, &figures);
    return figures;
}

void sandboxes_steps(const struct sandboxes *all, struct sandboxes_step out[SANDBOX_STEPS])
{
    static const char *const names[SANDBOX_STEPS] = {
        [SANDBOX_STEP_JAIL] = "jail",     [SANDBOX_STEP_DIAL] = "dial",
        [SANDBOX_STEP_INIT] = "init",     [SANDBOX_STEP_COMMAND] = "command",
        [SANDBOX_STEP_RECORD] = "record",
    };

    for (size_t i = 0; i < SANDBOX_STEPS; i++) {
        out[i] = (struct sandboxes_step){names[i], &all->steps[i]};
    }
}

bool layers_have(const char *layers, const char *layer)
{
    struct str rest = str_of(layers ? layers : ""), one;

    while (str_split(&rest, ',', &one)) {
        if (str_eq(one, str_of(layer))) {
            return true;
        }
    }
    return false;
}

bool sandboxes_use(const struct sandboxes *all, const char *layer)
{
    const struct sandbox *sb = NULL, *next = NULL;

    HASH_ITER (hh, all->table.by_id, sb, next) {
        if (layers_have(sb->layers, layer) || (sb->saved && strcmp(sb->saved, layer) == 0)) {
            return true;
        }
    }
    return false;
}

struct summing {
    struct sandboxes_saved *sums;
    json_t *seen; /* names: several tags may name one snapshot */
};

static void add_template(void *ctx, const struct template *t)
{
    const struct summing *summing = ctx;
    struct sandboxes_saved *saved = summing->sums;

    if (!t->saved || json_object_get(summing->seen, t->saved)) {
        return;
    }
    (void)json_object_set_new(summing->seen, t->saved, json_true());
    if (t->snapshot_of) {
        saved->snapshots_memory += t->saved_bytes;
        saved->snapshots_disk += t->saved_disk_bytes;
    } else {
        saved->templates_memory += t->saved_bytes;
    }
}

struct sandboxes_saved sandboxes_saved(struct sandboxes *all)
{
    const struct sandbox *sb = NULL, *next = NULL;
    struct sandboxes_saved saved = {0};
    struct summing summing = {&saved, json_object()};

    HASH_ITER (hh, all->table.by_id, sb, next) {
        saved.paused_memory += sb->saved_bytes;
        saved.paused_disk += sb->saved_disk_bytes;
    }
    templates_each_built(all->use.templates, add_template, &summing);
    json_decref(summing.seen);
    return saved;
}

json_t *sandbox_connections(const struct sandbox *sb)
{
    return destinations_json(sb->destinations);
}

bool sandbox_egress(const struct sandbox *sb, struct egress_counters *out)
{
    if (!sb->net) {
        return false;
    }
    *out = egress_counters(sb->net);
    return true;
}

/* ---- a change of options ---- */

/* A caller that waits until the agent has been told of a change. */
struct options_change {
    struct options_change *next;
    struct sandbox *sb;
    store_done *done;
    void *ctx;
};

static void change_end(struct options_change *change, int error, const struct err *err)
{
    change->done(change->ctx, error, err);
    sandbox_release(change->sb);
    free(change);
}

static void on_learnt(struct sandbox *sb, int error, const struct err *err)
{
    static const struct err none;
    struct options_change *change = sb->changes;

    LL_DELETE(sb->changes, change);
    change_end(change, error, err ? err : &none);
}

/* Rules need an authority that the sandbox trusts: its agent is told before the caller is. */
static void on_options_saved(void *ctx, int error, const struct err *err)
{
    struct options_change *change = ctx;
    struct sandbox *sb = change->sb;
    char hash[EGRESS_HASH_BYTES];
    bool running = sb->state == SANDBOX_RUNNING && sb->net;
    char *authority = error == 0 && running
                          ? egress_authority(sb->all->use.egress, sb->id, sb->options, hash)
                          : NULL;

    if (authority) {
        LL_APPEND(sb->changes, change);
        sandbox_init_agent(sb, on_learnt);
    } else {
        change_end(change, error, err);
    }
    free(authority);
}

int sandbox_set_options(struct sandbox *sb, const json_t *options, store_done *done, void *ctx,
                        struct err *err)
{
    if (!sb->net && egress_wanted(options)) {
        return err_set(err, ENOTCONN, "sandbox %s has no network", sb->id);
    }
    json_t *own = json_deep_copy(options);
    if (!own) {
        abort();
    }
    json_decref(sb->options);
    sb->options = own;
    if (sb->net) {
        egress_set_policy(sb->net, own);
    }
    struct options_change *change = xnew(struct options_change);
    *change = (struct options_change){.sb = sb, .done = done, .ctx = ctx};
    sandbox_hold(sb);
    sandbox_record(sb, CHANGE_UPDATED, NULL, on_options_saved, change);
    return 0;
}

void sandbox_watch_set(struct sandbox_watch *watch, struct sandbox *sb)
{
    watch->sandbox = sb;
    watch->told = watch->settled = false;
    DL_APPEND(sb->watches, watch);
}

void sandbox_watch_settle(struct sandbox_watch *watch)
{
    watch->settled = true;
    if (watch->sandbox && watch->sandbox->state == SANDBOX_PAUSING && watch->told) {
        save_check_drained(watch->sandbox);
    }
}

void sandbox_watch_unset(struct sandbox_watch *watch)
{
    if (watch->sandbox) {
        struct sandbox *sb = watch->sandbox;
        DL_DELETE(sb->watches, watch);
        watch->sandbox = NULL;
        if (sb->state == SANDBOX_PAUSING && watch->told) {
            save_check_drained(sb);
        }
    }
}
