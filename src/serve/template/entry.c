#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/id.h"
#include "lib/base/text.h"
#include "serve/template/internal.h"

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
        .start_context = xstrdup(row->start_context),
        .saved = xstrdup(row->saved),
        .saved_bytes = row->saved_bytes,
        .saved_disk_bytes = row->saved_disk_bytes,
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
        .start_context = t->start_context,
        .saved = t->saved,
        .saved_bytes = t->saved_bytes,
        .saved_disk_bytes = t->saved_disk_bytes,
        .snapshot_of = t->snapshot_of,
    };
}

static void template_fini(struct template *t)
{
    free(t->id);
    free(t->alias);
    free(t->team_id);
    free(t->build_id);
    free(t->layers);
    free(t->user);
    free(t->workdir);
    free(t->env_json);
    free(t->start_cmd);
    free(t->ready_cmd);
    free(t->start_context);
    free(t->saved);
    free(t->snapshot_of);
}

void entry_free(struct entry *entry)
{
    struct tagged *tagged = NULL;

    while ((tagged = entry->tags)) {
        entry_untag(entry, tagged);
    }
    template_fini(&entry->t);
    free(entry);
}

/* ---- entries, tags and their builds ---- */

struct entry *entry_new(const char *team_id, const char *alias, uint32_t cpu_count,
                        uint32_t memory_mb, uint32_t disk_mb)
{
    struct entry *entry = entry_builtin(alias);

    entry->t.team_id = xstrdup(team_id);
    entry->t.build_id = xstrdup("");
    entry->t.layers = xstrdup("");
    entry->t.cpu_count = cpu_count;
    entry->t.memory_mb = memory_mb;
    entry->t.disk_mb = disk_mb;
    entry->t.is_public = false;
    return entry;
}

void entry_take_build(struct template *t, const struct build_row *build)
{
    text_set(&t->build_id, build->id);
    text_set(&t->layers, build->layers);
    text_set(&t->user, build->user);
    text_set(&t->workdir, build->workdir);
    text_set(&t->env_json, build->env_json);
    text_set(&t->start_cmd, build->start_cmd);
    text_set(&t->ready_cmd, build->ready_cmd);
    text_set(&t->start_context, build->start_context);
    text_set(&t->saved, build->saved);
    t->saved_bytes = build->saved_bytes;
    text_set(&t->snapshot_of, build->snapshot_of);
    t->saved_disk_bytes = build->snapshot_of ? build->bytes : 0;
    t->cpu_count = build->cpu_count;
    t->memory_mb = build->memory_mb;
    t->disk_mb = build->disk_mb;
}

struct tagged *entry_tagged(const struct entry *entry, const char *tag)
{
    struct tagged *tagged = NULL;

    DL_FOREACH (entry->tags, tagged) {
        if (strcmp(tagged->tag, tag) == 0) {
            break;
        }
    }
    return tagged;
}

struct tagged *entry_built(const struct entry *entry, const char *build_id)
{
    struct tagged *tagged = NULL;

    DL_FOREACH (entry->tags, tagged) {
        if (strcmp(tagged->t.build_id, build_id) == 0) {
            break;
        }
    }
    return tagged;
}

struct tagged *entry_tag(struct entry *entry, const char *tag, int64_t created_ms,
                         const struct build_row *build)
{
    struct tagged *tagged = entry_tagged(entry, tag);

    if (!tagged) {
        tagged = xnew(struct tagged);
        (void)str_copy(tagged->tag, sizeof(tagged->tag), str_of(tag));
        tagged->t.id = xstrdup(entry->t.id);
        tagged->t.alias = xstrdup(entry->t.alias);
        tagged->t.team_id = xstrdup(entry->t.team_id);
        tagged->t.created_ms = entry->t.created_ms;
        tagged->t.is_public = entry->t.is_public;
        DL_APPEND(entry->tags, tagged);
    }
    tagged->created_ms = created_ms;
    entry_take_build(&tagged->t, build);
    if (strcmp(tag, TEMPLATE_TAG_DEFAULT) == 0) {
        entry_take_build(&entry->t, build);
    }
    return tagged;
}

void entry_untag(struct entry *entry, struct tagged *tagged)
{
    DL_DELETE(entry->tags, tagged);
    template_fini(&tagged->t);
    free(tagged);
}

/* ---- teams ---- */

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
