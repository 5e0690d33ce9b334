#include "template/template.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <uthash.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/log.h"
#include "template/name.h"

struct entry {
    struct template t;
    UT_hash_handle hh; /* by id */
};

struct team {
    char *id;
    char name[TEMPLATE_NAME_MAX + 1]; /* as a namespace: lower case */
    UT_hash_handle hh;                /* by id */
};

struct templates {
    struct store *store;
    struct entry *by_id;
    struct team *teams;
};

/* ---- entries ---- */

static char *copy(const char *text)
{
    char *out = text ? strdup(text) : NULL;

    if (text && !out) {
        abort();
    }
    return out;
}

static void replace(char **at, const char *text)
{
    free(*at);
    *at = copy(text);
}

static void entry_free(struct entry *entry)
{
    free(entry->t.id);
    free(entry->t.alias);
    free(entry->t.team_id);
    free(entry->t.build_id);
    free(entry->t.layers);
    free(entry->t.user);
    free(entry->t.workdir);
    free(entry->t.env_json);
    free(entry);
}

static void on_template(void *ctx, const struct template_row *row)
{
    struct templates *all = ctx;
    struct entry *entry = xnew(struct entry);

    entry->t = (struct template){
        .id = copy(row->id),
        .alias = copy(row->alias),
        .team_id = copy(row->team_id),
        .build_id = copy(row->build_id),
        .layers = copy(row->layers),
        .user = copy(row->user),
        .workdir = copy(row->workdir),
        .env_json = copy(row->env_json),
        .cpu_count = row->cpu_count,
        .memory_mb = row->memory_mb,
        .disk_mb = row->disk_mb,
        .created_ms = row->created_ms,
        .is_public = row->is_public,
    };
    assert(entry->t.id);
    HASH_ADD_KEYPTR(hh, all->by_id, entry->t.id, strlen(entry->t.id), entry);
}

static void on_saved(void *ctx, int error, const struct err *err)
{
    (void)ctx;
    if (error < 0) {
        log_error("template: %s", err->msg);
    }
}

static void entry_save(struct templates *all, const struct entry *entry)
{
    const struct template *t = &entry->t;
    struct template_row row = {
        .id = t->id,
        .alias = t->alias,
        .team_id = t->team_id,
        .build_id = t->build_id,
        .layers = t->layers,
        .user = t->user,
        .workdir = t->workdir,
        .env_json = t->env_json,
        .cpu_count = t->cpu_count,
        .memory_mb = t->memory_mb,
        .disk_mb = t->disk_mb,
        .created_ms = t->created_ms,
        .is_public = t->is_public,
    };

    store_template_save(all->store, &row, on_saved, NULL);
}

/* ---- the table ---- */

