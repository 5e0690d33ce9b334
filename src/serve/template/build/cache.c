/* cache.c - results of steps, the saves that hold them, and which of these may be removed.
 *
 * A disk that was saved is in use while a template, one of its tags, a sandbox's build or a build
 * under way names it among its layers. Cached steps and images are no use by themselves: they go
 * when nobody has needed them for long, or when the operator wants their room.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/text.h"
#include "serve/template/build/internal.h"

struct disk {
    UT_hash_handle hh;
    char name[KEEPER_SAVED_BYTES];
    int64_t used_ms;
    bool listed; /* by the listing under way */
};

/* ---- steps ---- */

static void cached_free(struct builds *all, struct cached *cached)
{
    HASH_DEL(all->cached, cached);
    free(cached->user);
    free(cached->workdir);
    free(cached->env_json);
    free(cached);
}

static struct cached *cached_from(const struct step_row *row)
{
    struct cached *cached = xnew(struct cached);

    (void)str_copy(cached->key, sizeof(cached->key), str_of(row->key));
    (void)str_copy(cached->team_id, sizeof(cached->team_id), str_of(row->team_id));
    (void)str_copy(cached->saved, sizeof(cached->saved), str_of(row->saved));
    cached->user = xstrdup(row->user);
    cached->workdir = xstrdup(row->workdir);
    cached->env_json = xstrdup(row->env_json);
    cached->bytes = row->bytes;
    cached->created_ms = row->created_ms;
    cached->used_ms = row->used_ms;
    return cached;
}

static void cached_add(struct builds *all, const struct step_row *row)
{
    struct cached *old = NULL, *cached = cached_from(row);

    HASH_FIND_STR(all->cached, cached->key, old);
    if (old) {
        cached_free(all, old);
    }
    HASH_ADD_STR(all->cached, key, cached);
}

static void on_step(void *ctx, const struct step_row *row)
{
    cached_add(ctx, row);
}

int cache_load(struct builds *all, struct err *err)
{
    return store_load_steps(all->use.store, on_step, all, err);
}

void cache_free(struct builds *all)
{
    struct cached *cached = NULL, *next = NULL;
    struct disk *saved = NULL, *saved_next = NULL;

    HASH_ITER (hh, all->cached, cached, next) {
        cached_free(all, cached);
    }
    HASH_ITER (hh, all->saved, saved, saved_next) {
        HASH_DEL(all->saved, saved);
        free(saved);
    }
}

static struct step_row cached_row(const struct cached *cached)
{
    return (struct step_row){.key = cached->key,
                             .team_id = cached->team_id,
                             .saved = cached->saved,
                             .user = cached->user,
                             .workdir = cached->workdir,
                             .env_json = cached->env_json,
                             .bytes = cached->bytes,
                             .created_ms = cached->created_ms,
                             .used_ms = cached->used_ms};
}

const struct cached *cache_find(struct builds *all, const char *key)
{
    struct cached *cached = NULL;

    HASH_FIND_STR(all->cached, key, cached);
    if (!cached || (cached->saved[0] && !disk_has(all, cached->saved))) {
        return NULL;
    }
    cached->used_ms = clock_wall_ms();
    struct step_row row = cached_row(cached);
    store_step_save(all->use.store, &row, NULL, NULL);
    return cached;
}

void cache_put(struct work *work, const char *saved, uint64_t bytes)
{
    int64_t now = clock_wall_ms();
    char *env = json_dumps(work->context.env, JSON_COMPACT | JSON_SORT_KEYS);
    const struct step_row row = {.key = work->next_key,
                                 .team_id = work->team_id,
                                 .saved = saved,
                                 .user = work->context.user,
                                 .workdir = work->context.workdir,
                                 .env_json = env ? env : "{}",
                                 .bytes = bytes,
                                 .created_ms = now,
                                 .used_ms = now};

    cached_add(work->all, &row);
    store_step_save(work->all->use.store, &row, NULL, NULL);
    free(env);
}

/* ---- saves of the keeper ---- */

void disk_name_step(const char *key, char out[KEEPER_SAVED_BYTES])
{
    (void)snprintf(out, KEEPER_SAVED_BYTES, BUILD_SAVED_STEP "%.40s", key);
}

/* The build's id, without what no name may hold. */
void disk_name_build(const struct build *build, const char *prefix, char out[KEEPER_SAVED_BYTES])
{
    size_t n = strlen(prefix);

    memcpy(out, prefix, n);
    for (const char *c = build->id; *c; c++) {
        if (*c != '-') {
            out[n++] = *c;
        }
    }
    out[n] = '\0';
}

