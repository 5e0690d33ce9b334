#include "serve/template/template.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <utlist.h>

#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/text.h"
#include "serve/template/internal.h"

struct templates {
    struct store *store;
    struct mirror mirror;
    struct owner *owners;
    struct awaited *awaited;
};

static struct entry *entry_in(struct mirrored *one)
{
    return one ? container_of(one, struct entry, as) : NULL;
}

static struct entry *entry_of(const struct templates *all, const char *id)
{
    return entry_in(mirror_find(&all->mirror, id));
}

static void on_free(struct mirrored *one)
{
    entry_free(entry_in(one));
}

static void entry_put(struct templates *all, struct entry *entry)
{
    entry->as =
        (struct mirrored){.id = entry->t.id, .team_id = entry->t.team_id, .name = entry->t.alias};
    mirror_put(&all->mirror, &entry->as);
}

static void on_template(void *ctx, const struct template_row *row)
{
    entry_put(ctx, entry_from_row(row));
}

static void on_tag(void *ctx, const struct tag_row *row, const struct build_row *build)
{
    struct entry *entry = entry_of(ctx, row->template_id);

    if (entry) {
        (void)entry_tag(entry, row->tag, row->created_ms, build);
    }
}

static void on_written(void *ctx, int error, const struct err *err)
{
    (void)ctx;
    if (error < 0) {
        log_error("template: %s", err->msg);
    }
}

void templates_name_team(struct templates *templates, const char *team_id, const char *name)
{
    struct template_name parsed;
    struct owner *owner;

    LL_FOREACH (templates->owners, owner) {
        if (strcmp(owner->id, team_id) == 0) {
            break;
        }
    }
    if (!owner) {
        owner = owner_new(team_id);
        LL_PREPEND(templates->owners, owner);
    }
    owner->space[0] = '\0';
    if (template_name_parse(str_of(name), &parsed) == 0 && !parsed.space[0]) {
        (void)str_copy(owner->space, sizeof(owner->space), str_of(parsed.alias));
    }
}

static void on_team(void *ctx, const struct team_row *row)
{
    templates_name_team(ctx, row->id, row->name);
}

int templates_new(struct store *store, struct templates **out, struct err *err)
{
    struct templates *all = xnew(struct templates);
    int r;

    all->store = store;
    all->mirror.free = on_free;
    r = store_load_teams(store, on_team, all, err);
    if (r == 0) {
        r = store_load_templates(store, on_template, all, err);
    }
    if (r == 0) {
        r = store_load_tags(store, on_tag, all, err);
    }
    if (r < 0) {
        templates_free(all);
        return err_wrap(err, "load the templates");
    }
    *out = all;
    return 0;
}

void templates_free(struct templates *templates)
{
    struct owner *owner, *owner_next;
    struct awaited *awaited, *awaited_next;

    if (!templates) {
        return;
    }
    mirror_fini(&templates->mirror);
    LL_FOREACH_SAFE (templates->owners, owner, owner_next) {
        owner_free(owner);
    }
    LL_FOREACH_SAFE (templates->awaited, awaited, awaited_next) {
        awaited_free(awaited);
    }
    free(templates);
}

/* A NULL team: among the built-in templates. */
static struct entry *find_alias(struct templates *all, const char *team_id, const char *alias)
{
    return entry_in(mirror_named(&all->mirror, team_id, str_of(alias)));
}

static void save(struct templates *all, const struct entry *entry, store_done *done, void *ctx)
{
    struct template_row row = template_row(&entry->t);

    store_template_save(all->store, &row, done ? done : on_written, ctx);
}

void templates_put_builtin(struct templates *templates, const struct template_builtin *what)
{
    struct entry *entry = find_alias(templates, NULL, what->alias);

    if (!entry) {
        entry = entry_builtin(what->alias);
        entry_put(templates, entry);
    }
    if (entry_is(entry, what)) {
        return;
    }
    entry_become(entry, what);
    save(templates, entry, NULL, NULL);
}

/* ---- saves of templates ---- */

struct save_setting {
    struct templates *all;
    char *id, *build_id, *saved;
    uint64_t bytes;
    store_done *done;
    void *ctx;
};

static struct entry *find_build(struct templates *all, const char *id, const char *build_id)
{
    struct entry *entry = entry_of(all, id);

    return entry && text_same(entry->t.build_id, build_id) ? entry : NULL;
}

static void save_setting_end(struct save_setting *setting, int error, const struct err *err)
{
    setting->done(setting->ctx, error, err);
    free(setting->id);
    free(setting->build_id);
    free(setting->saved);
    free(setting);
}

