#include "serve/template/build/build.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <utlist.h>

#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/text.h"
#include "serve/template/build/internal.h"
#include "serve/template/name.h"

static const char *const states[] = {[BUILD_WAITING] = "waiting",
                                     [BUILD_BUILDING] = "building",
                                     [BUILD_READY] = "ready",
                                     [BUILD_ERROR] = "error"};

const char *build_state_name(enum build_state state)
{
    return states[state];
}

/* ---- a single build ---- */

static void build_free(struct build *build)
{
    HASH_DEL(build->all->by_id, build);
    free(build->template_id);
    free(build->tags);
    free(build->reason);
    free(build->snapshot_of);
    free(build->layers);
    free(build->user);
    free(build->workdir);
    free(build->env_json);
    free(build->start_cmd);
    free(build->ready_cmd);
    free(build->start_context);
    free(build->saved);
    free(build);
}

struct build_row build_row(const struct build *build)
{
    return (struct build_row){.id = build->id,
                              .template_id = build->template_id,
                              .state = states[build->state],
                              .tags = build->tags,
                              .reason = build->reason,
                              .created_ms = build->created_ms,
                              .started_ms = build->started_ms,
                              .finished_ms = build->finished_ms,
                              .cpu_count = build->cpu_count,
                              .memory_mb = build->memory_mb,
                              .disk_mb = build->disk_mb,
                              .layers = build->layers,
                              .user = build->user,
                              .workdir = build->workdir,
                              .env_json = build->env_json,
                              .start_cmd = build->start_cmd,
                              .ready_cmd = build->ready_cmd,
                              .start_context = build->start_context,
                              .saved = build->saved,
                              .bytes = build->bytes,
                              .saved_bytes = build->saved_bytes,
                              .snapshot_of = build->snapshot_of};
}

void build_record(struct build *build, store_done *done, void *ctx)
{
    struct build_row row = build_row(build);

    store_build_save(build->all->use.store, &row, done, ctx);
}

const char *build_team(const struct build *build)
{
    const struct template *t = templates_by_id(build->all->use.templates, build->template_id);

    return t ? t->team_id : NULL;
}

static struct build *find(const struct builds *all, const char *template_id, const char *id)
{
    struct build *build = NULL;

    HASH_FIND_STR(all->by_id, id, build);
    return build && strcmp(build->template_id, template_id) == 0 ? build : NULL;
}

struct ending {
    struct builds *all; /* counted */
    char id[ID_UUID_LEN + 1];
};

/* If the store refuses it, nothing is lost: the next daemon finds the build interrupted. */
static void on_ended(void *ctx, int error, const struct err *err)
{
    struct ending *ending = ctx;
    struct build *build = NULL;

    if (error < 0) {
        log_error("build %s: %s", ending->id, err->msg);
    }
    HASH_FIND_STR(ending->all->by_id, ending->id, build);
    if (build) {
        build->state = BUILD_ERROR;
    }
    builds_release(ending->all);
    free(ending);
}

void build_end(struct build *build, const char *reason)
{
    struct ending *ending = xnew(struct ending);
    enum build_state shown = build->state;

    ending->all = build->all;
    memcpy(ending->id, build->id, sizeof(build->id));
    builds_hold(build->all);
    text_set(&build->reason, reason);
    text_set(&build->layers, "");
    build->finished_ms = clock_wall_ms();
    build->all->failed++;
    build->state = BUILD_ERROR;
    build_record(build, on_ended, ending);
    build->state = shown; /* until then */
}

/* ---- loading ---- */

static enum build_state state_of(const char *name)
{
    for (enum build_state state = BUILD_WAITING; state <= BUILD_ERROR; state++) {
        if (strcmp(states[state], name) == 0) {
            return state;
        }
    }
    return BUILD_ERROR;
}

