#include "wire/keeper.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "wire/channel.h"

static const char id_chars[] = "abcdefghijklmnopqrstuvwxyz0123456789";
static const char layer_chars[] = "abcdefghijklmnopqrstuvwxyz0123456789-";
static const char hostname_chars[] =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-.";

/* Names are used in mkdirat() and in mount options: a fixed alphabet, a NUL inside the field, and
 * no leading '.' or '-', so that none is "..", a hidden file or an option. The value is not quoted
 * in the error: it may be anything. */
static int name_check(const char *field, const char *name, size_t size, const char *chars,
                      struct err *err)
{
    size_t len = strnlen(name, size);

    if (len == size) {
        return err_set(err, EINVAL, "%s does not end within its %zu bytes", field, size);
    }
    if (len == 0) {
        return err_set(err, EINVAL, "%s is empty", field);
    }
    if (strspn(name, chars) != len || name[0] == '-' || name[0] == '.') {
        return err_set(err, EINVAL, "%s has a character that is not allowed in it", field);
    }
    return 0;
}

static int range_check(const char *field, uint32_t value, uint32_t min, uint32_t max,
                       struct err *err)
{
    if (value < min || value > max) {
        return err_set(err, EINVAL, "%s is %" PRIu32 ", want %" PRIu32 " to %" PRIu32, field, value,
                       min, max);
    }
    return 0;
}

static int limits_check(const struct keeper_plan *plan, struct err *err)
{
    const struct {
        const char *field;
        uint32_t value, min, max;
    } rows[] = {
        {"uid_slot", plan->uid_slot, 0, KEEPER_UID_SLOTS - 1},
        {"cpu_millis", plan->cpu_millis, KEEPER_CPU_MILLIS_MIN, KEEPER_CPU_MILLIS_MAX},
        {"memory_mb", plan->memory_mb, KEEPER_MEMORY_MB_MIN, KEEPER_MEMORY_MB_MAX},
        {"disk_mb", plan->disk_mb, KEEPER_DISK_MB_MIN, KEEPER_DISK_MB_MAX},
        {"pids", plan->pids, KEEPER_PIDS_MIN, KEEPER_PIDS_MAX},
        {"network", plan->network, 0, 1},
        {"layers_n", plan->layers_n, 0, KEEPER_LAYERS_MAX},
        {"volumes_n", plan->volumes_n, 0, KEEPER_VOLUMES_MAX},
    };

    for (size_t i = 0; i < countof(rows); i++) {
        int r = range_check(rows[i].field, rows[i].value, rows[i].min, rows[i].max, err);
        if (r < 0) {
            return r;
        }
    }
    return 0;
}

/* An absolute path of valid names. Whether the jail has such a place is checked there. */
static int path_check(const char *path, struct err *err)
{
    size_t len = strnlen(path, KEEPER_VOLUME_PATH_BYTES);

    if (len == KEEPER_VOLUME_PATH_BYTES || path[0] != '/' || len == 1) {
        return err_set(err, EINVAL, "volumes.path is not an absolute path below /");
    }
    for (const char *p = path; *p;) {
        size_t part = strcspn(++p, "/");
        if (part == 0 || (part <= 2 && strspn(p, ".") >= part)) {
            return err_set(err, EINVAL, "volumes.path has an empty part, \".\" or \"..\"");
        }
        p += part;
    }
    return 0;
}

static int volumes_check(const struct keeper_plan *plan, struct err *err)
{
    int r = 0;

    for (uint32_t i = 0; r == 0 && i < plan->volumes_n; i++) {
        r = name_check("volumes.volume", plan->volumes[i].volume, KEEPER_VOLUME_BYTES, layer_chars,
                       err);
        if (r == 0) {
            r = path_check(plan->volumes[i].path, err);
        }
    }
    return r;
}

static bool is_saved(const char *name)
{
    return strncmp(name, KEEPER_SAVED_PREFIX, strlen(KEEPER_SAVED_PREFIX)) == 0;
}