/* The template may have a new build meanwhile: then the store has that one. */
static void on_save_stored(void *ctx, int error, const struct err *err)
{
    struct save_setting *setting = ctx;
    struct entry *entry = find_build(setting->all, setting->id, setting->build_id);
    struct err stale;

    if (error == 0 && !entry) {
        (void)err_set(&stale, ESTALE, "the template has become another one");
        save_setting_end(setting, -ESTALE, &stale);
        return;
    }
    if (error == 0) {
        text_set(&entry->t.saved, setting->saved);
        entry->t.saved_bytes = setting->bytes;
    }
    save_setting_end(setting, error, err);
}

void templates_set_save(struct templates *templates, const char *id, const char *build_id,
                        const char *saved, uint64_t bytes, store_done *done, void *ctx)
{
    static const struct err none;
    struct save_setting *setting = xnew(struct save_setting);
    const struct entry *entry = find_build(templates, id, build_id);

    *setting = (struct save_setting){.all = templates,
                                     .id = xstrdup(id),
                                     .build_id = xstrdup(build_id),
                                     .saved = xstrdup(saved),
                                     .bytes = bytes,
                                     .done = done,
                                     .ctx = ctx};
    if (!entry) {
        on_save_stored(setting, 0, &none);
        return;
    }
    struct template_row row = template_row(&entry->t);
    row.saved = saved;
    row.saved_bytes = bytes;
    store_template_save(templates->store, &row, on_save_stored, setting);
}

/* ---- not there yet ---- */

void templates_await(struct templates *templates, const char *alias, const char *sentence)
{
    struct awaited *awaited, *next;

    LL_FOREACH_SAFE (templates->awaited, awaited, next) {
        if (strcmp(awaited->alias, alias) == 0) {
            LL_DELETE(templates->awaited, awaited);
            awaited_free(awaited);
        }
    }
    if (sentence) {
        awaited = awaited_new(alias, sentence);
        LL_PREPEND(templates->awaited, awaited);
    }
}

const char *templates_awaited(const struct templates *templates, struct str name)
{
    const struct awaited *awaited;
    struct template_name parsed;

    if (template_name_parse(name, &parsed) < 0 || parsed.space[0]) {
        return NULL;
    }
    LL_FOREACH (templates->awaited, awaited) {
        if (strcmp(awaited->alias, parsed.alias) == 0) {
            return awaited->sentence;
        }
    }
    return NULL;
}

/* ---- snapshots ---- */

struct build_row template_snapshot_build(const struct template *snapshot, const char *tag)
{
    return (struct build_row){.id = snapshot->build_id,
                              .template_id = snapshot->id,
                              .state = "ready",
                              .tags = tag,
                              .created_ms = snapshot->created_ms,
                              .started_ms = snapshot->created_ms,
                              .finished_ms = snapshot->created_ms,
                              .cpu_count = snapshot->cpu_count,
                              .memory_mb = snapshot->memory_mb,
                              .disk_mb = snapshot->disk_mb,
                              .layers = snapshot->layers,
                              .user = snapshot->user,
                              .workdir = snapshot->workdir,
                              .env_json = snapshot->env_json,
                              .start_cmd = snapshot->start_cmd,
                              .ready_cmd = snapshot->ready_cmd,
                              .start_context = snapshot->start_context,
                              .saved = snapshot->saved,
                              .bytes = snapshot->saved_disk_bytes,
                              .saved_bytes = snapshot->saved_bytes,
                              .snapshot_of = snapshot->snapshot_of};
}

struct putting {
    struct templates *all;
    struct entry *entry; /* as the snapshot describes it */
    char tag[TEMPLATE_NAME_MAX + 1];
    store_done *done;
    void *ctx;
};

/* Makes it a template without a build: the snapshot is found by its tag alone. */
static void entry_empty(struct template *t)
{
    text_set(&t->build_id, "");
    text_set(&t->layers, "");
    text_set(&t->saved, NULL);
    t->saved_bytes = t->saved_disk_bytes = 0;
}

static void put_tagged(struct putting *putting)
{
    struct template *said = &putting->entry->t;
    struct build_row build = template_snapshot_build(said, putting->tag);
    struct template_row row = template_row(said);
    struct entry *entry = entry_of(putting->all, said->id);

    if (!entry) {
        entry = entry_from_row(&row);
        entry_empty(&entry->t);
        entry_put(putting->all, entry);
    }
    (void)entry_tag(entry, putting->tag, said->created_ms, &build);
}

/* If the tag could not be stored, a new template has nothing, and is deleted again. */
static void on_put(void *ctx, int error, const struct err *err)
{
    struct putting *putting = ctx;
    const char *id = putting->entry->t.id;

    if (error == 0) {
        put_tagged(putting);
    } else if (!templates_by_id(putting->all, id)) {
        store_template_delete(putting->all->store, id, on_written, NULL);
    }
    putting->done(putting->ctx, error, err);
    entry_free(putting->entry);
    free(putting);
}

