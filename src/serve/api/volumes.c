/* volumes.c - /volumes, and their content at /volumecontent. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "serve/api/internal.h"

static json_t *volume_json(const struct volume *volume)
{
    json_t *out = json_object();

    (void)json_object_set_new(out, "volumeID", json_string(volume->id));
    (void)json_object_set_new(out, "name", json_string(volume->name));
    return out;
}

static json_t *volume_json_with_token(const struct api *api, const struct volume *volume)
{
    char token[VOLUME_TOKEN_BYTES_MAX];
    json_t *out = volume_json(volume);

    volume_token(volume, clock_wall_ms() / 1000, token);
    (void)json_object_set_new(out, "token", json_string(token));
    if (api->options.domain) {
        (void)json_object_set_new(out, "domain", json_string(api->options.domain));
    }
    return out;
}

static const struct volume *call_volume(struct call *call)
{
    const struct volume *volume =
        volumes_find(call->api->options.volumes, call->team->id, call->param);

    if (!volume) {
        call_fail(call, 404, "Volume not found");
    }
    return volume;
}

static void list_add(void *ctx, const struct volume *volume)
{
    (void)json_array_append_new(ctx, volume_json(volume));
}

void handle_volumes_list(struct call *call, const json_t *body)
{
    json_t *list = json_array();

    (void)body;
    volumes_each(call->api->options.volumes, call->team->id, list_add, list);
    call_json(call, 200, list);
}

struct making {
    struct call *call;
    struct quota_hold *hold;
};

static void on_made(void *ctx, const struct volume *volume, int error, const struct err *err)
{
    struct making *making = ctx;
    struct call *call = making->call;

    quota_hold_end(call->api, making->hold);
    free(making);
    if (volume) {
        maker_note(call, volume->id);
        call_json(call, 201, volume_json_with_token(call->api, volume));
    } else if (error == -EEXIST) {
        call_fail(call, 400, "%s", err->msg);
    } else {
        call_fail_err(call, error, err);
    }
}

void handle_volumes_create(struct call *call, const json_t *body)
{
    const char *name = NULL;
    struct err err;
    int r = field_string(body, "name", &name, &err);

    if (r == 0 && !name) {
        r = err_set(&err, EINVAL, "validation error: name is required");
    }
    if (r < 0) {
        call_fail_err(call, r, &err);
        return;
    }
    struct volumes *volumes = call->api->options.volumes;
    const struct amounts more = {.of = {[LIMIT_DISK_MB] = volumes_size_mb(volumes)}};
    if (call_quota(call, &more)) {
        struct making *making = xnew(struct making);

        *making = (struct making){call, quota_hold(call, &more)};
        volume_create(volumes, call->team->id, name, on_made, making);
    }
}

void handle_volumes_get(struct call *call, const json_t *body)
{
    const struct volume *volume = call_volume(call);

    (void)body;
    if (volume) {
        call_json(call, 200,
                  call->read_only ? volume_json(volume)
                                  : volume_json_with_token(call->api, volume));
    }
}

static void on_deleted(void *ctx, int error, const struct err *err)
{
    if (error < 0) {
        call_fail_err(ctx, error, err);
    } else {
        call_empty(ctx, 204);
    }
}

void handle_volumes_delete(struct call *call, const json_t *body)
{
    const struct volume *volume = call_volume(call);

    (void)body;
    if (volume) {
        maker_forget(call->api, volume->id);
        volume_delete(call->api->options.volumes, volume, on_deleted, call);
    }
}

/* ---- mounts of a create ---- */

/* Paths that the jail itself uses cannot be mount points of volumes. */
static bool is_taken_by_system(const char *path)
{
    static const char *const taken[] = {"/proc", "/sys", "/dev", "/run"};

    for (size_t i = 0; i < countof(taken); i++) {
        size_t len = strlen(taken[i]);
        if (strncmp(path, taken[i], len) == 0 && (path[len] == '/' || !path[len])) {
            return true;
        }
    }
    return false;
}

static bool is_clean(const char *path)
{
    struct str rest = str_skip(str_of(path), 1), part;

    while (str_split(&rest, '/', &part)) {
        if (part.len == 0 || str_eq(part, STR(".")) || str_eq(part, STR(".."))) {
            return false;
        }
    }
    return true;
}

static bool lies_in(const char *path, const char *other)
{
    size_t len = strlen(other);

    return strncmp(path, other, len) == 0 && (path[len] == '/' || !path[len]);
}

/* NULL when a volume may be mounted at mounts[index].path. */
static const char *path_wrong(const json_t *mounts, size_t index)
{
    const char *path = json_string_value(json_object_get(json_array_get(mounts, index), "path"));

    if (!path[0]) {
        return "path cannot be empty";
    }
    if (path[0] != '/') {
        return "path must be absolute";
    }
    if (!path[1] || is_taken_by_system(path)) {
        return "path is the system's own";
    }
    if (!is_clean(path)) {
        return "path must not contain any '.' or '..' components";
    }
    if (strlen(path) >= KEEPER_VOLUME_PATH_BYTES) {
        return "path is too long";
    }
    for (size_t i = 0; i < index; i++) {
        const char *other = json_string_value(json_object_get(json_array_get(mounts, i), "path"));
        if (lies_in(path, other) || lies_in(other, path)) {
            return strcmp(path, other) == 0 ? "path is already used"
                                            : "path lies in that of another mount";
        }
    }
    return NULL;
}

int volumes_resolve(const struct call *call, json_t *options, struct err *err)
{
    const json_t *mounts = json_object_get(options, "volumeMounts");

    for (size_t i = 0; i < json_array_size(mounts); i++) {
        json_t *mount = json_array_get(mounts, i);
        const char *name = json_string_value(json_object_get(mount, "name"));
        const struct volume *volume =
            volumes_named(call->api->options.volumes, call->team->id, name);
        const char *wrong = path_wrong(mounts, i);

        if (!volume) {
            return err_set(err, EINVAL,
                           "invalid mounts:\n\t- volume mount #%zu: volume '%.*s' not found", i,
                           VOLUME_NAME_BYTES_MAX, name);
        }
        if (wrong) {
            return err_set(err, EINVAL, "invalid mounts:\n\t- volume mount #%zu: %s", i, wrong);
        }
        (void)json_object_set_new(mount, "volumeID", json_string(volume->id));
    }
    return 0;
}

/* ---- content ---- */

bool stream_volume(struct call *call)
{
    figures_note(call, 200);
    volume_content(call->api->options.volumes, call->volume, call->ex);
    call_free(call);
    return true;
}
