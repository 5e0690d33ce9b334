#include "serve/api/api.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/encode.h"
#include "lib/base/shares.h"
#include "serve/api/internal.h"
#include "serve/web/web.h"

static const char team_is_busy[] =
    "your team has its share of the server's requests under way; try again";

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

void call_refuse(struct call *call, int status, const char *message)
{
    call->refused = status;
    (void)snprintf(call->refusal, sizeof(call->refusal), "%s", message);
}

/* Sets call->route; false: no route matches. *other_method: the path has a route of another
 * method. */
static bool route_match(struct call *call, const struct http_request *req,
                        bool (*matches)(const char *pattern, struct str path,
                                        struct path_params *params),
                        bool *other_method)
{
    for (size_t i = 0; i < routes_count(); i++) {
        const struct route *route = route_at(i);
        struct path_params params = {0};

        if ((route->access == ACCESS_INTERNAL && !call->internal) ||
            !matches(route->path, req->path, &params)) {
            continue;
        }
        if (!str_eq(str_of(route->method), req->method)) {
            *other_method = true;
            continue;
        }
        if (!param_decode(params.last, call->param) || !param_decode(params.first, call->first)) {
            call_refuse(call, 400, "validation error: the path is not valid");
        }
        call->route = route;
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
        call_refuse(call, 405, "validation error: this path does not take that method");
    } else {
        call_refuse(call, 404, "validation error: no such endpoint");
    }
}

/* A program in a sandbox may have a path of its own that no page reads here, such as /metrics. */
static bool is_team_route(const struct route *route)
{
    return (route->access == ACCESS_KEY || route->access == ACCESS_FULL_KEY) &&
           !(route->flags & NO_CORS);
}

