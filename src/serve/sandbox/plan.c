/* plan.c - the keeper's plan for the jail of a sandbox, made from its description. */
#include <errno.h>
#include <string.h>

#include "serve/sandbox/internal.h"
#include "wire/channel.h"

static int plan_layers(struct keeper_plan *plan, const char *layers, struct err *err)
{
    struct str rest = str_of(layers), layer;

    while (str_split(&rest, ',', &layer)) {
        if (plan->layers_n == KEEPER_LAYERS_MAX) {
            return err_set(err, EINVAL, "the template has more than %d layers", KEEPER_LAYERS_MAX);
        }
        if (!str_copy(plan->layers[plan->layers_n++], KEEPER_LAYER_BYTES, layer)) {
            return err_set(err, EINVAL, "the template has a layer with too long a name");
        }
    }
    return 0;
}

/* volumeMounts of the options, as the API checked and completed them. */
static int plan_volumes(struct keeper_plan *plan, const json_t *mounts, struct err *err)
{
    for (size_t i = 0; i < json_array_size(mounts); i++) {
        const json_t *mount = json_array_get(mounts, i);
        const char *volume = json_string_value(json_object_get(mount, "volumeID"));
        const char *path = json_string_value(json_object_get(mount, "path"));

        if (plan->volumes_n == KEEPER_VOLUMES_MAX || !volume || !path ||
            !str_copy(plan->volumes[plan->volumes_n].volume, KEEPER_VOLUME_BYTES, str_of(volume)) ||
            !str_copy(plan->volumes[plan->volumes_n].path, KEEPER_VOLUME_PATH_BYTES,
                      str_of(path))) {
            return err_set(err, EINVAL, "volume mount #%zu cannot be made", i);
        }
        plan->volumes_n++;
    }
    return 0;
}

int plan_jail(struct sandbox *sb, const char *from, bool memory, struct keeper_request *req,
              struct err *err)
{
    req->op = memory ? KEEPER_RESTORE : KEEPER_CREATE;
    memcpy(req->id, sb->id, sizeof(sb->id));
    memcpy(req->plan.hostname, sb->id, sizeof(sb->id));
    req->plan.cpu_millis = sb->cpu_count * 1000;
    req->plan.memory_mb = sb->memory_mb;
    req->plan.disk_mb = sb->disk_mb;
    req->plan.pids = SANDBOX_PIDS;
    req->plan.channel_min = memory && sb->prestarted ? CHANNEL_VERSION : 0;
    /* Nobody knows yet what a jail to be parked may have to reach. */
    req->plan.network =
        sb->all->use.egress && (sb->state == SANDBOX_PARKING || egress_wanted(sb->options));
    int r = plan_layers(&req->plan, sb->layers, err);
    if (r == 0) {
        r = plan_volumes(&req->plan, json_object_get(sb->options, "volumeMounts"), err);
    }
    if (r == 0 && from && !str_copy(req->plan.from, sizeof(req->plan.from), str_of(from))) {
        r = err_set(err, EINVAL, "what it starts from has too long a name");
    }
    if (r < 0) {
        return r;
    }
    sb->uid_slot = slots_take(&sb->all->slots);
    if (sb->uid_slot == SLOT_NONE) {
        return err_set(err, ENOSPC, "this machine runs as many sandboxes as it can (%d)",
                       KEEPER_UID_SLOTS);
    }
    req->plan.uid_slot = sb->uid_slot;
    return 0;
}
