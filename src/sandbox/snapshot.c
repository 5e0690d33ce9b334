/* snapshot.c - a running sandbox as a template of its team: saved, and on record as one. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "sandbox/internal.h"

struct snapshot {
    struct save save;
    char *alias; /* NULL: none */
    char template_id[ID_TEMPLATE_LEN + 1];
    char *replaced; /* what was saved of the one whose name it takes; NULL: none */
    uint64_t frozen_usec, bytes;
    sandbox_snapshotted *done;
    void *ctx;
};

static void snapshot_free(struct snapshot *snapshot)
{
    free(snapshot->alias);
    free(snapshot->replaced);
    free(snapshot);
}

static void on_recorded(void *ctx, int error, const struct err *err)
{
    struct snapshot *snapshot = ctx;
    struct sandbox *sb = snapshot->save.sb;
    struct sandbox_snapshot made = {.template_id = snapshot->template_id,
                                    .alias = snapshot->alias,
                                    .frozen_usec = snapshot->frozen_usec,
                                    .bytes = snapshot->bytes};

    if (error < 0) {
        kept_forget(sb->all, snapshot->save.name);
    } else {
        sb->all->snapshots++;
        if (snapshot->replaced) {
            kept_forget(sb->all, snapshot->replaced);
        }
        if (sb->state != SANDBOX_KILLING) {
            sandbox_save(sb, CHANGE_SNAPSHOTTED, NULL, NULL, NULL);
        }
        log_info("sandbox %s: saved as snapshot %s; it stood still for %.1f ms", sb->id,
                 snapshot->template_id, (double)snapshot->frozen_usec / 1000);
    }
    snapshot->done(snapshot->ctx, error, err, error < 0 ? NULL : &made);
    sandbox_release(sb);
    snapshot_free(snapshot);
}

/* A snapshot of that name is replaced, under its id: what started from it does not mind. */
static void take_name(struct snapshot *snapshot, const struct sandbox *sb)
{
    const struct template *old =
        snapshot->alias ? templates_own(sb->all->use.templates, sb->team_id, snapshot->alias)
                        : NULL;

    if (old) {
        (void)str_copy(snapshot->template_id, sizeof(snapshot->template_id), str_of(old->id));
        snapshot->replaced = xstrdup(old->saved);
    } else {
        id_alnum(snapshot->template_id, ID_TEMPLATE_LEN);
    }
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
    char none[] = "{}";

    id_uuid(build_id);
    take_name(snapshot, sb);
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
        .cpu_count = sb->cpu_count,
        .memory_mb = sb->memory_mb,
        .disk_mb = sb->disk_mb,
        .created_ms = clock_wall_ms(),
        .saved = snapshot->save.name,
        .saved_bytes = saved->memory_bytes,
        .saved_disk_bytes = saved->disk_bytes,
        .snapshot_of = sb->id,
    };
    templates_put_snapshot(sb->all->use.templates, &made, on_recorded, snapshot);
    free(env);
    free(user);
    free(workdir);
    free(start_cmd);
    free(ready_cmd);
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

void sandbox_snapshot(struct sandbox *sb, const char *alias, bool memory, sandbox_snapshotted *done,
                      void *ctx)
{
    struct snapshot *snapshot = xnew(struct snapshot);

    *snapshot = (struct snapshot){.done = done, .ctx = ctx};
    snapshot->alias = xstrdup(alias);
    snapshot->save.flags = KEEPER_SAVE_SYNC | (memory ? KEEPER_SAVE_MEMORY : 0);
    snapshot->save.done = on_saved;
    if (memory) {
        kept_name_new(snapshot->save.name);
    } else {
        kept_name_disk(snapshot->save.name);
    }
    save_add(sb, &snapshot->save);
}

/* ---- deleting ---- */

struct removal {
    struct sandboxes *all; /* counted */
    char saved[KEEPER_SAVED_BYTES];
    store_done *done;
    void *ctx;
};

static void on_removed(void *ctx, int error, const struct err *err)
{
    struct removal *removal = ctx;

    if (error == 0 && removal->saved[0]) {
        kept_forget(removal->all, removal->saved);
    }
    removal->done(removal->ctx, error, err);
    sandboxes_release(removal->all);
    free(removal);
}

void sandboxes_forget_snapshot(struct sandboxes *all, const struct template *snapshot,
                               store_done *done, void *ctx)
{
    struct removal *removal = xnew(struct removal);

    *removal = (struct removal){.all = all, .done = done, .ctx = ctx};
    (void)str_copy(removal->saved, sizeof(removal->saved),
                   str_of(snapshot->saved ? snapshot->saved : ""));
    all->refs++;
    templates_remove(all->use.templates, snapshot->id, on_removed, removal);
}