bool disk_has(const struct builds *all, const char *name)
{
    const struct disk *saved = NULL;

    HASH_FIND_STR(all->saved, name, saved);
    return saved != NULL;
}

static struct disk *disk_put(struct builds *all, const char *name)
{
    struct disk *disk = NULL;

    HASH_FIND_STR(all->saved, name, disk);
    if (!disk) {
        disk = xnew(struct disk);
        (void)str_copy(disk->name, sizeof(disk->name), str_of(name));
        disk->used_ms = clock_wall_ms();
        HASH_ADD_STR(all->saved, name, disk);
    }
    return disk;
}

void disk_add(struct builds *all, const char *name)
{
    struct disk *disk = disk_put(all, name);

    disk->used_ms = clock_wall_ms();
    disk->listed = true;
}

static void disk_drop(struct builds *all, struct disk *saved)
{
    HASH_DEL(all->saved, saved);
    free(saved);
}

static void on_forgotten(void *ctx, const struct keeper_answer *answer, int fds[KEEPER_FDS_MAX])
{
    struct builds *all = ctx;

    (void)fds;
    if (answer->status < 0 && answer->status != -ENOTCONN && answer->status != -ECONNRESET) {
        log_warn("builds: forget what was saved: %s", answer->err.msg);
    }
    builds_release(all); /* a keeper that was away will list these saves again */
}

void disk_forget(struct builds *all, const char *name)
{
    struct keeper_request req = {.op = KEEPER_FORGET};
    struct disk *saved = NULL;

    (void)str_copy(req.save.name, sizeof(req.save.name), str_of(name));
    HASH_FIND_STR(all->saved, req.save.name, saved);
    if (saved) {
        disk_drop(all, saved);
    }
    builds_hold(all);
    keeper_client_ask(all->use.keeper, &req, on_forgotten, all);
}

static void list_end(struct builds *all)
{
    struct disk *saved = NULL, *next = NULL;
    struct builds_pruned ignored = {0};

    HASH_ITER (hh, all->saved, saved, next) {
        if (!saved->listed) {
            disk_drop(all, saved);
        }
    }
    all->disks_known = true;
    sweep(all, clock_wall_ms() - BUILD_KEEP_MS, &ignored);
    builds_next(all);
}

static bool on_listed(void *ctx, const char *name)
{
    struct builds *all = ctx;

    if (!all->closed) {
        disk_put(all, name)->listed = true;
    }
    return !all->closed;
}

static void on_list_end(void *ctx, int error, const struct err *err)
{
    struct builds *all = ctx;

    if (error == 0 && !all->closed) {
        list_end(all);
    } else if (error != -ENOTCONN && error != -ECONNRESET && !all->closed) {
        log_error("builds: list what is saved: %s", err->msg);
    }
    builds_release(all);
}

void disk_list(struct builds *all)
{
    const struct keeper_saved_walk walk = {on_listed, on_list_end, all};
    struct disk *saved = NULL, *next = NULL;

    HASH_ITER (hh, all->saved, saved, next) {
        saved->listed = false;
    }
    builds_hold(all);
    keeper_client_saved_each(all->use.keeper, &walk);
}

/* ---- saves in use ---- */

static bool names(const char *layers, const char *name)
{
    struct str rest = str_of(layers), layer;

    while (layers && str_split(&rest, ',', &layer)) {
        if (str_eq(layer, str_of(name))) {
            return true;
        }
    }
    return false;
}

struct use {
    const char *name; /* of what is saved */
    bool found;
};

static void in_template(void *ctx, const struct template *t)
{
    struct use *use = ctx;

    use->found |= names(t->layers, use->name) || (t->saved && strcmp(t->saved, use->name) == 0);
}

/* Also what it is about to save: the keeper may list that before it has told us. */
static bool work_names(const struct work *work, const char *name)
{
    char step[KEEPER_SAVED_BYTES], final[KEEPER_SAVED_BYTES], warm[KEEPER_SAVED_BYTES];

    disk_name_step(work->next_key, step);
    disk_name_build(work->build, BUILD_SAVED_FINAL, final);
    disk_name_build(work->build, BUILD_SAVED_WARM, warm);
    return names(work->layers, name) || strcmp(work->from, name) == 0 || strcmp(step, name) == 0 ||
           strcmp(final, name) == 0 || strcmp(warm, name) == 0;
}

