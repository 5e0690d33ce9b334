#include "api/api.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/internal.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/encode.h"
#include "base/shares.h"

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
    {"GET", "/v2/templates", handle_templates_v2, BODY_NONE, ACCESS_KEY, NULL},
    {"GET", "/templates/aliases/{}", handle_alias, BODY_NONE, ACCESS_KEY, NULL},
    {"POST", "/v3/templates", handle_build_v3, BODY_REQUIRED, ACCESS_KEY, NULL},
    {"POST", "/v2/templates", handle_build_v2, BODY_REQUIRED, ACCESS_KEY, NULL},
    {"POST", "/templates/tags", handle_tags_assign, BODY_REQUIRED, ACCESS_KEY, NULL}, /* first */
    {"DELETE", "/templates/tags", handle_tags_remove, BODY_REQUIRED, ACCESS_KEY, NULL},
    {"POST", "/templates/prune", handle_template_prune, BODY_OPTIONAL, ACCESS_KEY, NULL},
    {"GET", "/templates/{}/tags", handle_tags, BODY_NONE, ACCESS_KEY, NULL},
    {"GET", "/templates/{}", handle_template, BODY_NONE, ACCESS_KEY, NULL},
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
};

static const char team_is_busy[] =
    "your team has its share of the server's requests under way; try again";

static const struct route absent_route = {"", "", handle_absent, BODY_NONE, ACCESS_KEY, NULL};

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
    call->absent = absent_find(req);
    if (call->absent) {
        call->route = &absent_route;
    } else if (other_method) {
        refuse(call, 405, "validation error: this path does not take that method");
    } else {
        refuse(call, 404, "validation error: no such endpoint");
    }
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

/* Nobody's requests are all in one account: whoever has a key is none the worse for them. */
bool api_admit(struct api *api, struct http_exchange *ex)
{
    const struct team *team = NULL;
    struct share *share = NULL;
    struct err err;

    bool known = auth_check(api, http_request(ex), &team, &err) == 0;
    if (shares_take(api->options.shares, known ? team->id : "", &share) == 0) {
        http_charge(ex, give_place, share);
        return true;
    }
    struct call *call = call_new(api, ex);
    if (known) {
        call_header(call, "Retry-After", "1");
        refuse(call, 429, team_is_busy);
    } else {
        refuse(call, 503, "too many requests without a valid key are under way; try again");
    }
    http_gather(ex, 0, on_body, on_client_gone, call);
    return false;
}

/* Who has no key, or no route, is told before a body is taken. */
void api_handle(struct api *api, struct http_exchange *ex)
{
    const struct http_request *req = http_request(ex);
    struct err err;

    if (str_eq(req->method, STR("OPTIONS"))) {
        cors_preflight(ex);
        return;
    }
    struct call *call = call_new(api, ex);
    route_find(call, req);
    if (!call->refused && !is_open(call->route) && auth_check(api, req, &call->team, &err) < 0) {
        refuse(call, 401, err.msg);
    }
    if (!call->refused && call->route->stream && call->route->stream(call)) {
        return;
    }
    http_gather(ex, body_limit(call), on_body, on_client_gone, call);
}

/* ---- the whole ---- */

int api_new(const struct api_options *options, struct api **out, struct err *err)
{
    struct api *api = xnew(struct api);
    int r;

    api->options = *options;
    api->figures = xcalloc(countof(routes) + 1, sizeof(struct route_figures));
    api->started_mono_ms = clock_mono_ms();
    r = accounts_load(api, err);
    if (r < 0) {
        api_free(api);
        return r;
    }
    *out = api;
    return 0;
}

static void api_destroy(struct api *api)
{
    accounts_free(api);
    free(api->default_key_path);
    free(api->figures);
    free(api);
}

void api_release(struct api *api)
{
    api->calls--;
    if (api->closed && api->calls == 0) {
        api_destroy(api);
    }
}

/* A call may still wait for the store or for a sandbox: it ends after us, and finds nobody to tell.
 */
void api_free(struct api *api)
{
    if (!api) {
        return;
    }
    api->closed = true;
    if (api->calls == 0) {
        api_destroy(api);
    }
}