void templates_name_team(struct templates *templates, const char *team_id, const char *name)
{
    struct template_name parsed;
    struct team *team;

    HASH_FIND_STR(templates->teams, team_id, team);
    if (!team) {
        team = xnew(struct team);
        team->id = copy(team_id);
        HASH_ADD_KEYPTR(hh, templates->teams, team->id, strlen(team->id), team);
    }
    /* A team whose name cannot stand before a '/' has no namespace; its templates still have ids.
     */
    team->name[0] = '\0';
    if (template_name_parse(str_of(name), &parsed) == 0 && !parsed.space[0]) {
        (void)str_copy(team->name, sizeof(team->name), str_of(parsed.alias));
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
    r = store_load_teams(store, on_team, all, err);
    if (r == 0) {
        r = store_load_templates(store, on_template, all, err);
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
    struct entry *entry, *entry_next;
    struct team *team, *team_next;

    if (!templates) {
        return;
    }
    HASH_ITER (hh, templates->by_id, entry, entry_next) {
        HASH_DEL(templates->by_id, entry);
        entry_free(entry);
    }
    HASH_ITER (hh, templates->teams, team, team_next) {
        HASH_DEL(templates->teams, team);
        free(team->id);
        free(team);
    }
    free(templates);
}

static bool same(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

/* Of one owner: NULL is the built-in ones'. */
static struct entry *find_alias(struct templates *all, const char *team_id, const char *alias)
{
    struct entry *entry, *next;

    HASH_ITER (hh, all->by_id, entry, next) {
        if (same(entry->t.team_id, team_id) && same(entry->t.alias, alias)) {
            return entry;
        }
    }
    return NULL;
}

static struct entry *builtin_new(struct templates *all, const char *alias)
{
    struct entry *entry = xnew(struct entry);
    char id[ID_TEMPLATE_LEN + 1];

    id_alnum(id, ID_TEMPLATE_LEN);
    entry->t = (struct template){
        .id = copy(id),
        .alias = copy(alias),
        .user = copy("user"),
        .workdir = copy(""),
        .env_json = copy("{}"),
        .created_ms = clock_wall_ms(),
        .is_public = true,
    };
    HASH_ADD_KEYPTR(hh, all->by_id, entry->t.id, strlen(entry->t.id), entry);
    return entry;
}

void templates_put_builtin(struct templates *templates, const char *alias, const char *layers,
                           uint32_t cpu_count, uint32_t memory_mb, uint32_t disk_mb)
{
    struct entry *entry = find_alias(templates, NULL, alias);
    char build_id[ID_UUID_LEN + 1];

    if (!entry) {
        entry = builtin_new(templates, alias);
    }
    struct template *t = &entry->t;
    if (same(t->layers, layers) && t->cpu_count == cpu_count && t->memory_mb == memory_mb &&
        t->disk_mb == disk_mb) {
        return;
    }
    if (!same(t->layers, layers)) {
        id_uuid(build_id);
        replace(&t->build_id, build_id);
        replace(&t->layers, layers);
    }
    t->cpu_count = cpu_count;
    t->memory_mb = memory_mb;
    t->disk_mb = disk_mb;
    entry_save(templates, entry);
}

/* ---- looking up ---- */

static const char *team_by_name(const struct templates *all, const char *name)
{
    struct team *team, *next;

    HASH_ITER (hh, all->teams, team, next) {
        if (team->name[0] && strcmp(team->name, name) == 0) {
            return team->id;
        }
    }
    return NULL;
}

static struct entry *find_named(struct templates *all, const char *team_id,
                                const struct template_name *name)
{
    struct entry *entry;

    if (name->space[0]) {
        const char *owner = team_by_name(all, name->space);

        return owner ? find_alias(all, owner, name->alias) : NULL;
    }
    HASH_FIND_STR(all->by_id, name->alias, entry);
    if (!entry) {
        entry = find_alias(all, team_id, name->alias); /* a team's own hides a built-in one */
    }
    return entry ? entry : find_alias(all, NULL, name->alias);
}

static bool may_use(const struct template *t, const char *team_id)
{
    return !t->team_id || t->is_public || same(t->team_id, team_id);
}

const struct template *templates_find(struct templates *templates, const char *team_id,
                                      struct str name, int *why)
{
    struct template_name parsed;

    *why = template_name_parse(name, &parsed);
    if (*why < 0) {
        return NULL;
    }
    const struct entry *entry = find_named(templates, team_id, &parsed);
    if (!entry) {
        *why = -ENOENT;
        return NULL;
    }
    if (!may_use(&entry->t, team_id)) {
        *why = -EACCES;
        return NULL;
    }
    if (strcmp(parsed.tag, "default") != 0) {
        *why = -ENODATA;
        return NULL;
    }
    return &entry->t;
}

void templates_each(struct templates *templates, const char *team_id,
                    void (*each)(void *ctx, const struct template *t), void *ctx)
{
    struct entry *entry, *next;

    HASH_ITER (hh, templates->by_id, entry, next) {
        if (may_use(&entry->t, team_id)) {
            each(ctx, &entry->t);
        }
    }
}

size_t templates_count(const struct templates *templates)
{
    return HASH_COUNT(templates->by_id);
}