static void on_row(void *ctx, const struct build_row *row)
{
    struct builds *all = ctx;
    struct build *build = xnew(struct build);

    build->all = all;
    (void)str_copy(build->id, sizeof(build->id), str_of(row->id));
    build->template_id = xstrdup(row->template_id);
    build->tags = xstrdup(row->tags);
    build->reason = xstrdup(row->reason);
    build->state = state_of(row->state);
    build->created_ms = row->created_ms;
    build->started_ms = row->started_ms;
    build->finished_ms = row->finished_ms;
    build->cpu_count = row->cpu_count;
    build->memory_mb = row->memory_mb;
    build->disk_mb = row->disk_mb;
    build->layers = xstrdup(row->layers);
    build->user = xstrdup(row->user);
    build->workdir = xstrdup(row->workdir);
    build->env_json = xstrdup(row->env_json);
    build->start_cmd = xstrdup(row->start_cmd);
    build->ready_cmd = xstrdup(row->ready_cmd);
    build->start_context = xstrdup(row->start_context);
    build->saved = xstrdup(row->saved);
    build->bytes = row->bytes;
    build->saved_bytes = row->saved_bytes;
    build->snapshot_of = xstrdup(row->snapshot_of);
    HASH_ADD_STR(all->by_id, id, build);
}

void builds_add_snapshot(struct builds *builds, const struct build_row *row)
{
    on_row(builds, row);
}

/* The daemon before us died. Nothing of such a build is in use. */
static void end_interrupted(struct builds *all)
{
    struct build *build = NULL, *next = NULL;

    HASH_ITER (hh, all->by_id, build, next) {
        if (build->state != BUILD_BUILDING) {
            continue;
        }
        text_set(&build->layers, "");
        text_set(&build->reason,
                 "{\"message\":\"the daemon ended while the template was being "
                 "built; build it again, it goes on from the last finished step\"}");
        build->state = BUILD_ERROR;
        build->finished_ms = clock_wall_ms();
        build_say(build, LOG_ERROR, NULL, "Build failed: the daemon ended");
        build_record(build, NULL, NULL);
    }
}

/* ---- asking for one ---- */

void build_request(struct builds *builds, const struct template *template, const char *tags,
                   const struct build_size *size, char id[ID_UUID_LEN + 1], store_done *done,
                   void *ctx)
{
    struct build *build = xnew(struct build);

    build->all = builds;
    id_uuid(build->id);
    memcpy(id, build->id, sizeof(build->id));
    build->template_id = xstrdup(template->id);
    build->tags = xstrdup(tags);
    build->created_ms = clock_wall_ms();
    build->cpu_count = size->cpu_count;
    build->memory_mb = size->memory_mb;
    build->disk_mb = size->disk_mb;
    build->layers = xstrdup("");
    build->user = xstrdup("user");
    build->workdir = xstrdup("");
    build->env_json = xstrdup("{}");
    HASH_ADD_STR(builds->by_id, id, build);
    build_record(build, done, ctx);
}

static bool share_a_tag(const char *a, const char *b)
{
    struct str rest = str_of(a), tag;

    while (str_split(&rest, ',', &tag)) {
        struct str others = str_of(b), other;
        while (str_split(&others, ',', &other)) {
            if (str_eq(tag, other)) {
                return true;
            }
        }
    }
    return false;
}

/* The later of two builds of the same name counts. */
static void cancel_older(const struct build *build)
{
    struct build *other = NULL, *next = NULL;

    HASH_ITER (hh, build->all->by_id, other, next) {
        if (other != build && other->work && strcmp(other->template_id, build->template_id) == 0 &&
            share_a_tag(other->tags, build->tags)) {
            work_fail(other->work, "the build was cancelled: a later one of the same name began");
        }
    }
}

int build_start(struct builds *builds, const char *template_id, const char *id, const json_t *body,
                struct err *err)
{
    struct build *build = find(builds, template_id, id);
    struct spec *spec = NULL;

