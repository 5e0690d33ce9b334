#include "serve/api/api.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/encode.h"
#include "lib/base/shares.h"
#include "serve/api/internal.h"

static const struct route routes[] = {
    {"POST", "/v2/sandboxes", handle_create_v2, BODY_REQUIRED, ACCESS_KEY, NULL},
    {"POST", "/sandboxes", handle_create_v1, BODY_REQUIRED, ACCESS_KEY, NULL},
    {"GET", "/v2/sandboxes", handle_list_v2, BODY_NONE, ACCESS_KEY, NULL},
    {"GET", "/sandboxes", handle_list_v1, BODY_NONE, ACCESS_KEY, NULL},
    {"GET", "/sandboxes/metrics", handle_metrics_many, BODY_NONE, ACCESS_KEY, NULL}, /* first */
    {"GET", "/sandboxes/{}", handle_get, BODY_NONE, ACCESS_KEY, NULL},
    {"DELETE", "/sandboxes/{}", handle_kill, BODY_NONE, ACCESS_KEY, NULL},
    {"POST", "/sandboxes/{}/timeout", handle_timeout, BODY_REQUIRED, ACCESS_KEY, NULL},
    {"POST", "/sandboxes/{}/refreshes", handle_refresh, BODY_OPTIONAL, ACCESS_KEY, NULL},
    {"PUT", "/sandboxes/{}/network", handle_network, BODY_REQUIRED, ACCESS_KEY, NULL},
    {"POST", "/sandboxes/{}/pause", handle_pause, BODY_OPTIONAL, ACCESS_KEY, NULL},
    {"POST", "/sandboxes/{}/resume", handle_resume, BODY_OPTIONAL, ACCESS_KEY, NULL},
    {"POST", "/sandboxes/{}/fork", handle_fork, BODY_OPTIONAL, ACCESS_KEY, NULL},
    {"POST", "/sandboxes/{}/snapshots", handle_snapshot, BODY_OPTIONAL, ACCESS_KEY, NULL},
    {"GET", "/snapshots", handle_snapshots, BODY_NONE, ACCESS_KEY, NULL},
    {"POST", "/sandboxes/{}/connect", handle_connect_v1, BODY_REQUIRED, ACCESS_KEY, NULL},
    {"POST", "/v2/sandboxes/{}/connect", handle_connect_v2, BODY_OPTIONAL, ACCESS_KEY, NULL},
    {"GET", "/templates", handle_templates, BODY_NONE, ACCESS_KEY, NULL},
    {"POST", "/templates", handle_pushed_request, BODY_REQUIRED, ACCESS_KEY, NULL},
    {"GET", "/v2/templates", handle_templates_v2, BODY_NONE, ACCESS_KEY, NULL},
    {"GET", "/templates/aliases/{}", handle_alias, BODY_NONE, ACCESS_KEY, NULL},
    {"POST", "/v3/templates", handle_build_v3, BODY_REQUIRED, ACCESS_KEY, NULL},
    {"POST", "/v2/templates", handle_build_v2, BODY_REQUIRED, ACCESS_KEY, NULL},
    {"POST", "/templates/tags", handle_tags_assign, BODY_REQUIRED, ACCESS_KEY, NULL}, /* first */
    {"DELETE", "/templates/tags", handle_tags_remove, BODY_REQUIRED, ACCESS_KEY, NULL},
    {"POST", "/templates/prune", handle_template_prune, BODY_OPTIONAL, ACCESS_KEY, NULL},
    {"GET", "/templates/{}/tags", handle_tags, BODY_NONE, ACCESS_KEY, NULL},
    {"GET", "/templates/{}/tags/count", handle_tag_count, BODY_NONE, ACCESS_KEY, NULL},
    {"GET", "/templates/{}/tags/exists", handle_tag_exists, BODY_NONE, ACCESS_KEY, NULL},
    {"GET", "/templates/{}/tags/groups", handle_tag_groups, BODY_NONE, ACCESS_KEY, NULL},
    {"GET", "/templates/{}/tags/{}/assignments", handle_tag_assignments, BODY_NONE, ACCESS_KEY,
     NULL},
    {"GET", "/default-templates", handle_default_templates, BODY_NONE, ACCESS_KEY, NULL},
    {"GET", "/templates/{}", handle_template, BODY_NONE, ACCESS_KEY, NULL},
    {"POST", "/templates/{}", handle_pushed_rebuild, BODY_REQUIRED, ACCESS_KEY, NULL},
    {"POST", "/templates/{}/builds/{}", handle_pushed_start, BODY_OPTIONAL, ACCESS_KEY, NULL},
    {"PATCH", "/templates/{}", handle_template_change, BODY_REQUIRED, ACCESS_KEY, NULL},
    {"PATCH", "/v2/templates/{}", handle_template_change, BODY_REQUIRED, ACCESS_KEY, NULL},
    {"DELETE", "/templates/{}", handle_template_delete, BODY_NONE, ACCESS_KEY, NULL},
    {"GET", "/templates/{}/files/{}", handle_files, BODY_NONE, ACCESS_KEY, NULL},
    {"PUT", "/templates/{}/files/{}", handle_upload, BODY_NONE, ACCESS_OPEN, stream_upload},
    {"POST", "/v2/templates/{}/builds/{}", handle_build_start, BODY_REQUIRED, ACCESS_KEY, NULL},
    {"DELETE", "/templates/{}/builds/{}", handle_build_cancel, BODY_NONE, ACCESS_KEY, NULL},
    {"GET", "/templates/{}/builds/{}/status", handle_build_status, BODY_NONE, ACCESS_KEY, NULL},
    {"GET", "/templates/{}/builds/{}/logs", handle_build_logs, BODY_NONE, ACCESS_KEY, NULL},
    {"GET", "/events/sandboxes", handle_events, BODY_NONE, ACCESS_KEY, NULL},
    {"GET", "/events/sandboxes/{}", handle_events_of, BODY_NONE, ACCESS_KEY, NULL},
    {"GET", "/events/webhooks", handle_webhooks_list, BODY_NONE, ACCESS_KEY, NULL},
    {"POST", "/events/webhooks", handle_webhooks_create, BODY_REQUIRED, ACCESS_KEY, NULL},
    {"GET", "/events/webhooks/{}", handle_webhooks_get, BODY_NONE, ACCESS_KEY, NULL},
    {"PATCH", "/events/webhooks/{}", handle_webhooks_change, BODY_REQUIRED, ACCESS_KEY, NULL},
    {"DELETE", "/events/webhooks/{}", handle_webhooks_delete, BODY_NONE, ACCESS_KEY, NULL},
    {"POST", "/events/webhooks/{}/test", handle_webhooks_test, BODY_NONE, ACCESS_KEY, NULL},
    {"GET", "/events/webhooks/{}/deliveries", handle_webhooks_deliveries, BODY_NONE, ACCESS_KEY,
     NULL},
    {"GET", "/secrets", handle_secrets_list, BODY_NONE, ACCESS_KEY, NULL},
    {"POST", "/secrets", handle_secrets_create, BODY_REQUIRED, ACCESS_KEY, NULL},
    {"GET", "/secrets/{}", handle_secrets_get, BODY_NONE, ACCESS_KEY, NULL},
    {"POST", "/secrets/{}", handle_secrets_update, BODY_REQUIRED, ACCESS_KEY, NULL},
    {"DELETE", "/secrets/{}", handle_secrets_delete, BODY_NONE, ACCESS_KEY, NULL},
    {"GET", "/shells", handle_shells_list, BODY_NONE, ACCESS_KEY, NULL},
    {"GET", "/shells/{}", handle_shells_get, BODY_NONE, ACCESS_KEY, NULL},
    {"PUT", "/shells/{}", handle_shells_put, BODY_REQUIRED, ACCESS_KEY, NULL},
    {"DELETE", "/shells/{}", handle_shells_delete, BODY_NONE, ACCESS_KEY, NULL},
    {"GET", "/.well-known/openid-configuration", handle_identity_configuration, BODY_NONE,
     ACCESS_OPEN, NULL},
    {"GET", "/.well-known/jwks.json", handle_identity_keys, BODY_NONE, ACCESS_OPEN, NULL},
    {"GET", "/teams", handle_teams, BODY_NONE, ACCESS_KEY, NULL},
    {"GET", "/teams/{}/usage", handle_team_usage, BODY_NONE, ACCESS_KEY, NULL},
    {"POST", "/access-tokens", handle_tokens_create, BODY_REQUIRED, ACCESS_KEY, NULL},
    {"DELETE", "/access-tokens/{}", handle_tokens_delete, BODY_NONE, ACCESS_KEY, NULL},
    {"GET", "/dashboard/health", handle_dashboard_health, BODY_NONE, ACCESS_OPEN, NULL},
    {"GET", "/dashboard/builds", handle_dashboard_builds, BODY_NONE, ACCESS_KEY, NULL},
    {"GET", "/dashboard/builds/statuses", handle_dashboard_statuses, BODY_NONE, ACCESS_KEY,
     NULL}, /* first */
    {"GET", "/dashboard/builds/{}", handle_dashboard_build, BODY_NONE, ACCESS_KEY, NULL},
    {"GET", "/dashboard/templates", handle_dashboard_templates, BODY_NONE, ACCESS_KEY, NULL},
    {"GET", "/dashboard/templates/defaults", handle_dashboard_defaults, BODY_NONE, ACCESS_KEY,
     NULL}, /* first */
    {"GET", "/dashboard/templates/{}", handle_dashboard_template, BODY_NONE, ACCESS_KEY, NULL},
    {"GET", "/dashboard/templates/{}/tags/groups", handle_tag_groups, BODY_NONE, ACCESS_KEY, NULL},
    {"GET", "/dashboard/templates/{}/tags/count", handle_tag_count, BODY_NONE, ACCESS_KEY, NULL},
    {"GET", "/dashboard/templates/{}/tags/exists", handle_tag_exists, BODY_NONE, ACCESS_KEY, NULL},
    {"GET", "/dashboard/templates/{}/tags/{}/assignments", handle_tag_assignments, BODY_NONE,
     ACCESS_KEY, NULL},
    {"GET", "/nodes", handle_nodes, BODY_NONE, ACCESS_ADMIN, NULL},
    {"GET", "/nodes/{}", handle_node, BODY_NONE, ACCESS_ADMIN, NULL},
    {"POST", "/nodes/{}", handle_node_change, BODY_REQUIRED, ACCESS_ADMIN, NULL},
    {"GET", "/admin/keys", handle_admin_keys_list, BODY_NONE, ACCESS_ADMIN, NULL},
    {"POST", "/admin/keys", handle_admin_keys_create, BODY_REQUIRED, ACCESS_ADMIN, NULL},
    {"DELETE", "/admin/keys/{}", handle_admin_keys_delete, BODY_NONE, ACCESS_ADMIN, NULL},
    {"GET", "/admin/teams", handle_admin_teams_list, BODY_NONE, ACCESS_ADMIN, NULL},
    {"POST", "/admin/teams", handle_admin_teams_create, BODY_REQUIRED, ACCESS_ADMIN, NULL},
    {"GET", "/admin/teams/{}", handle_admin_team, BODY_NONE, ACCESS_ADMIN, NULL},
    {"PATCH", "/admin/teams/{}", handle_admin_team_change, BODY_REQUIRED, ACCESS_ADMIN, NULL},
    {"GET", "/admin/teams/{}/usage", handle_admin_team_usage, BODY_NONE, ACCESS_ADMIN, NULL},
    {"POST", "/admin/teams/{}/sandboxes/kill", handle_admin_team_kill, BODY_NONE, ACCESS_ADMIN,
     NULL},
    {"POST", "/admin/teams/{}/builds/cancel", handle_admin_team_cancel, BODY_NONE, ACCESS_ADMIN,
     NULL},
    {"GET", "/admin/teams/{}/api-keys", handle_admin_team_keys, BODY_NONE, ACCESS_ADMIN, NULL},
    {"POST", "/admin/teams/{}/api-keys", handle_admin_team_key_create, BODY_REQUIRED, ACCESS_ADMIN,
     NULL},
    {"PATCH", "/admin/teams/{}/api-keys/{}", handle_admin_team_key_change, BODY_REQUIRED,
     ACCESS_ADMIN, NULL},
    {"DELETE", "/admin/teams/{}/api-keys/{}", handle_admin_team_key_delete, BODY_NONE, ACCESS_ADMIN,
     NULL},
    {"GET", "/admin/sandboxes/running-counts", handle_admin_running, BODY_NONE, ACCESS_ADMIN, NULL},
    {"GET", "/api-keys", handle_keys_list, BODY_NONE, ACCESS_KEY, NULL},
    {"POST", "/api-keys", handle_keys_create, BODY_REQUIRED, ACCESS_KEY, NULL},
    {"PATCH", "/api-keys/{}", handle_keys_rename, BODY_REQUIRED, ACCESS_KEY, NULL},
    {"DELETE", "/api-keys/{}", handle_keys_delete, BODY_NONE, ACCESS_KEY, NULL},
    {"GET", "/sandboxes/{}/metrics", handle_metrics, BODY_NONE, ACCESS_KEY, NULL},
    {"GET", "/sandboxes/{}/logs", handle_logs_v1, BODY_NONE, ACCESS_KEY, NULL},
    {"GET", "/v2/sandboxes/{}/logs", handle_logs_v2, BODY_NONE, ACCESS_KEY, stream_logs},
    {"GET", "/teams/{}/metrics", handle_metrics_team, BODY_NONE, ACCESS_KEY, NULL},
    {"GET", "/teams/{}/metrics/max", handle_metrics_team_max, BODY_NONE, ACCESS_KEY, NULL},
    {"GET", "/volumes", handle_volumes_list, BODY_NONE, ACCESS_KEY, NULL},
    {"POST", "/volumes", handle_volumes_create, BODY_REQUIRED, ACCESS_KEY, NULL},
    {"GET", "/volumes/{}", handle_volumes_get, BODY_NONE, ACCESS_KEY, NULL},
    {"DELETE", "/volumes/{}", handle_volumes_delete, BODY_NONE, ACCESS_KEY, NULL},
    {"GET", "/volumecontent/{}/path", NULL, BODY_NONE, ACCESS_OPEN, stream_volume},
    {"PATCH", "/volumecontent/{}/path", NULL, BODY_NONE, ACCESS_OPEN, stream_volume},
    {"DELETE", "/volumecontent/{}/path", NULL, BODY_NONE, ACCESS_OPEN, stream_volume},
    {"GET", "/volumecontent/{}/dir", NULL, BODY_NONE, ACCESS_OPEN, stream_volume},
    {"POST", "/volumecontent/{}/dir", NULL, BODY_NONE, ACCESS_OPEN, stream_volume},
    {"GET", "/volumecontent/{}/file", NULL, BODY_NONE, ACCESS_OPEN, stream_volume},
    {"PUT", "/volumecontent/{}/file", NULL, BODY_NONE, ACCESS_OPEN, stream_volume},
    {"GET", "/metrics", handle_figures, BODY_NONE, ACCESS_SCRAPE, NULL},
    {"GET", "/health", handle_health, BODY_NONE, ACCESS_PROBE, NULL},
    {"GET", "/", handle_about, BODY_NONE, ACCESS_PROBE, NULL},
};