static int saved_check(const char *field, const char *name, struct err *err)
{
    int r = name_check(field, name, KEEPER_SAVED_BYTES, layer_chars, err);

    if (r == 0 && !is_saved(name)) {
        return err_set(err, EINVAL, "%s does not begin with " KEEPER_SAVED_PREFIX, field);
    }
    return r;
}

static int volume_check(const struct keeper_request *req, struct err *err)
{
    int r = name_check("volume.name", req->volume.name, KEEPER_VOLUME_BYTES, layer_chars, err);

    if (r == 0 && req->op == KEEPER_VOLUME_MAKE) {
        r = range_check("volume.size_mb", req->volume.size_mb, KEEPER_DISK_MB_MIN,
                        KEEPER_DISK_MB_MAX, err);
    }
    return r;
}

static int layer_check(const char *name, struct err *err)
{
    int r = name_check("layers", name, KEEPER_LAYER_BYTES, layer_chars, err);

    return r == 0 && is_saved(name) ? saved_check("layers", name, err) : r;
}

/* Checks the origin of the disk: a jail has its own disk already or begins with a copy, not both.
 * Only a restore may also take its memory from `from`. */
static int origin_check(const struct keeper_plan *plan, bool restore, struct err *err)
{
    int r = range_check("keeps_disk", plan->keeps_disk, 0, 1, err);

    if (r == 0) {
        r = range_check("channel_min", plan->channel_min, 0, CHANNEL_VERSION, err);
    }

    if (r == 0 && (restore || plan->from[0])) {
        r = saved_check("from", plan->from, err);
    }
    if (r == 0 && !restore && plan->keeps_disk && plan->from[0]) {
        return err_set(err, EINVAL,
                       "keeps_disk is 1 and from is given: a disk is one or the other");
    }
    return r;
}

static int plan_check(const struct keeper_plan *plan, bool restore, struct err *err)
{
    int r = limits_check(plan, err);

    for (uint32_t i = 0; r == 0 && i < plan->layers_n; i++) {
        r = layer_check(plan->layers[i], err);
    }
    if (r == 0) {
        r = origin_check(plan, restore, err);
    }
    if (r == 0) {
        r = volumes_check(plan, err);
    }
    if (r < 0) {
        return r;
    }
    return name_check("hostname", plan->hostname, KEEPER_HOSTNAME_BYTES, hostname_chars, err);
}

static int save_check(const struct keeper_save *save, struct err *err)
{
    const uint32_t known = KEEPER_SAVE_MEMORY | KEEPER_SAVE_STOP | KEEPER_SAVE_SYNC |
                           KEEPER_SAVE_LOOK | KEEPER_SAVE_ALONE;
    int r = saved_check("save.name", save->name, err);

    if (r == 0 && save->flags & ~known) {
        return err_set(err, EINVAL, "save.flags is %#" PRIx32 ", want bits of %#" PRIx32,
                       save->flags, known);
    }
    if (r == 0 && save->flags & KEEPER_SAVE_ALONE && save->flags != KEEPER_SAVE_ALONE) {
        return err_set(err, EINVAL, "save.flags is %#" PRIx32 ": ALONE goes with no other",
                       save->flags);
    }
    return r;
}