bool api_is_call(const struct http_request *req)
{
    if (!http_header_get(req, "x-api-key").at) {
        return false;
    }
    for (size_t i = 0; i < routes_count(); i++) {
        const struct route *route = route_at(i);
        struct path_params params = {0};

        if (is_team_route(route) && str_eq(str_of(route->method), req->method) &&
            path_match(route->path, req->path, &params)) {
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

static void refuse_long(struct call *call)
{
    char message[API_MESSAGE_BYTES];

    (void)snprintf(message, sizeof(message),
                   "validation error: the body is larger than %" PRId64 " bytes",
                   call->route->body_bytes_max);
    call_refuse(call, 413, message);
}

static void on_body(void *ctx, struct http_exchange *ex, int error, struct str text)
{
    struct call *call = ctx;
    scoped_json *body = NULL;
    struct err err;
    int r = 0;

    (void)ex;
    if (error < 0 && error != -EMSGSIZE) {
        call_free(call);
        return;
    }
    if (!call->refused && error == -EMSGSIZE) {
        refuse_long(call);
    }
    if (call->refused) {
        call_fail(call, call->refused, "%s", call->refusal);
        return;
    }
    if (call->route->body != BODY_NONE) {
        r = body_parse(text, call->route->body == BODY_OPTIONAL, &body, &err);
    }
    if (r < 0) {
        call_fail_err(call, r, &err);
    } else {
        call->route->handle(call, body);
    }
}

static struct call *call_new(struct api *api, struct http_exchange *ex)
{
    struct call *call = xnew(struct call);

    call->api = api;
    call->ex = ex;
    call->begun_us = clock_mono_us();
    call->trace = http_note_trace(ex);
    api->calls++;
    return call;
}

static void give_place(void *ctx)
{
    share_give(ctx);
}

/* api_admit() has charged a call without a key to no team: its token names the team. */
static void charge_by_token(struct call *call)
{
    struct share *share = NULL;

    if (shares_take(call->api->options.shares, call->team->id, &share) < 0) {
        call_header(call, "Retry-After", "1");
        call_refuse(call, 429, team_is_busy);
        return;
    }
    http_charge(call->ex, give_place, share);
}

/* The account that a request is charged to. All requests without a key share a single account, so
 * they take nothing from callers that have a key. */
static const char *account_of(struct api *api, const struct http_request *req)
{
    const struct admin_key *admin = NULL;
    struct key *key = NULL;
    struct err err;

    if (auth_check(api, req, &key, &err) == 0) {
        return key->team->id;
    }
    return admin_check(api, req, &admin, &err) == 0 ? "admin" : "";
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
        call_refuse(call, 429, team_is_busy);
    } else {
        call_refuse(call, 503, "too many requests without a valid key are under way; try again");
    }
    http_gather(ex, 0, on_body, on_client_gone, call);
    return false;
}

/* The team that the path names, for which the admin acts. */
static void team_find(struct call *call)
{
    char message[API_MESSAGE_BYTES];

    call->team = accounts_team(call->api, call->first);
    if (!call->team) {
        (void)snprintf(message, sizeof(message), "Team '%.64s' not found", call->first);
        call_refuse(call, 404, message);
    }
}

/* All that the table says of the route is checked here, before a body is taken. */
static void check(struct call *call)
{
    const struct route *route = call->route;
    struct err err;
    int r = call_authenticate(call, &err);

    if (r < 0) {
        call_refuse(call, status_of_errno(STATUS_LOGIN, r), err.msg);
        return;
    }
    if (route->access == ACCESS_UPLOAD_TOKEN || route->access == ACCESS_VOLUME_TOKEN) {
        charge_by_token(call);
    }
    if (route->flags & FOR_TEAM) {
        team_find(call);
    }
    if (route->body_bytes_max > 0 &&
        http_request(call->ex)->content_length > route->body_bytes_max) {
        refuse_long(call);
    }
}

/* For the access log and traces. */
static void note(const struct call *call)
{
    struct http_note *note = http_note(call->ex);
    struct str id;

    if (!note || !call->route) {
        return;
    }
    note->route = call->route->path;
    http_note_account(call->ex, call->team ? call->team->id : "", call->key_id);
    if (strstr(call->route->path, "/sandboxes/{}") && sandbox_id_cut(call->first, &id)) {
        (void)str_copy(note->sandbox, sizeof(note->sandbox), id);
    }
}

static void handle(struct api *api, struct http_exchange *ex, bool internal)
{
    const struct http_request *req = http_request(ex);

    if (api->web && web_handle(api->web, ex)) {
        return;
    }
    if (str_eq(req->method, STR("OPTIONS"))) {
        cors_preflight(ex, CORS_API);
        return;
    }
    struct call *call = call_new(api, ex);
    call->internal = internal;
    route_find(call, req);
    if (!call->route || !(call->route->flags & NO_CORS)) {
        cors_also(ex, CORS_API);
    }
    if (!call->refused) {
        check(call);
        audit_begin(call);
        note(call);
        call->admin = NULL; /* the key may be deleted while the call goes on */
    }
    if (!call->refused && call->route->stream && call->route->stream(call)) {
        return;
    }
    http_gather(ex, call->refused ? 0 : (size_t)call->route->body_bytes_max, on_body,
                on_client_gone, call);
}

void api_handle(struct api *api, struct http_exchange *ex)
{
    handle(api, ex, false);
}

void api_handle_internal(struct api *api, struct http_exchange *ex)
{
    handle(api, ex, true);
}

/* ---- the whole ---- */

static void api_destroy(struct api *api)
{
    accounts_free(api);
    admin_keys_free(api);
    makers_free(api);
    web_free(api->web);
    free(api->default_key_path);
    free(api->figures);
    free(api);
}

int api_new(const struct api_options *options, struct api **out, struct err *err)
{
    struct api *api = xnew(struct api);
    int r;

    api->options = *options;
    api->figures = xcalloc(routes_count() + 1, sizeof(struct route_figures));
    api->started_mono_ms = clock_mono_ms();
    api->status_changed_ms = clock_wall_ms();
    r = accounts_load(api, err);
    if (r == 0 && options->web_files) {
        r = web_new(options->web_files, options->web_files_n, &api->web, err);
    }
    if (r == 0) {
        r = audit_load(api, err);
    }
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

/* A call may still wait for the store or for a sandbox: it ends after the API was freed, and its
 * answer is dropped. The last call frees the memory, or the timer, which libuv closes later. */
void api_free(struct api *api)
{
    if (!api) {
        return;
    }
    api->closed = true;
    usage_stop(api);
}