    if (!build) {
        return err_set(err, ENOENT, "Build '%.64s' not found", id);
    }
    if (build->state != BUILD_WAITING) {
        return err_set(err, EINVAL, "build is not in waiting state");
    }
    int r = queue_check(builds, build_team(build), err);
    if (r == 0) {
        r = spec_parse(body, &spec, err);
    }
    if (r < 0) {
        return r;
    }
    cancel_older(build);
    build->state = BUILD_BUILDING;
    build->work = work_new(build, spec);
    queue_add(build->work);
    build_record(build, NULL, NULL);
    builds_next(builds);
    if (queue_position(build->work) > 0) {
        build_say(build, LOG_INFO, NULL, "Waiting for other builds: number %u in the queue",
                  queue_position(build->work));
    }
    return 0;
}

int build_cancel(struct builds *builds, const char *template_id, const char *id, const char *reason)
{
    struct build *build = find(builds, template_id, id);

    if (!build) {
        return -ENOENT;
    }
    if (build->work) {
        work_fail(build->work, "the build was cancelled: %s", reason);
        return 0;
    }
    if (build->state != BUILD_WAITING) {
        return -EBUSY;
    }
    char *json = NULL;
    if (asprintf(&json, "{\"message\":\"the build was cancelled: %s\"}", reason) < 0) {
        abort();
    }
    build_end(build, json);
    free(json);
    return 0;
}

/* ---- results ---- */

static void tags_take(struct build *build)
{
    struct build_row row = build_row(build);
    struct str rest = str_of(build->tags), tag;
    char name[TEMPLATE_NAME_MAX + 1];

    while (str_split(&rest, ',', &tag)) {
        if (str_copy(name, sizeof(name), tag) && name[0]) {
            templates_tag(build->all->use.templates, &row, name, NULL, NULL);
        }
    }
}

void work_done(struct work *work)
{
    struct build *build = work->build;
    struct builds *all = build->all;

    work_mark(work, "build.finalize");
    work_traced(work, NULL);
    work_stop(work);
    build->state = BUILD_READY;
    all->ready++;
    log_info("build %s: ready, template %s", build->id, build->template_id);
    tags_take(build);
    builds_next(all);
}

void build_trace(struct builds *builds, const char *template_id, const char *id,
                 const struct trace_place *place)
{
    struct build *build = find(builds, template_id, id);

    if (build) {
        build->trace = *place;
    }
}

int build_tag(struct builds *builds, const char *template_id, const char *build_id, const char *tag,
              store_done *done, void *ctx)
{
    const struct build *build = find(builds, template_id, build_id);

    if (!build || build->state != BUILD_READY || !build->layers[0]) {
        return -ENODATA;
    }
    struct build_row row = build_row(build);
    templates_tag(builds->use.templates, &row, tag, done, ctx);
    return 0;
}

void builds_drop(struct builds *builds, const char *template_id)
{
    struct build *build = NULL, *next = NULL;

    HASH_ITER (hh, builds->by_id, build, next) {
        if (strcmp(build->template_id, template_id) == 0) {
            if (build->work) {
                work_stop(build->work);
            }
            build_free(build);
        }
    }
    builds_next(builds);
}

/* ---- looking ---- */

static struct build_info info_of(const struct build *build)
{
    return (struct build_info){.id = build->id,
                               .template_id = build->template_id,
                               .team_id = build_team(build),
                               .under_way = build->work != NULL,
                               .state = build->state,
                               .reason = build->reason,
                               .created_ms = build->created_ms,
                               .started_ms = build->started_ms,
                               .finished_ms = build->finished_ms,
                               .cpu_count = build->cpu_count,
                               .memory_mb = build->memory_mb,
                               .disk_mb = build->disk_mb,
                               .bytes = build->bytes + build->saved_bytes,
                               .position = queue_position(build->work)};
}

bool build_find(struct builds *builds, const char *template_id, const char *id,
                struct build_info *out)
{
    const struct build *build = find(builds, template_id, id);

    if (build) {
        *out = info_of(build);
    }
    return build != NULL;
}

