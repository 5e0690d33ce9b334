#include "lib/base/clock.h"
#include "serve/api/internal.h"
#include "serve/api/network.h"

/* Once named a machine of a cluster; clients still want the field. */
#define CLIENT_ID "atoll"

json_t *stamp_json(int64_t wall_ms)
{
    char stamp[CLOCK_STAMP_BYTES];

    clock_stamp(wall_ms, stamp);
    return json_string(stamp);
}

static json_t *names_json(const struct sandbox_info *info)
{
    json_t *out = json_object();

    (void)json_object_set_new(out, "templateID", json_string(info->template_id));
    (void)json_object_set_new(out, "sandboxID", json_string(info->id));
    (void)json_object_set_new(out, "clientID", json_string(CLIENT_ID));
    (void)json_object_set_new(out, "envdVersion", json_string(SANDBOX_ENVD_VERSION));
    if (info->template_alias) {
        (void)json_object_set_new(out, "alias", json_string(info->template_alias));
    }
    return out;
}

static void set_token(json_t *out, const struct sandbox_info *info)
{
    if (info->access_token) {
        (void)json_object_set_new(out, "envdAccessToken", json_string(info->access_token));
    }
}

static void set_domain(json_t *out, const struct api *api)
{
    const char *domain = api->options.domain;

    (void)json_object_set_new(out, "domain", domain ? json_string(domain) : json_null());
}

json_t *sandbox_json_created(const struct api *api, const struct sandbox *sb)
{
    struct sandbox_info info = sandbox_info(sb);
    json_t *traffic = json_object_get(info.options, "trafficAccessToken");
    json_t *out = names_json(&info);

    set_token(out, &info);
    set_domain(out, api);
    if (traffic) {
        (void)json_object_set(out, "trafficAccessToken", traffic);
    }
    return out;
}

/* As the client named them. */
static json_t *mounts_json(const json_t *mounts)
{
    json_t *out = json_array();

    for (size_t i = 0; i < json_array_size(mounts); i++) {
        json_t *mount = json_array_get(mounts, i);
        json_t *shown = json_object();
        (void)json_object_set(shown, "name", json_object_get(mount, "name"));
        (void)json_object_set(shown, "path", json_object_get(mount, "path"));
        (void)json_array_append_new(out, shown);
    }
    return out;
}

static json_t *listed(const struct sandbox_info *info)
{
    const char *state = info->state == SANDBOX_PAUSED ? "paused" : "running";
    json_t *out = names_json(info);

    (void)json_object_set_new(out, "startedAt", stamp_json(info->started_ms));
    (void)json_object_set_new(out, "endAt", stamp_json(info->end_ms));
    (void)json_object_set_new(out, "cpuCount", json_integer(info->cpu_count));
    (void)json_object_set_new(out, "memoryMB", json_integer(info->memory_mb));
    (void)json_object_set_new(out, "diskSizeMB", json_integer(info->disk_mb));
    (void)json_object_set_new(out, "state", json_string(state));
    if (info->saved_bytes) {
        (void)json_object_set_new(out, "diskUsedBytes",
                                  json_integer((json_int_t)info->saved_bytes));
    }
    if (info->state == SANDBOX_PAUSED &&
        json_is_true(json_object_get(info->options, SANDBOX_UNRESPONSIVE_OPTION))) {
        (void)json_object_set_new(out, "envdUnresponsiveAtPause", json_true());
    }
    (void)json_object_set_new(out, "metadata", json_deep_copy(info->metadata));
    (void)json_object_set_new(out, "volumeMounts",
                              mounts_json(json_object_get(info->options, "volumeMounts")));
    return out;
}

json_t *sandbox_json_listed(const struct sandbox *sb)
{
    struct sandbox_info info = sandbox_info(sb);

    return listed(&info);
}

static json_t *lifecycle_json(const json_t *options)
{
    bool pause = json_is_true(json_object_get(options, "autoPause"));
    json_t *out = json_object();

    (void)json_object_set_new(out, "autoResume",
                              json_boolean(json_is_true(json_object_get(options, "autoResume"))));
    (void)json_object_set_new(out, "onTimeout", json_string(pause ? "pause" : "kill"));
    return out;
}

json_t *sandbox_json_detail(const struct api *api, const struct sandbox *sb)
{
    struct sandbox_info info = sandbox_info(sb);
    json_t *internet = json_object_get(info.options, "allowInternetAccess");
    const json_t *network = json_object_get(info.options, "network");
    json_t *out = listed(&info);

    set_token(out, &info);
    set_domain(out, api);
    (void)json_object_set_new(out, "createdAt", stamp_json(info.created_ms));
    (void)json_object_set_new(out, "lifecycle", lifecycle_json(info.options));
    if (info.state == SANDBOX_PAUSED && !info.changing) {
        (void)json_object_set_new(out, "pauseMode",
                                  json_string(info.saved_memory ? "full" : "filesystem"));
    }
    json_t *shells = json_object_get(info.options, "shells");
    if (shells) {
        (void)json_object_set(out, "shells", shells);
    }
    if (info.state == SANDBOX_PAUSED && json_object_get(info.options, SANDBOX_WANTED_END)) {
        (void)json_object_set_new(
            out, "wantedEndAt",
            stamp_json(json_integer_value(json_object_get(info.options, SANDBOX_WANTED_END))));
    }
    (void)json_object_set_new(out, "allowInternetAccess",
                              internet ? json_boolean(json_is_true(internet)) : json_null());
    if (network) {
        (void)json_object_set_new(out, "network", network_shown(network));
    }
    return out;
}