static const char team_is_busy[] =
    "your team has its share of the server's requests under way; try again";

size_t routes_count(void)
{
    return countof(routes);
}

const struct route *route_at(size_t i)
{
    return &routes[i];
}

/* ---- finding the route ---- */

/* wide: the first {} takes two parts of the path, with the '/' between them. */
static bool match(const char *pattern, struct str path, bool wide, struct path_params *params)
{
    struct str want = str_of(pattern), wanted, given, more;

    while (str_split(&want, '/', &wanted)) {
        if (!str_split(&path, '/', &given)) {
            return false;
        }
        if (str_eq(wanted, STR("{}")) && given.len > 0) {
            if (wide && !params->first.at) {
                if (!str_split(&path, '/', &more) || more.len == 0) {
                    return false;
                }
                given.len = (size_t)(more.at + more.len - given.at);
            }
            params->last = given;
            params->first = params->first.at ? params->first : given;
        } else if (!str_eq(wanted, given)) {
            return false;
        }
    }
    return !path.at;
}

bool path_match(const char *pattern, struct str path, struct path_params *params)
{
    return match(pattern, path, false, params);
}

/* Clients send "namespace/name" of a template with its '/' as it is. */
static bool path_match_named(const char *pattern, struct str path, struct path_params *params)
{
    return strstr(pattern, "/templates/") && match(pattern, path, true, params);
}