static int travel_check(const struct keeper_request *req, struct err *err)
{
    const struct keeper_travel *travel = &req->travel;
    int r = saved_check("travel.name", travel->name, err);

    if (r == 0) {
        r = range_check("travel.layers_n", travel->layers_n, 0,
                        req->op == KEEPER_EXPORT ? KEEPER_LAYERS_MAX : 0, err);
    }
    for (uint32_t i = 0; r == 0 && i < travel->layers_n; i++) {
        r = layer_check(travel->layers[i], err);
    }
    if (r == 0 && req->op == KEEPER_IMPORT &&
        strlen(travel->name) + strlen(KEEPER_SAVED_DISK) >= KEEPER_SAVED_BYTES) {
        return err_set(err, EINVAL, "travel.name leaves no room for " KEEPER_SAVED_DISK);
    }
    if (r == 0 && req->op == KEEPER_IMPORT &&
        (travel->bytes_max == 0 || travel->bytes_max > KEEPER_TRAVEL_BYTES_MAX)) {
        return err_set(err, EINVAL, "travel.bytes_max is %" PRIu64 ", want 1 to %" PRIu64,
                       travel->bytes_max, KEEPER_TRAVEL_BYTES_MAX);
    }
    return r;
}

static int jail_check(const struct keeper_jail *jail, struct err *err)
{
    if (jail->pid <= 1) {
        return err_set(err, EINVAL, "jail.pid is %" PRId32 ", want more than 1", jail->pid);
    }
    return 0;
}

static int batch_check(const struct keeper_batch *batch, struct err *err)
{
    int r = range_check("batch.n", batch->n, 0, KEEPER_BATCH_MAX, err);

    for (uint32_t i = 0; r == 0 && i < batch->n; i++) {
        r = name_check("batch.ids", batch->ids[i], KEEPER_ID_BYTES, id_chars, err);
    }
    return r;
}

/* Checks requests that name a jail. */
static int jail_request_check(const struct keeper_request *req, struct err *err)
{
    int r = name_check("id", req->id, KEEPER_ID_BYTES, id_chars, err);

    if (r < 0) {
        return r;
    }
    switch (req->op) {
    case KEEPER_CREATE:
    case KEEPER_RESTORE:
        return plan_check(&req->plan, req->op == KEEPER_RESTORE, err);
    case KEEPER_ATTACH:
        return jail_check(&req->jail, err);
    case KEEPER_SOCKETS:
        r = jail_check(&req->jail, err);
        return r < 0 ? r : range_check("sockets_n", req->sockets_n, 1, KEEPER_SOCKETS_MAX, err);
    case KEEPER_SAVE:
        return save_check(&req->save, err);
    default:
        return 0; /* DESTROY and USAGE have no other field */
    }
}

/* The name after which a listing continues. It is only compared, and names found on a disk may be
 * anything. */
static int after_check(const char *field, const char *name, size_t size, struct err *err)
{
    return strnlen(name, size) == size ? err_set(err, EINVAL, "%s has no end", field) : 0;
}

int keeper_request_check(const struct keeper_request *req, struct err *err)
{
    if (req->version != KEEPER_VERSION) {
        return err_set(err, EINVAL, "version is %" PRIu32 ", want %d", req->version,
                       KEEPER_VERSION);
    }
    switch (req->op) {
    case KEEPER_HELLO:
        return 0;
    case KEEPER_LIST:
        return after_check("id", req->id, KEEPER_ID_BYTES, err);
    case KEEPER_LIST_SAVED:
        return after_check("save.name", req->save.name, KEEPER_SAVED_BYTES, err);
    case KEEPER_USAGE_MANY:
        return batch_check(&req->batch, err);
    case KEEPER_FORGET:
    case KEEPER_PACK:
        return saved_check("save.name", req->save.name, err);
    case KEEPER_VOLUME_MAKE:
    case KEEPER_VOLUME_REMOVE:
    case KEEPER_VOLUME_USAGE:
        return volume_check(req, err);
    case KEEPER_EXPORT:
    case KEEPER_IMPORT:
        return travel_check(req, err);
    case KEEPER_CREATE:
    case KEEPER_ATTACH:
    case KEEPER_DESTROY:
    case KEEPER_USAGE:
    case KEEPER_SAVE:
    case KEEPER_RESTORE:
    case KEEPER_SOCKETS:
        return jail_request_check(req, err);
    default:
        return err_set(err, EINVAL, "op is %" PRIu32 ", which is none", req->op);
    }
}
