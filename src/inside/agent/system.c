/* system.c - /health, /init, /envs and /metrics. */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <time.h>

#include "inside/agent/figures.h"
#include "inside/agent/files.h"
#include "inside/agent/internal.h"
#include "inside/agent/trust.h"
#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/text.h"

enum {
    INIT_BYTES_MAX = 4 * 1024 * 1024,
    METRICS_BYTES_MAX = 1024,
    OUTPUT_KEPT_MAX = 16 * 1024 * 1024,
    MIB = 1024 * 1024,
};

static void on_end(void *ctx, int error)
{
    (void)ctx, (void)error;
}

/* A whole answer that no cache may keep. */
static void answer(struct http_exchange *ex, int status, const char *type, struct str body)
{
    static const struct http_handler handler = {.on_end = on_end};
    struct http_header no_store = {STR("cache-control"), STR("no-store")};

    http_accept(ex, &handler, NULL);
    http_reply_with(ex, status, &no_store, 1, type, body.at, body.len);
}

static void health(struct agent *agent, struct http_exchange *ex)
{
    (void)agent;
    answer(ex, 204, NULL, (struct str){NULL, 0});
}

static void envs(struct agent *agent, struct http_exchange *ex)
{
    json_auto_t *map = json_object();

    for (size_t i = 0; i < agent->envs_n; i++) {
        (void)json_object_set_new(map, agent->envs[i].name, json_string(agent->envs[i].value));
    }
    char *text = json_dumps(map, JSON_COMPACT);
    answer(ex, 200, "application/json", str_of(text ? text : "{}"));
    free(text);
}

static void metrics(struct agent *agent, struct http_exchange *ex)
{
    struct figures f;
    scoped_buf(body, METRICS_BYTES_MAX);

    figures_read(&agent->limits, &f);
    int r =
        buf_printf(&body,
                   "{\"ts\":%lld,\"cpu_count\":%" PRIu32 ",\"cpu_used_pct\":%.2f,"
                   "\"mem_total\":%" PRIu64 ",\"mem_used\":%" PRIu64 ",\"mem_cache\":%" PRIu64 ","
                   "\"mem_total_mib\":%" PRIu64 ",\"mem_used_mib\":%" PRIu64 ","
                   "\"disk_used\":%" PRIu64 ",\"disk_total\":%" PRIu64 "}",
                   (long long)time(NULL), f.cpus, f.cpu_used_pct, f.memory_total_bytes,
                   f.memory_used_bytes, f.memory_cache_bytes, f.memory_total_bytes / MIB,
                   f.memory_used_bytes / MIB, f.disk_used_bytes, f.disk_total_bytes);
    answer(ex, r < 0 ? 500 : 200, "application/json", buf_str(&body));
}

/* ---- /init ---- */

/* Its fields by name; each may be missing or null. Unknown ones are for other versions. */
struct init {
    json_t *envs;
    const char *token;
    const char *timestamp;
    const char *user;
    const char *workdir;
    const char *sandbox_id;
    const char *template_id;
    const char *team_id;
    const char *ca_bundle; /* PEM */
    const char *ca_hash;
    json_int_t memory_mb;
    json_int_t disk_mb;
    json_int_t cpus;
    json_int_t output_kept;
    int64_t timestamp_ms;
};

static int text_get(const json_t *body, const char *name, const char **out, struct err *err)
{
    const json_t *value = json_object_get(body, name);

    if (!value || json_is_null(value)) {
        return 0;
    }
    *out = json_string_value(value);
    return *out ? 0 : err_set(err, EINVAL, "%s must be text", name);
}

static int count_get(const json_t *body, const char *name, json_int_t *out, struct err *err)
{
    const json_t *value = json_object_get(body, name);

    if (!value || json_is_null(value)) {
        return 0;
    }
    *out = json_integer_value(value);
    bool fits = json_is_integer(value) && *out >= 0 && *out <= INT32_MAX;
    return fits ? 0 : err_set(err, EINVAL, "%s must be a whole number", name);
}

