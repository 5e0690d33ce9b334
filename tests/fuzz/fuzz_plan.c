/* A keeper's request as raw bytes. What passes the check must be usable as it is: names that are
 * names, numbers within their bounds. */
#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "wire/keeper.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void name_assert(const char *name, size_t size)
{
    size_t len = strnlen(name, size);

    assert(len > 0 && len < size);
    assert(!memchr(name, '/', len) && name[0] != '.' && name[0] != '-');
}

static void saved_assert(const char *name)
{
    name_assert(name, KEEPER_SAVED_BYTES);
    assert(strncmp(name, KEEPER_SAVED_PREFIX, strlen(KEEPER_SAVED_PREFIX)) == 0);
}

/* Absolute, and of names alone. */
static void mount_assert(const char *path)
{
    assert(strnlen(path, KEEPER_VOLUME_PATH_BYTES) < KEEPER_VOLUME_PATH_BYTES);
    assert(path[0] == '/' && path[1]);
    assert(!strstr(path, "//") && !strstr(path, "/./") && !strstr(path, "/../"));
}

static void plan_assert(const struct keeper_plan *plan, bool restore)
{
    assert(plan->uid_slot < KEEPER_UID_SLOTS && plan->network <= 1);
    assert(plan->layers_n <= KEEPER_LAYERS_MAX);
    assert(plan->memory_mb >= KEEPER_MEMORY_MB_MIN && plan->memory_mb <= KEEPER_MEMORY_MB_MAX);
    assert(plan->cpu_millis >= KEEPER_CPU_MILLIS_MIN && plan->cpu_millis <= KEEPER_CPU_MILLIS_MAX);
    assert(plan->disk_mb >= KEEPER_DISK_MB_MIN && plan->disk_mb <= KEEPER_DISK_MB_MAX);
    assert(plan->pids >= KEEPER_PIDS_MIN && plan->pids <= KEEPER_PIDS_MAX);
    for (uint32_t i = 0; i < plan->layers_n; i++) {
        name_assert(plan->layers[i], KEEPER_LAYER_BYTES);
    }
    name_assert(plan->hostname, KEEPER_HOSTNAME_BYTES);
    assert(plan->keeps_disk <= 1);
    assert(plan->volumes_n <= KEEPER_VOLUMES_MAX);
    for (uint32_t i = 0; i < plan->volumes_n; i++) {
        name_assert(plan->volumes[i].volume, KEEPER_VOLUME_BYTES);
        mount_assert(plan->volumes[i].path);
    }
    if (restore || plan->from[0]) {
        saved_assert(plan->from);
        assert(restore || !plan->keeps_disk);
    }
}

static void batch_assert(const struct keeper_batch *batch)
{
    assert(batch->n <= KEEPER_BATCH_MAX);
    for (uint32_t i = 0; i < batch->n; i++) {
        name_assert(batch->ids[i], KEEPER_ID_BYTES);
    }
}

static void request_assert(const struct keeper_request *req)
{
    switch ((enum keeper_op)req->op) {
    case KEEPER_HELLO:
    case KEEPER_LIST:
    case KEEPER_LIST_SAVED:
        return;
    case KEEPER_FORGET:
    case KEEPER_PACK:
        saved_assert(req->save.name);
        return;
    case KEEPER_USAGE_MANY:
        batch_assert(&req->batch);
        return;
    case KEEPER_VOLUME_MAKE:
        assert(req->volume.size_mb >= KEEPER_DISK_MB_MIN);
        assert(req->volume.size_mb <= KEEPER_DISK_MB_MAX);
        name_assert(req->volume.name, KEEPER_VOLUME_BYTES);
        return;
    case KEEPER_VOLUME_REMOVE:
    case KEEPER_VOLUME_USAGE:
        name_assert(req->volume.name, KEEPER_VOLUME_BYTES);
        return;
    case KEEPER_CREATE:
    case KEEPER_RESTORE:
        plan_assert(&req->plan, req->op == KEEPER_RESTORE);
        break;
    case KEEPER_SAVE:
        saved_assert(req->save.name);
        assert(req->save.flags < KEEPER_SAVE_ALONE << 1);
        break;
    case KEEPER_ATTACH:
        assert(req->jail.pid > 1);
        break;
    case KEEPER_SOCKETS:
        assert(req->jail.pid > 1);
        assert(req->sockets_n >= 1 && req->sockets_n <= KEEPER_SOCKETS_MAX);
        break;
    case KEEPER_DESTROY:
    case KEEPER_USAGE:
        break;
    default:
        abort(); /* no such thing can be asked */
    }
    name_assert(req->id, KEEPER_ID_BYTES);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct keeper_request req = {0};
    struct err err = {0};

    memcpy(&req, data, size < sizeof(req) ? size : sizeof(req));
    if (req.version != 0) {
        req.version = KEEPER_VERSION; /* seeds outlive a change of it */
    }
    if (keeper_request_check(&req, &err) < 0) {
        assert(err.code > 0 && err.msg[0] && memchr(err.msg, '\0', sizeof(err.msg)));
        return 0;
    }
    request_assert(&req);
    return 0;
}