static bool build_names(const struct build *build, const char *name)
{
    return names(build->layers, name) || (build->saved && strcmp(build->saved, name) == 0) ||
           (build->work && work_names(build->work, name));
}

static bool in_use(struct builds *all, const char *name)
{
    struct use use = {.name = name, .found = sandboxes_use(all->use.sandboxes, name)};
    struct build *build = NULL, *next = NULL;

    templates_each_built(all->use.templates, in_template, &use);
    HASH_ITER (hh, all->by_id, build, next) {
        use.found |= build_names(build, name);
    }
    return use.found;
}

/* ---- saves that may be removed ---- */

struct tagged_build {
    const char *build_id;
    bool found;
};

static void in_tag(void *ctx, const struct template *t)
{
    struct tagged_build *search = ctx;

    search->found |= t->build_id && strcmp(t->build_id, search->build_id) == 0;
}

static bool layer_used(const struct builds *all, const struct build *build)
{
    struct str rest = str_of(build->layers), first;
    char name[KEEPER_SAVED_BYTES];

    return str_split(&rest, ',', &first) && str_copy(name, sizeof(name), first) &&
           sandboxes_use(all->use.sandboxes, name);
}

/* The build was replaced by a later one, and no sandbox runs on it. A sandbox of a snapshot has all
 * it needs. */
static bool is_left(struct builds *all, const struct build *build)
{
    struct tagged_build search = {.build_id = build->id};

    if (build->state != BUILD_READY || !build->layers[0]) {
        return false;
    }
    templates_each_built(all->use.templates, in_tag, &search);
    return !search.found && (build->snapshot_of || !layer_used(all, build));
}

static void builds_sweep(struct builds *all, int64_t now_ms)
{
    struct build *build = NULL, *next = NULL;

    HASH_ITER (hh, all->by_id, build, next) {
        if (is_left(all, build)) {
            if (build->snapshot_of && build->saved) {
                sandboxes_forget_saved(all->use.sandboxes, build->saved);
            }
            text_set(&build->layers, "");
            text_set(&build->saved, NULL);
            build->bytes = build->saved_bytes = 0;
            build_record(build, NULL, NULL);
        } else if (build->state == BUILD_WAITING &&
                   now_ms - build->created_ms > BUILD_WAITING_MAX_MS) {
            (void)!build_cancel(all, build->template_id, build->id, "nobody started the build");
        }
    }
}

static void steps_sweep(struct builds *all, int64_t unused_since_ms, struct builds_pruned *out)
{
    struct cached *cached = NULL, *next = NULL;

    HASH_ITER (hh, all->cached, cached, next) {
        bool lost = cached->saved[0] && all->disks_known && !disk_has(all, cached->saved);
        if ((cached->used_ms >= unused_since_ms && !lost) || in_use(all, cached->saved)) {
            continue;
        }
        out->bytes += cached->bytes;
        store_step_delete(all->use.store, cached->key, NULL, NULL);
        cached_free(all, cached);
    }
}

static bool is_cached(const struct builds *all, const char *name)
{
    const struct cached *cached = NULL, *next = NULL;

    HASH_ITER (hh, all->cached, cached, next) {
        if (strcmp(cached->saved, name) == 0) {
            return true;
        }
    }
    return false;
}

/* Saves of other modules are left alone. */
static bool is_ours(const struct disk *saved, int64_t unused_since_ms)
{
    struct str name = str_of(saved->name);

    if (str_starts(name, STR(BUILD_SAVED_IMAGE))) {
        return saved->used_ms < unused_since_ms;
    }
    return str_starts(name, STR(BUILD_SAVED_STEP)) || str_starts(name, STR(BUILD_SAVED_FINAL)) ||
           str_starts(name, STR(BUILD_SAVED_WARM));
}

void sweep(struct builds *all, int64_t unused_since_ms, struct builds_pruned *out)
{
    struct disk *saved = NULL, *next = NULL;

    sandboxes_unpark_stale(all->use.sandboxes);
    builds_sweep(all, clock_wall_ms());
    steps_sweep(all, unused_since_ms, out);
    HASH_ITER (hh, all->saved, saved, next) {
        if (is_ours(saved, unused_since_ms) && !is_cached(all, saved->name) &&
            !in_use(all, saved->name)) {
            char name[KEEPER_SAVED_BYTES];
            (void)str_copy(name, sizeof(name), str_of(saved->name));
            out->layers++;
            disk_forget(all, name);
        }
    }
    files_sweep(all, unused_since_ms, out);
}
