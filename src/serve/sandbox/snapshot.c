/* snapshot.c - a running sandbox as a template of its team: saved, and on record as one. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "serve/sandbox/internal.h"
#include "serve/template/name.h"

struct snapshot {
    struct save save;
    char *alias; /* NULL: none */
    char *tag;
    char template_id[ID_TEMPLATE_LEN + 1];
    char *replaced; /* the save of the snapshot whose tag it takes; NULL: none */
    uint64_t frozen_usec, bytes;
    sandbox_snapshotted *done;
    void *ctx;
};

static void snapshot_free(struct snapshot *snapshot)
{
    free(snapshot->alias);
    free(snapshot->tag);
    free(snapshot->replaced);
    free(snapshot);
}

static void on_recorded(void *ctx, int error, const struct err *err)
{
    struct snapshot *snapshot = ctx;
    struct sandbox *sb = snapshot->save.sb;
    struct build_row build = {0};
    struct sandbox_snapshot made = {.template_id = snapshot->template_id,
                                    .alias = snapshot->alias,
                                    .tag = snapshot->tag,
                                    .build = &build,
                                    .frozen_usec = snapshot->frozen_usec,
                                    .bytes = snapshot->bytes};

    if (error < 0) {
        log_error("sandbox %s: record its snapshot: %s", sb->id, err->msg);
        saved_forget(sb->all, snapshot->save.name);
    } else {
        build = template_snapshot_build(
            templates_tagged(sb->all->use.templates, snapshot->template_id, snapshot->tag),
            snapshot->tag);
        sb->all->snapshots++;
        if (snapshot->replaced) {
            sandboxes_forget_saved(sb->all, snapshot->replaced);
        }
        if (sb->state != SANDBOX_KILLING) {
            sandbox_record(sb, CHANGE_SNAPSHOTTED, NULL, NULL, NULL);
        }
        log_info("sandbox %s: saved as snapshot %s; it stood still for %.1f ms", sb->id,
                 snapshot->template_id, (double)snapshot->frozen_usec / 1000);
    }
    snapshot->done(snapshot->ctx, error, err, error < 0 ? NULL : &made);
    sandbox_release(sb);
    snapshot_free(snapshot);
}

/* The snapshot that the tag names now. A snapshot of an older daemon is only the row of its
 * template. */
static const struct template *named_now(const char *tag, struct templates *all,
                                        const struct template *own)
{
    const struct template *tagged = templates_tagged(all, own->id, tag);

    return tagged || strcmp(tag, TEMPLATE_TAG_DEFAULT) != 0 ? tagged : own;
}

/* A snapshot of that name is replaced and keeps its id: sandboxes started from it are not affected.
 * Saves of builds are removed by the builds. */
char *snapshot_take_name(struct templates *all, const char *team_id, const char *alias,
                         const char *tag, char template_id[ID_TEMPLATE_LEN + 1])
{
    const struct template *own = alias ? templates_own(all, team_id, alias) : NULL;

    if (!own) {
        id_alnum(template_id, ID_TEMPLATE_LEN);
        return NULL;
    }
    const struct template *old = named_now(tag, all, own);
    (void)str_copy(template_id, ID_TEMPLATE_LEN + 1, str_of(own->id));
    return old && old->snapshot_of ? xstrdup(old->saved) : NULL;
}

static char *text_of(const json_t *object, const char *name, const char *otherwise)
{
    const char *text = json_string_value(json_object_get(object, name));

    return xstrdup(text ? text : otherwise);
}