/* The row of a template says what its tag `default` names. */
static void put_row(struct templates *all, const struct template *snapshot, const char *tag)
{
    const struct template *old = templates_by_id(all, snapshot->id);
    struct template_row row = template_row(snapshot);

    if (strcmp(tag, TEMPLATE_TAG_DEFAULT) != 0) {
        if (old) {
            return;
        }
        row.build_id = row.layers = "";
        row.saved = NULL;
        row.saved_bytes = row.saved_disk_bytes = 0;
    }
    row.is_public = old && old->is_public;
    store_template_save(all->store, &row, on_written, NULL);
}

void templates_put_snapshot(struct templates *templates, const struct template *snapshot,
                            const char *tag, store_done *done, void *ctx)
{
    struct putting *putting = xnew(struct putting);
    struct template_row row = template_row(snapshot);
    struct build_row build = template_snapshot_build(snapshot, tag);
    const struct tag_row tagged = {.template_id = snapshot->id,
                                   .tag = tag,
                                   .build_id = snapshot->build_id,
                                   .created_ms = snapshot->created_ms};

    *putting = (struct putting){.all = templates,
                                .entry = entry_from_row(&row),
                                .done = done ? done : on_written,
                                .ctx = ctx};
    (void)str_copy(putting->tag, sizeof(putting->tag), str_of(tag));
    put_row(templates, snapshot, tag);
    store_build_save(templates->store, &build, on_written, NULL);
    store_tag_save(templates->store, &tagged, on_put, putting);
}

void templates_remove(struct templates *templates, const char *id, store_done *done, void *ctx)
{
    struct entry *entry = entry_of(templates, id);
    struct err err;

    done = done ? done : on_written;
    if (!entry) {
        (void)err_set(&err, ENOENT, "template '%s' not found", id);
        done(ctx, -ENOENT, &err);
        return;
    }
    store_template_delete(templates->store, id, mirror_changed,
                          mirror_removes(&templates->mirror, &entry->as, done, ctx));
}

const char *templates_space(const struct templates *templates, const char *team_id)
{
    const struct owner *owner;

    LL_FOREACH (templates->owners, owner) {
        if (text_same(owner->id, team_id)) {
            return owner->space[0] ? owner->space : NULL;
        }
    }
    return NULL;
}

const struct template *templates_own(struct templates *templates, const char *team_id,
                                     const char *alias)
{
    const struct entry *entry = find_alias(templates, team_id, alias);

    return entry ? &entry->t : NULL;
}

/* ---- looking up ---- */

static const char *team_of_space(const struct templates *all, const char *space)
{
    const struct owner *owner;

    LL_FOREACH (all->owners, owner) {
        if (strcmp(owner->space, space) == 0) {
            return owner->id;
        }
    }
    return NULL;
}

static struct entry *find_named(struct templates *all, const char *team_id,
                                const struct template_name *name)
{
    if (name->space[0]) {
        const char *owner = team_of_space(all, name->space);

        return owner ? find_alias(all, owner, name->alias) : NULL;
    }
    struct entry *entry = entry_of(all, name->alias);
    if (!entry) {
        entry = find_alias(all, team_id, name->alias); /* a team's own hides a built-in one */
    }
    return entry ? entry : find_alias(all, NULL, name->alias);
}

static bool may_use(const struct template *t, const char *team_id)
{
    return !team_id || !t->team_id || t->is_public || text_same(t->team_id, team_id);
}

void templates_spawned(struct templates *templates, const char *id, int64_t now_ms)
{
    struct entry *entry = entry_of(templates, id);

    if (entry) {
        entry->t.spawns++;
        entry->t.last_spawned_ms = now_ms;
    }
}

static const struct entry *find(struct templates *all, const char *team_id, struct str name,
                                struct template_name *parsed, int *why)
{
    *why = template_name_parse(name, parsed);
    if (*why < 0) {
        return NULL;
    }
    const struct entry *entry = find_named(all, team_id, parsed);
    if (!entry) {
        *why = -ENOENT;
    } else if (!may_use(&entry->t, team_id)) {
        *why = -EACCES;
    }
    return *why == 0 ? entry : NULL;
}

const struct template *templates_find(struct templates *templates, const char *team_id,
                                      struct str name, int *why)
{
    struct template_name parsed;
    const struct entry *entry = find(templates, team_id, name, &parsed, why);