static int envs_check(struct init *init, const json_t *body, struct err *err)
{
    const char *name;
    json_t *value;

    init->envs = json_object_get(body, "envVars");
    if (json_is_null(init->envs)) {
        init->envs = NULL;
    }
    if (init->envs && !json_is_object(init->envs)) {
        return err_set(err, EINVAL, "envVars must be an object");
    }
    json_object_foreach (init->envs, name, value) {
        if (!json_is_string(value)) {
            return err_set(err, EINVAL, "envVars: %.64s must be text", name);
        }
    }
    return 0;
}

static int init_read(const json_t *body, struct init *init, struct err *err)
{
    int r;

    if (!json_is_object(body)) {
        return err_set(err, EINVAL, "the body must be a JSON object");
    }
    r = envs_check(init, body, err);
    r = r < 0 ? r : text_get(body, "accessToken", &init->token, err);
    r = r < 0 ? r : text_get(body, "timestamp", &init->timestamp, err);
    r = r < 0 ? r : text_get(body, "defaultUser", &init->user, err);
    r = r < 0 ? r : text_get(body, "defaultWorkdir", &init->workdir, err);
    r = r < 0 ? r : text_get(body, "sandboxID", &init->sandbox_id, err);
    r = r < 0 ? r : text_get(body, "templateID", &init->template_id, err);
    r = r < 0 ? r : text_get(body, "teamID", &init->team_id, err);
    r = r < 0 ? r : text_get(body, "caBundle", &init->ca_bundle, err);
    r = r < 0 ? r : text_get(body, "caHash", &init->ca_hash, err);
    r = r < 0 ? r : count_get(body, "memoryMB", &init->memory_mb, err);
    r = r < 0 ? r : count_get(body, "diskSizeMB", &init->disk_mb, err);
    r = r < 0 ? r : count_get(body, "cpuCount", &init->cpus, err);
    r = r < 0 ? r : count_get(body, "outputKeptBytes", &init->output_kept, err);
    if (r < 0) {
        return r;
    }
    if (init->timestamp && clock_parse(str_of(init->timestamp), &init->timestamp_ms) < 0) {
        return err_set(err, EINVAL, "timestamp must be a time such as 2026-01-02T03:04:05Z");
    }
    return 0;
}

static void limits_apply(struct agent *agent, const struct init *init)
{
    if (init->memory_mb > 0) {
        agent->limits.memory_bytes = (uint64_t)init->memory_mb * MIB;
    }
    if (init->disk_mb > 0) {
        agent->limits.disk_bytes = (uint64_t)init->disk_mb * MIB;
    }
    if (init->cpus > 0) {
        agent->limits.cpus = (uint32_t)init->cpus;
    }
    if (init->output_kept > 0) {
        agent->output_kept_bytes =
            init->output_kept < OUTPUT_KEPT_MAX ? (size_t)init->output_kept : OUTPUT_KEPT_MAX;
    }
}

static int envs_fill(struct agent *agent, const struct init *init, struct err *err)
{
    const char *name;
    json_t *value;
    int r = 0;

    json_object_foreach (init->envs, name, value) {
        r = r < 0 ? r : agent_env_set(agent, name, json_string_value(value), err);
    }
    if (r == 0) {
        r = agent_env_set(agent, "E2B_SANDBOX", "true", err);
    }
    for (size_t i = 0; r == 0 && init->ca_bundle && i < trust_variables_n; i++) {
        if (!json_object_get(init->envs, trust_variables[i].name)) {
            r = agent_env_set(agent, trust_variables[i].name, trust_variables[i].value, err);
        }
    }
    if (r == 0 && init->sandbox_id) {
        r = agent_env_set(agent, "E2B_SANDBOX_ID", init->sandbox_id, err);
    }
    if (r == 0 && init->template_id) {
        r = agent_env_set(agent, "E2B_TEMPLATE_ID", init->template_id, err);
    }
    if (r == 0 && init->team_id) {
        r = agent_env_set(agent, "E2B_TEAM_ID", init->team_id, err);
    }
    return r;
}