/* Its own environment comes along: it is in the memory of its processes anyway. */
static void record(struct snapshot *snapshot, struct sandbox *sb, const struct keeper_saved *saved)
{
    char build_id[ID_UUID_LEN + 1];
    char *env = json_dumps(json_object_get(sb->init, "envVars"), JSON_COMPACT);
    char *user = text_of(sb->init, "defaultUser", "user");
    char *workdir = text_of(sb->init, "defaultWorkdir", "");
    char *start_cmd = text_of(sb->options, "startCmd", NULL);
    char *ready_cmd = text_of(sb->options, "readyCmd", NULL);
    char *start_context = json_dumps(json_object_get(sb->options, "startContext"), JSON_COMPACT);
    char none[] = "{}";

    id_uuid(build_id);
    snapshot->replaced = snapshot_take_name(sb->all->use.templates, sb->team_id, snapshot->alias,
                                            snapshot->tag, snapshot->template_id);
    const struct template made = {
        .id = snapshot->template_id,
        .alias = snapshot->alias,
        .team_id = sb->team_id,
        .build_id = build_id,
        .layers = sb->layers,
        .user = user,
        .workdir = workdir,
        .env_json = env ? env : none,
        .start_cmd = start_cmd,
        .ready_cmd = ready_cmd,
        .start_context = start_context,
        .cpu_count = sb->cpu_count,
        .memory_mb = sb->memory_mb,
        .disk_mb = sb->disk_mb,
        .created_ms = clock_wall_ms(),
        .saved = snapshot->save.name,
        .saved_bytes = saved->memory_bytes,
        .saved_disk_bytes = saved->disk_bytes,
        .snapshot_of = sb->id,
    };
    templates_put_snapshot(sb->all->use.templates, &made, snapshot->tag, on_recorded, snapshot);
    free(env);
    free(user);
    free(workdir);
    free(start_cmd);
    free(ready_cmd);
    free(start_context);
}

static void on_saved(struct save *save, int error, const struct err *err,
                     const struct keeper_saved *saved)
{
    struct snapshot *snapshot = container_of(save, struct snapshot, save);
    struct sandbox *sb = save->sb;

    if (error < 0) {
        snapshot->done(snapshot->ctx, error, err, NULL);
        snapshot_free(snapshot);
        return;
    }
    snapshot->frozen_usec = saved->frozen_usec;
    snapshot->bytes = saved->memory_bytes + saved->disk_bytes;
    sandbox_hold(sb);
    record(snapshot, sb, saved);
}

void sandbox_snapshot(struct sandbox *sb, const char *alias, const char *tag, bool memory,
                      sandbox_snapshotted *done, void *ctx)
{
    struct snapshot *snapshot = xnew(struct snapshot);

    *snapshot = (struct snapshot){.done = done, .ctx = ctx};
    snapshot->alias = xstrdup(alias);
    snapshot->tag = xstrdup(tag);
    snapshot->save.flags = KEEPER_SAVE_SYNC | (memory ? KEEPER_SAVE_MEMORY : 0);
    snapshot->save.done = on_saved;
    if (memory) {
        saved_name_new(snapshot->save.name);
    } else {
        saved_name_disk(snapshot->save.name);
    }
    save_add(sb, &snapshot->save);
}

/* ---- deleting ---- */

struct removal {
    struct sandboxes *all; /* counted */
    json_t *saved;         /* of all its snapshots: names, each once */
    store_done *done;
    void *ctx;
};

static void on_removed(void *ctx, int error, const struct err *err)
{
    struct removal *removal = ctx;
    const char *name = NULL;
    json_t *unused = NULL;

    json_object_foreach (removal->saved, name, unused) {
        if (error == 0) {
            sandboxes_forget_saved(removal->all, name);
        }
    }
    removal->done(removal->ctx, error, err);
    sandboxes_release(removal->all);
    json_decref(removal->saved);
    free(removal);
}

static void add_saved(void *ctx, const char *tag, const struct template *t, int64_t created_ms)
{
    (void)tag, (void)created_ms;
    if (t->snapshot_of && t->saved) {
        (void)json_object_set_new(ctx, t->saved, json_true());
    }
}

void sandboxes_forget_template(struct sandboxes *all, const struct template *template,
                               store_done *done, void *ctx)
{
    struct removal *removal = xnew(struct removal);

    *removal = (struct removal){.all = all, .saved = json_object(), .done = done, .ctx = ctx};
    add_saved(removal->saved, NULL, template, 0);
    templates_each_tag(all->use.templates, template->id, add_saved, removal->saved);
    all->refs++;
    templates_remove(all->use.templates, template->id, on_removed, removal);
}