static bool param_decode(struct str param, char out[API_PARAM_BYTES])
{
    scoped_buf(plain, API_PARAM_BYTES);

    if (param.len == 0) {
        return true;
    }
    return percent_decode(&plain, param, false) == 0 &&
           str_copy(out, API_PARAM_BYTES, buf_str(&plain));
}

static void refuse(struct call *call, int status, const char *message)
{
    call->refused = status;
    (void)snprintf(call->refusal, sizeof(call->refusal), "%s", message);
}

/* Leaves call->route; false: there is none. *other_method: there is one of another method. */
static bool route_match(struct call *call, const struct http_request *req,
                        bool (*matches)(const char *pattern, struct str path,
                                        struct path_params *params),
                        bool *other_method)
{
    for (size_t i = 0; i < countof(routes); i++) {
        struct path_params params = {0};

        if (!matches(routes[i].path, req->path, &params)) {
            continue;
        }
        if (!str_eq(str_of(routes[i].method), req->method)) {
            *other_method = true;
            continue;
        }
        if (!param_decode(params.last, call->param) || !param_decode(params.first, call->first)) {
            refuse(call, 400, "validation error: the path is not valid");
        }
        call->route = &routes[i];
        return true;
    }
    return false;
}

/* Leaves call->route, or a refusal. */
static void route_find(struct call *call, const struct http_request *req)
{
    bool other_method = false;

    if (route_match(call, req, path_match, &other_method) ||
        route_match(call, req, path_match_named, &other_method)) {
        return;
    }
    if (other_method) {
        refuse(call, 405, "validation error: this path does not take that method");
    } else {
        refuse(call, 404, "validation error: no such endpoint");
    }
}