void builds_each(struct builds *builds, const char *template_id,
                 bool (*each)(void *ctx, const struct build_info *info), void *ctx)
{
    const struct build *build = NULL;

    if (!builds->by_id) {
        return;
    }
    /* uthash keeps the order in which they were added. */
    for (build = ELMT_FROM_HH(builds->by_id->hh.tbl, builds->by_id->hh.tbl->tail); build;
         build = build->hh.prev) {
        if (template_id && strcmp(build->template_id, template_id) != 0) {
            continue;
        }
        struct build_info info = info_of(build);
        if (!each(ctx, &info)) {
            return;
        }
    }
}

struct builds_figures builds_figures(const struct builds *builds)
{
    struct builds_figures figures = {.running = builds->running,
                                     .queued = queue_length(builds),
                                     .ready = builds->ready,
                                     .failed = builds->failed,
                                     .steps = HASH_COUNT(builds->cached),
                                     .files_bytes = files_bytes(builds)};
    const struct cached *cached = NULL, *next = NULL;

    HASH_ITER (hh, builds->cached, cached, next) {
        figures.steps_bytes += cached->bytes;
    }
    return figures;
}

struct builds_pruned builds_prune(struct builds *builds, int64_t unused_since_ms)
{
    struct builds_pruned pruned = {0};

    sweep(builds, unused_since_ms, &pruned);
    pruned.bytes += image_prune(builds->images, unused_since_ms);
    return pruned;
}

/* ---- the whole ---- */

static void forget_old(struct builds *all, int64_t before_ms)
{
    struct build *build = NULL, *next = NULL;

    HASH_ITER (hh, all->by_id, build, next) {
        bool ended =
            build->state == BUILD_ERROR || (build->state == BUILD_READY && !build->layers[0]);
        if (ended && build->finished_ms < before_ms) {
            store_build_delete(all->use.store, build->id, NULL, NULL);
            build_free(build);
        }
    }
}

static void on_sweep(uv_timer_t *timer)
{
    struct builds *all = timer->data;

    forget_old(all, clock_wall_ms() - BUILD_HISTORY_MS);
    if (all->disks_known && keeper_client_connected(all->use.keeper)) {
        disk_list(all); /* also what a keeper finished for a daemon that had died */
    }
}

void builds_hold(struct builds *all)
{
    all->refs++;
}

void builds_release(struct builds *all)
{
    if (--all->refs == 0) {
        cache_free(all);
        files_close(all);
        free(all);
    }
}

static void on_timer_closed(uv_handle_t *handle)
{
    builds_release(handle->data);
}

int builds_new(const struct builds_options *options, struct builds **out, struct err *err)
{
    struct builds *all = xnew(struct builds);

    all->use = *options;
    all->refs = 2; /* the caller's, and the timer's */
    if (uv_timer_init(options->loop, &all->sweep) < 0) {
        abort();
    }
    all->sweep.data = all;
    all->jails = jail_images(all);
    int r = image_store_new(&all->use.image, &all->jails, &all->images, err);
    if (r == 0) {
        r = store_load_builds(options->store, on_row, all, err);
    }
    if (r == 0) {
        r = cache_load(all, err);
    }
    if (r == 0) {
        r = files_open(all, options->files, err);
    }
    if (r < 0) {
        builds_free(all);
        return r;
    }
    end_interrupted(all);
    (void)uv_timer_start(&all->sweep, on_sweep, BUILD_SWEEP_EVERY_MS, BUILD_SWEEP_EVERY_MS);
    *out = all;
    if (keeper_client_connected(options->keeper)) {
        disk_list(all);
    }
    return 0;
}

void builds_keeper_changed(struct builds *builds, bool connected)
{
    builds->disks_known = false;
    if (connected) {
        disk_list(builds);
    }
}

void builds_free(struct builds *builds)
{
    struct build *build = NULL, *next = NULL;

    if (!builds) {
        return;
    }
    builds->closed = true;
    HASH_ITER (hh, builds->by_id, build, next) {
        if (build->work) {
            work_stop(build->work);
        }
        build_free(build);
    }
    image_store_free(builds->images);
    uv_close((uv_handle_t *)&builds->sweep, on_timer_closed);
    builds_release(builds);
}