/* All of the new variables take the place of all of the old, or none does. */
static int envs_apply(struct agent *agent, const struct init *init, struct err *err)
{
    struct agent fresh = {0};
    int r = envs_fill(&fresh, init, err);

    if (r < 0) {
        agent_env_clear(&fresh);
        return r;
    }
    agent_env_clear(agent);
    agent->envs = fresh.envs;
    agent->envs_n = fresh.envs_n;
    agent->env_bytes = fresh.env_bytes;
    return 0;
}

/* Every /init brings it again; files are changed only for new authorities. */
static int trust_apply(struct agent *agent, const struct init *init, struct err *err)
{
    if (!init->ca_bundle || text_same(agent->ca_bundle, init->ca_bundle)) {
        return 0;
    }
    int r = trust_add(init->ca_bundle, init->ca_hash ? init->ca_hash : "", err);
    if (r == 0) {
        text_set(&agent->ca_bundle, init->ca_bundle);
    }
    return r;
}

static int init_apply(struct agent *agent, const struct init *init, struct err *err)
{
    if (init->timestamp && init->timestamp_ms < agent->init_ms) {
        return 0; /* sent before the last one, arrived after it */
    }
    int r = trust_apply(agent, init, err);
    r = r < 0 ? r : envs_apply(agent, init, err);
    if (r < 0) {
        return r;
    }
    agent->init_ms = init->timestamp ? init->timestamp_ms : agent->init_ms;
    text_set(&agent->access_token, init->token && init->token[0] ? init->token : NULL);
    if (init->user && init->user[0]) {
        text_set(&agent->default_user, init->user);
    }
    if (init->workdir && init->workdir[0]) {
        text_set(&agent->default_workdir, init->workdir);
    }
    limits_apply(agent, init);
    return 0;
}

static void init_done(void *ctx, struct http_exchange *ex, int error, struct str text)
{
    struct http_header no_store = {STR("cache-control"), STR("no-store")};
    struct agent *agent = ctx;
    struct init init = {0};
    json_error_t why;
    struct err err;

    if (error == -EMSGSIZE) {
        files_fail(ex, 413, "the body is too long");
        return;
    }
    if (error < 0) {
        return;
    }
    json_auto_t *body = json_loadb(text.len ? text.at : "{}", text.len ? text.len : 2, 0, &why);
    if (!body) {
        files_fail(ex, 400, "the body is not JSON");
    } else if (init_read(body, &init, &err) < 0 || init_apply(agent, &init, &err) < 0) {
        files_fail(ex, 400, err.msg);
    } else {
        if (json_is_true(json_object_get(body, "rehearse"))) {
            rehearse(agent);
        }
        http_reply_with(ex, 204, &no_store, 1, NULL, NULL, 0);
    }
}

static void init_begin(struct agent *agent, struct http_exchange *ex)
{
    http_gather(ex, INIT_BYTES_MAX, init_done, NULL, agent);
}

/* ---- routes ---- */

static const struct {
    const char *path;
    const char *method;
    bool control; /* exists on the daemon's own connections alone */
    void (*run)(struct agent *agent, struct http_exchange *ex);
} routes[] = {
    {"/health", "GET", false, health},
    {"/envs", "GET", false, envs},
    {"/metrics", "GET", false, metrics},
    {"/init", "POST", true, init_begin},
};

bool system_handle(struct agent *agent, struct http_exchange *ex)
{
    const struct http_request *req = http_request(ex);

    for (size_t i = 0; i < countof(routes); i++) {
        if (!str_eq(req->path, str_of(routes[i].path)) ||
            (routes[i].control && req->connection_tag != agent_tag_control)) {
            continue;
        }
        if (str_eq(req->method, str_of(routes[i].method))) {
            routes[i].run(agent, ex);
        } else {
            files_refuse(ex, 405, "this path knows another method");
        }
        return true;
    }
    return false;
}