bool api_is_call(const struct http_request *req)
{
    if (!http_header_get(req, "x-api-key").at) {
        return false;
    }
    for (size_t i = 0; i < countof(routes); i++) {
        struct path_params params = {0};

        if (routes[i].access == ACCESS_KEY && str_eq(str_of(routes[i].method), req->method) &&
            path_match(routes[i].path, req->path, &params)) {
            return true;
        }
    }
    return false;
}

/* ---- from head to handler ---- */

static void on_client_gone(void *ctx)
{
    struct call *call = ctx;

    call->ex = NULL; /* the handler that has the call ends it */
}

static size_t body_limit(const struct call *call)
{
    if (call->refused) {
        return 0;
    }
    bool large = call->route->handle == handle_create_v1 ||
                 call->route->handle == handle_create_v2 || call->route->handle == handle_network;
    if (call->route->handle == handle_build_start) {
        return API_BUILD_BODY_BYTES_MAX;
    }
    return large ? API_CREATE_BODY_BYTES_MAX : API_BODY_BYTES_MAX;
}

static void on_body(void *ctx, struct http_exchange *ex, int error, struct str text)
{
    struct call *call = ctx;
    scoped_json *body = NULL;
    struct err err;

    (void)ex;
    if (error < 0 && error != -EMSGSIZE) {
        call_free(call);
        return;
    }
    if (call->refused) {
        call_fail(call, call->refused, "%s", call->refusal);
        return;
    }
    if (error == -EMSGSIZE) {
        call_fail(call, 413, "validation error: the body is larger than %zu bytes",
                  body_limit(call));
        return;
    }
    if (call->route->body != BODY_NONE) {
        int r = body_parse(text, call->route->body == BODY_OPTIONAL, &body, &err);

        if (r < 0) {
            call_fail_err(call, r, &err);
            return;
        }
    }
    call->route->handle(call, body);
}

