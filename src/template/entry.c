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
        .saved_bytes = row->saved_bytes,
        .snapshot_of = xstrdup(row->snapshot_of),
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
        .user = xstrdup("user"),
        .workdir = xstrdup(""),
        .env_json = xstrdup("{}"),
        .created_ms = clock_wall_ms(),
        .is_public = true,
    };
    return entry;
}

struct template_row template_row(const struct template *t)
{
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
        .saved_bytes = t->saved_bytes,
        .snapshot_of = t->snapshot_of,
    };
}

void entry_set_layers(struct entry *entry, const char *layers)
{
    char build_id[ID_UUID_LEN + 1];

    id_uuid(build_id);
    replace(&entry->t.build_id, build_id);
    replace(&entry->t.layers, layers);
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
    free(entry->t.snapshot_of);
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
