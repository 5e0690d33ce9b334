#include "serve/volume/volume.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "serve/volume/internal.h"

/* ---- the table ---- */

static struct entry *entry_add(struct volumes *volumes, const struct volume_row *row)
{
    struct entry *entry = xnew(struct entry);
    struct volume *volume = &entry->volume;

    if (!str_copy(volume->id, sizeof(volume->id), str_of(row->id)) ||
        !str_copy(volume->team_id, sizeof(volume->team_id), str_of(row->team_id)) ||
        !str_copy(volume->name, sizeof(volume->name), str_of(row->name)) ||
        !str_copy(volume->secret, sizeof(volume->secret), str_of(row->secret))) {
        log_error("volume %s: its record is damaged", row->id);
        free(entry);
        return NULL;
    }
    volume->size_mb = row->size_mb;
    volume->created_ms = row->created_ms;
    entry->all = volumes;
    entry->as = (struct mirrored){.id = volume->id,
                                  .team_id = volume->team_id,
                                  .name = volume->name,
                                  .removed = row->removed};
    mirror_put(&volumes->mirror, &entry->as);
    return entry;
}

static void entry_free(struct mirrored *one)
{
    struct entry *entry = entry_in(one);

    content_jail_close(entry);
    explicit_bzero(entry->volume.secret, sizeof(entry->volume.secret));
    free(entry);
}

static struct volume_row row_of(const struct entry *entry, bool removed)
{
    return (struct volume_row){.id = entry->volume.id,
                               .team_id = entry->volume.team_id,
                               .name = entry->volume.name,
                               .secret = entry->volume.secret,
                               .size_mb = entry->volume.size_mb,
                               .removed = removed,
                               .created_ms = entry->volume.created_ms};
}

static const struct volume *volume_in(struct mirrored *one)
{
    return one ? &entry_in(one)->volume : NULL;
}

const struct volume *volumes_find(const struct volumes *volumes, const char *team_id,
                                  const char *id)
{
    return volume_in(mirror_of_team(&volumes->mirror, team_id, id));
}

const struct volume *volumes_named(const struct volumes *volumes, const char *team_id,
                                   const char *name)
{
    return volume_in(mirror_named(&volumes->mirror, team_id, str_of(name)));
}

void volumes_each(const struct volumes *volumes, const char *team_id,
                  void (*each)(void *ctx, const struct volume *volume), void *ctx)
{
    struct mirrored *one = NULL;

    while ((one = mirror_next(&volumes->mirror, team_id, one))) {
        each(ctx, volume_in(one));
    }
}

/* ---- removing ---- */

struct search {
    const char *id;
    bool found;
};

static bool look(void *ctx, struct sandbox *sb)
{
    struct search *search = ctx;
    const json_t *mounts = json_object_get(sandbox_info(sb).options, "volumeMounts");

    for (size_t i = 0; i < json_array_size(mounts) && !search->found; i++) {
        const char *id = json_string_value(json_object_get(json_array_get(mounts, i), "volumeID"));
        search->found = id && strcmp(id, search->id) == 0;
    }
    return !search->found;
}

static bool is_used(const struct entry *entry)
{
    struct search search = {.id = entry->volume.id};

    sandboxes_each(entry->all->use.sandboxes, false, NULL, look, &search);
    return search.found;
}

struct removal {
    struct volumes *volumes; /* counted */
    char id[ID_UUID_LEN + 1];
};

static void reap_later(struct volumes *volumes);

static void on_gone(void *ctx, const struct keeper_answer *answer, int fds[KEEPER_FDS_MAX])
{
    struct removal *removal = ctx;
    struct volumes *volumes = removal->volumes;
    struct entry *entry = entry_of(volumes, removal->id);

    (void)fds;
    if (entry && answer->status == 0 && !volumes->closed) {
        store_volume_delete(volumes->use.store, removal->id, NULL, NULL);
        mirror_drop(&volumes->mirror, &entry->as);
    } else if (entry) {
        entry->asked = false;
        if (answer->status != -EBUSY && answer->status != -ENOTCONN) {
            log_warn("volume %s: %s", removal->id, answer->err.msg);
        }
        reap_later(volumes);
    }
    free(removal);
    volumes_release(volumes);
}