static bool is_open(const struct route *route)
{
    return route->access == ACCESS_OPEN || route->access == ACCESS_PROBE;
}

static bool is_for_pages(const struct call *call)
{
    return !call->route ||
           (call->route->access != ACCESS_PROBE && call->route->access != ACCESS_SCRAPE &&
            call->route->access != ACCESS_ADMIN);
}

static struct call *call_new(struct api *api, struct http_exchange *ex)
{
    struct call *call = xnew(struct call);

    call->api = api;
    call->ex = ex;
    call->begun_us = clock_mono_us();
    api->calls++;
    return call;
}

static void give_place(void *ctx)
{
    share_give(ctx);
}

bool call_charge(struct call *call, const char *team_id)
{
    struct share *share = NULL;

    if (shares_take(call->api->options.shares, team_id, &share) < 0) {
        call_header(call, "Retry-After", "1");
        refuse(call, 429, team_is_busy);
        return false;
    }
    http_charge(call->ex, give_place, share);
    return true;
}

/* The account that a request is charged to. Nobody's requests are all in one: whoever has a key is
 * none the worse for them. */
static const char *account_of(struct api *api, const struct http_request *req)
{
    struct key *key = NULL;
    struct err err;

    if (auth_check(api, req, &key, &err) == 0) {
        return key->team->id;
    }
    return admin_check(api, req, &err) == 0 ? "admin" : "";
}

