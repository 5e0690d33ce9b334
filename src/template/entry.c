#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/id.h"
#include "template/internal.h"

static void replace(char **at, const char *text)
{
    free(*at);
    *at = xstrdup(text);
}

struct entry *entry_from_row(const struct template_row *row)
{
    struct entry *entry = xnew(struct entry);

    entry->t = (struct template){
        .id = xstrdup(row->id),
        .alias = xstrdup(row->alias),
        .team_id = xstrdup(row->team_id),
        .build_id = xstrdup(row->build_id),
        .layers = xstrdup(row->layers),
        .user = xstrdup(row->user),
        .workdir = xstrdup(row->workdir),
        .env_json = xstrdup(row->env_json),
        .cpu_count = row->cpu_count,
        .memory_mb = row->memory_mb,
        .disk_mb = row->disk_mb,
        .created_ms = row->created_ms,
        .is_public = row->is_public,
        .start_cmd = xstrdup(row->start_cmd),
        .ready_cmd = xstrdup(row->ready_cmd),
        .saved = xstrdup(row->saved),
    };
    return entry;
}

struct entry *entry_builtin(const char *alias)
{
    struct entry *entry = xnew(struct entry);
    char id[ID_TEMPLATE_LEN + 1];

    id_alnum(id, ID_TEMPLATE_LEN);
    entry->t = (struct template){
        .id = xstrdup(id),
        .alias = xstrdup(alias),
        .created_ms = clock_wall_ms(),
        .is_public = true,
    };
    return entry;
}

struct template_row entry_row(const struct entry *entry)
{
    const struct template *t = &entry->t;

    return (struct template_row){
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
        .start_cmd = t->start_cmd,
        .ready_cmd = t->ready_cmd,
        .saved = t->saved,
    };
}

bool text_same(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

static const char *or_text(const char *text, const char *otherwise)
{
    return text ? text : otherwise;
}

/* What a sandbox begins with; how much it may use is no part of it. */
static bool begins_as(const struct template *t, const struct template_builtin *what)
{
    return text_same(t->layers, what->layers) && text_same(t->start_cmd, what->start_cmd) &&
           text_same(t->ready_cmd, what->ready_cmd) &&
           text_same(t->user, or_text(what->user, "user")) &&
           text_same(t->workdir, or_text(what->workdir, "")) &&
           text_same(t->env_json, or_text(what->env_json, "{}"));
}

bool entry_is(const struct entry *entry, const struct template_builtin *what)
{
    const struct template *t = &entry->t;

    return begins_as(t, what) && t->cpu_count == what->cpu_count &&
           t->memory_mb == what->memory_mb && t->disk_mb == what->disk_mb;
}

void entry_become(struct entry *entry, const struct template_builtin *what)
{
    struct template *t = &entry->t;
    char build_id[ID_UUID_LEN + 1];

    if (!begins_as(t, what)) {
        id_uuid(build_id);
        replace(&t->build_id, build_id);
        replace(&t->layers, what->layers);
        replace(&t->user, or_text(what->user, "user"));
        replace(&t->workdir, or_text(what->workdir, ""));
        replace(&t->env_json, or_text(what->env_json, "{}"));
        replace(&t->start_cmd, what->start_cmd);
        replace(&t->ready_cmd, what->ready_cmd);
    }
    /* What was saved had the old limits, too. */
    replace(&t->saved, NULL);
    t->cpu_count = what->cpu_count;
    t->memory_mb = what->memory_mb;
    t->disk_mb = what->disk_mb;
}

void entry_free(struct entry *entry)
{
    free(entry->t.id);
    free(entry->t.alias);
    free(entry->t.team_id);
    free(entry->t.build_id);
    free(entry->t.layers);
    free(entry->t.user);
    free(entry->t.workdir);
    free(entry->t.env_json);
    free(entry->t.start_cmd);
    free(entry->t.ready_cmd);
    free(entry->t.saved);
    free(entry);
}

struct owner *owner_new(const char *id)
{
    struct owner *owner = xnew(struct owner);

    owner->id = xstrdup(id);
    return owner;
}

void owner_free(struct owner *owner)
{
    free(owner->id);
    free(owner);
}

struct awaited *awaited_new(const char *alias, const char *sentence)
{
    struct awaited *awaited = xnew(struct awaited);

    awaited->alias = xstrdup(alias);
    awaited->sentence = xstrdup(sentence);
    return awaited;
}

void awaited_free(struct awaited *awaited)
{
    free(awaited->alias);
    free(awaited->sentence);
    free(awaited);
}