static void reap(struct entry *entry)
{
    struct keeper_request req = {.op = KEEPER_VOLUME_REMOVE};
    struct removal *removal = xnew(struct removal);

    entry->asked = true;
    removal->volumes = entry->all;
    entry->all->refs++;
    memcpy(removal->id, entry->volume.id, sizeof(removal->id));
    memcpy(req.volume.name, entry->volume.id, sizeof(entry->volume.id));
    keeper_client_ask(entry->all->use.keeper, &req, on_gone, removal);
}

static void on_reaper(uv_timer_t *timer)
{
    struct volumes *volumes = timer->data;
    struct mirrored *one = NULL, *next = NULL;

    HASH_ITER (hh, volumes->mirror.first, one, next) {
        struct entry *entry = entry_in(one);

        if (!one->removed || entry->asked) {
            continue;
        }
        if (is_used(entry)) {
            reap_later(volumes);
        } else {
            reap(entry);
        }
    }
}

static void reap_later(struct volumes *volumes)
{
    if (!volumes->closed) {
        (void)uv_timer_start(&volumes->reaper, on_reaper, VOLUME_REMOVE_RETRY_MS, 0);
    }
}

/* A change that is on its way to the disk. */
struct change {
    struct volumes *volumes; /* counted */
    char id[ID_UUID_LEN + 1];
    volume_made *made;
    store_done *deleted;
    void *ctx;
};

static struct change *change_new(struct entry *entry, void *ctx)
{
    struct change *change = xnew(struct change);

    change->volumes = entry->all;
    change->ctx = ctx;
    memcpy(change->id, entry->volume.id, sizeof(change->id));
    entry->all->refs++;
    return change;
}

static void change_free(struct change *change)
{
    volumes_release(change->volumes);
    free(change);
}

static void on_delete_saved(void *ctx, int error, const struct err *err)
{
    struct change *change = ctx;
    struct entry *entry = entry_of(change->volumes, change->id);

    if (error < 0 && entry) {
        entry->as.removed = false; /* it is still stored, so it is found again */
    } else if (!change->volumes->closed) {
        (void)uv_timer_start(&change->volumes->reaper, on_reaper, 0, 0);
    }
    change->deleted(change->ctx, error, err);
    change_free(change);
}

void volume_delete(struct volumes *volumes, const struct volume *volume, store_done *done,
                   void *ctx)
{
    struct entry *entry = entry_known(volumes, volume->id);
    struct change *change = change_new(entry, ctx);
    struct volume_row row = row_of(entry, true);

    change->deleted = done;
    entry->as.removed = true;
    content_jail_close(entry);
    store_volume_save(volumes->use.store, &row, on_delete_saved, change);
}

/* ---- making ---- */

uint32_t volumes_size_mb(const struct volumes *volumes)
{
    return volumes->use.size_mb;
}

bool volume_name_ok(const char *name)
{
    size_t len = strlen(name);

    return len > 0 && len <= VOLUME_NAME_BYTES_MAX &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == len;
}

static void make_fail(struct change *change, int error, const struct err *err)
{
    struct entry *entry = entry_of(change->volumes, change->id);

    if (entry) {
        entry->asked = false;
    }
    change->made(change->ctx, NULL, error, err);
    reap_later(change->volumes);
    change_free(change);
}

static void on_made_saved(void *ctx, int error, const struct err *err)
{
    struct change *change = ctx;
    struct entry *entry = entry_known(change->volumes, change->id);

    if (error < 0) {
        make_fail(change, error == -EEXIST ? -EIO : error, err);
        return;
    }
    entry->as.removed = entry->asked = false;
    change->made(change->ctx, &entry->volume, 0, err);
    change_free(change);
}