bool api_admit(struct api *api, struct http_exchange *ex)
{
    const char *account = account_of(api, http_request(ex));
    struct share *share = NULL;
    bool known = account[0] != '\0';

    if (shares_take(api->options.shares, account, &share) == 0) {
        http_charge(ex, give_place, share);
        return true;
    }
    struct call *call = call_new(api, ex);
    cors_also(ex, CORS_API);
    if (known) {
        call_header(call, "Retry-After", "1");
        refuse(call, 429, team_is_busy);
    } else {
        refuse(call, 503, "too many requests without a valid key are under way; try again");
    }
    http_gather(ex, 0, on_body, on_client_gone, call);
    return false;
}

/* The admin may act for a team that it names. */
static int authenticate_admin(struct call *call, const struct http_request *req, struct err *err)
{
    struct str team = str_trim(http_header_get(req, "x-team-id"));
    char id[ID_UUID_LEN + 1] = "";
    int r = admin_check(call->api, req, err);

    if (r < 0 || call->route->access == ACCESS_ADMIN) {
        return r;
    }
    (void)str_copy(id, sizeof(id), team);
    call->team = accounts_team(call->api, id);
    return call->team ? 0
                      : err_set(err, EACCES,
                                "Invalid admin token teamID: X-Team-ID names no team of this "
                                "server");
}

/* Leaves who asks in the call. -EACCES with the sentence. */
static int authenticate(struct call *call, const struct http_request *req, struct err *err)
{
    bool has_key = auth_key_text(req).at != NULL;
    struct key *key = NULL;

    if (call->route->access == ACCESS_ADMIN ||
        (!has_key && http_header_get(req, "x-admin-token").at)) {
        return authenticate_admin(call, req, err);
    }
    int r = auth_check(call->api, req, &key, err);
    if (r == 0) {
        call->team = key->team;
        memcpy(call->key_id, key->id, sizeof(call->key_id));
        call->limited = limits_any(&key->limits);
    }
    return r;
}

/* Who has no key, or no route, is told before a body is taken. */
void api_handle(struct api *api, struct http_exchange *ex)
{
    const struct http_request *req = http_request(ex);
    struct err err;

    if (str_eq(req->method, STR("OPTIONS"))) {
        cors_preflight(ex, CORS_API);
        return;
    }
    struct call *call = call_new(api, ex);
    route_find(call, req);
    if (is_for_pages(call)) {
        cors_also(ex, CORS_API);
    }
    if (!call->refused && !is_open(call->route) && authenticate(call, req, &err) < 0) {
        refuse(call, 401, err.msg);
    }
    if (!call->refused && call->route->stream && call->route->stream(call)) {
        return;
    }
    http_gather(ex, body_limit(call), on_body, on_client_gone, call);
}

/* ---- the whole ---- */

static void api_destroy(struct api *api)
{
    accounts_free(api);
    admin_keys_free(api);
    makers_free(api);
    free(api->default_key_path);
    free(api->figures);
    free(api);
}

int api_new(const struct api_options *options, struct api **out, struct err *err)
{
    struct api *api = xnew(struct api);
    int r;

    api->options = *options;
    api->figures = xcalloc(countof(routes) + 1, sizeof(struct route_figures));
    api->started_mono_ms = clock_mono_ms();
    api->status_changed_ms = clock_wall_ms();
    r = accounts_load(api, err);
    if (r < 0) {
        api_destroy(api);
        return r;
    }
    usage_start(api);
    *out = api;
    return 0;
}

void api_release(struct api *api)
{
    api->calls--;
    if (api->closed && api->calls == 0) {
        api_destroy(api);
    }
}

/* A call may still wait for the store or for a sandbox: it ends after us, and finds nobody to tell.
 * The last of them frees, or the timer, which libuv closes later. */
void api_free(struct api *api)
{
    if (!api) {
        return;
    }
    api->closed = true;
    usage_stop(api);
}