    if (!entry) {
        return NULL;
    }
    const struct tagged *tagged = entry_tagged(entry, parsed.tag);
    if (!tagged) {
        tagged = entry_built(entry, parsed.tag);
    }
    if (tagged && tagged->t.layers[0]) {
        return &tagged->t;
    }
    if (strcmp(parsed.tag, TEMPLATE_TAG_DEFAULT) == 0 && entry->t.layers[0]) {
        return &entry->t;
    }
    *why = -ENODATA;
    return NULL;
}

const struct template *templates_lookup(struct templates *templates, const char *team_id,
                                        struct str name, int *why)
{
    struct template_name parsed;
    const struct entry *entry = find(templates, team_id, name, &parsed, why);

    return entry ? &entry->t : NULL;
}

const struct template *templates_by_id(struct templates *templates, const char *id)
{
    const struct entry *entry = entry_of(templates, id);

    return entry ? &entry->t : NULL;
}

const struct template *templates_tagged(struct templates *templates, const char *id,
                                        const char *tag)
{
    const struct entry *entry = entry_of(templates, id);
    const struct tagged *tagged = entry ? entry_tagged(entry, tag) : NULL;
    return tagged ? &tagged->t : NULL;
}

/* ---- changing ---- */

const struct template *templates_add(struct templates *templates, const char *team_id,
                                     const char *alias, uint32_t cpu_count, uint32_t memory_mb,
                                     uint32_t disk_mb, store_done *done, void *ctx)
{
    struct entry *entry = entry_new(team_id, alias, cpu_count, memory_mb, disk_mb);

    entry_put(templates, entry);
    save(templates, entry, done, ctx);
    return &entry->t;
}

static struct entry *must_find(struct templates *all, const char *id)
{
    struct entry *entry = entry_of(all, id);

    assert(entry);
    return entry;
}

void templates_set_public(struct templates *templates, const char *id, bool is_public,
                          store_done *done, void *ctx)
{
    struct entry *entry = must_find(templates, id);
    struct tagged *tagged = NULL;

    entry->t.is_public = is_public;
    DL_FOREACH (entry->tags, tagged) {
        tagged->t.is_public = is_public;
    }
    save(templates, entry, done, ctx);
}

void templates_tag(struct templates *templates, const struct build_row *build, const char *tag,
                   store_done *done, void *ctx)
{
    struct entry *entry = must_find(templates, build->template_id);
    const struct tagged *tagged = entry_tag(entry, tag, clock_wall_ms(), build);
    const struct tag_row row = {.template_id = entry->t.id,
                                .tag = tagged->tag,
                                .build_id = tagged->t.build_id,
                                .created_ms = tagged->created_ms};

    if (strcmp(tag, TEMPLATE_TAG_DEFAULT) == 0) {
        save(templates, entry, NULL, NULL);
    }
    store_tag_save(templates->store, &row, done ? done : on_written, ctx);
}

int templates_untag(struct templates *templates, const char *id, const char *tag, store_done *done,
                    void *ctx)
{
    struct entry *entry = must_find(templates, id);
    struct tagged *tagged = entry_tagged(entry, tag);

    if (!tagged) {
        return -ENODATA;
    }
    store_tag_delete(templates->store, id, tag, done ? done : on_written, ctx);
    entry_untag(entry, tagged);
    return 0;
}

void templates_each_tag(struct templates *templates, const char *id,
                        void (*each)(void *ctx, const char *tag, const struct template *t,
                                     int64_t created_ms),
                        void *ctx)
{
    const struct entry *entry = must_find(templates, id);
    const struct tagged *tagged = NULL;

    DL_FOREACH (entry->tags, tagged) {
        each(ctx, tagged->tag, &tagged->t, tagged->created_ms);
    }
}

void templates_each(struct templates *templates, const char *team_id,
                    void (*each)(void *ctx, const struct template *t), void *ctx)
{
    struct mirrored *one = NULL, *next = NULL;

    HASH_ITER (hh, templates->mirror.first, one, next) {
        const struct entry *entry = entry_in(one);

        if (may_use(&entry->t, team_id)) {
            each(ctx, &entry->t);
        }
    }
}

void templates_each_built(struct templates *templates,
                          void (*each)(void *ctx, const struct template *t), void *ctx)
{
    struct mirrored *one = NULL, *next = NULL;
    const struct tagged *tagged = NULL;

    HASH_ITER (hh, templates->mirror.first, one, next) {
        const struct entry *entry = entry_in(one);

        each(ctx, &entry->t);
        DL_FOREACH (entry->tags, tagged) {
            each(ctx, &tagged->t);
        }
    }
}

size_t templates_count(const struct templates *templates)
{
    return HASH_COUNT(templates->mirror.first);
}