/* Two creates of the same name may both have come this far: the first one wins. */
static void on_made(void *ctx, const struct keeper_answer *answer, int fds[KEEPER_FDS_MAX])
{
    struct change *change = ctx;
    struct entry *entry = entry_known(change->volumes, change->id);
    struct err err;

    (void)fds;
    if (answer->status < 0) {
        make_fail(change, answer->status, &answer->err);
    } else if (volumes_named(change->volumes, entry->volume.team_id, entry->volume.name)) {
        (void)err_set(&err, EEXIST, "Volume with name '%s' already exists", entry->volume.name);
        make_fail(change, -EEXIST, &err);
    } else {
        struct volume_row row = row_of(entry, false);
        store_volume_save(change->volumes->use.store, &row, on_made_saved, change);
    }
}

static void on_make_noted(void *ctx, int error, const struct err *err)
{
    struct change *change = ctx;
    struct entry *entry = entry_known(change->volumes, change->id);
    struct keeper_request req = {.op = KEEPER_VOLUME_MAKE};

    if (error < 0) {
        mirror_drop(&change->volumes->mirror, &entry->as);
        make_fail(change, error, err);
        return;
    }
    memcpy(req.volume.name, entry->volume.id, sizeof(entry->volume.id));
    req.volume.size_mb = entry->volume.size_mb;
    keeper_client_ask(change->volumes->use.keeper, &req, on_made, change);
}

void volume_create(struct volumes *volumes, const char *team_id, const char *name,
                   volume_made *done, void *ctx)
{
    char id[ID_UUID_LEN + 1], secret[2 * VOLUME_SECRET_BYTES + 1];
    struct volume_row row = {.id = id,
                             .team_id = team_id,
                             .name = name,
                             .secret = secret,
                             .size_mb = volumes->use.size_mb,
                             .removed = true,
                             .created_ms = clock_wall_ms()};
    struct err err;
    int r = 0;

    if (!volume_name_ok(name)) {
        r = err_set(&err, EINVAL, "Invalid volume name");
    } else if (volumes_named(volumes, team_id, name)) {
        r = err_set(&err, EEXIST, "Volume with name '%s' already exists", name);
    } else if (mirror_count(&volumes->mirror, team_id) >= VOLUMES_PER_TEAM_MAX) {
        r = err_set(&err, ENOSPC, "the team has %d volumes, which is the most it can have",
                    VOLUMES_PER_TEAM_MAX);
    }
    if (r < 0) {
        done(ctx, NULL, r, &err);
        return;
    }
    id_uuid(id);
    id_hex(secret, VOLUME_SECRET_BYTES);
    struct entry *entry = entry_add(volumes, &row);
    assert(entry); /* all of it has been checked */
    struct change *change = change_new(entry, ctx);
    entry->asked = true; /* the reaper leaves it alone until it is made */
    change->made = done;
    store_volume_save(volumes->use.store, &row, on_make_noted, change);
}

/* ---- life ---- */

static void on_row(void *ctx, const struct volume_row *row)
{
    (void)entry_add(ctx, row);
}

int volumes_new(const struct volumes_options *options, struct volumes **out, struct err *err)
{
    struct volumes *volumes = xnew(struct volumes);

    volumes->use = *options;
    volumes->refs = 1;
    volumes->mirror.free = entry_free;
    if (uv_timer_init(options->loop, &volumes->reaper) < 0) {
        abort();
    }
    volumes->reaper.data = volumes;
    int r = store_load_volumes(options->store, on_row, volumes, err);
    if (r < 0) {
        volumes_free(volumes);
        return r;
    }
    reap_later(volumes);
    *out = volumes;
    return 0;
}

static void on_closed(uv_handle_t *handle)
{
    volumes_release(handle->data);
}

void volumes_release(struct volumes *volumes)
{
    if (--volumes->refs > 0) {
        return;
    }
    mirror_fini(&volumes->mirror);
    free(volumes);
}

void volumes_free(struct volumes *volumes)
{
    if (!volumes) {
        return;
    }
    volumes->closed = true;
    for (struct mirrored *one = volumes->mirror.first; one; one = one->hh.next) {
        content_jail_close(entry_in(one));
    }
    uv_close((uv_handle_t *)&volumes->reaper, on_closed);
}
