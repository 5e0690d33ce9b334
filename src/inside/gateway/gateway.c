#include "inside/gateway/gateway.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inside/gateway/internal.h"
#include "inside/gateway/message.h"
#include "lib/base/alloc.h"
#include "lib/base/encode.h"
#include "lib/http/cors.h"

enum {
    TICK_MS = 15 * 1000, /* shorter than what proxies take for a dead connection */
    HEADERS_MAX = 8,
};

/* ---- notifications of servers ---- */

static void on_server_up(void *ctx, struct mcp_server *server)
{
    struct gateway *g = ctx;

    for (size_t i = 0; i < g->n; i++) {
        g->is_up[i] = g->is_up[i] || g->servers[i] == server;
    }
    if (--g->missing == 0 && !g->ended) {
        g->ended = true;
        g->options.on_up(g->options.ctx);
    }
}

static void on_server_failed(void *ctx, struct mcp_server *server, const char *why, struct str said)
{
    struct gateway *g = ctx;
    char sentence[1024];

    if (!g->ended) {
        g->ended = true;
        (void)snprintf(sentence, sizeof(sentence), "the MCP server %s %s",
                       mcp_server_plan(server)->name, why);
        g->options.on_failed(g->options.ctx, sentence, said);
    }
}

static void on_changed(void *ctx, struct mcp_server *server, enum mcp_server_list list)
{
    static const char *const methods[MCP_SERVER_LISTS] = {
        [MCP_SERVER_TOOLS] = "notifications/tools/list_changed",
        [MCP_SERVER_PROMPTS] = "notifications/prompts/list_changed",
        [MCP_SERVER_RESOURCES] = "notifications/resources/list_changed",
        [MCP_SERVER_TEMPLATES] = "notifications/resources/list_changed",
    };
    struct gateway *g = ctx;
    json_auto_t *message = jsonrpc_notification(methods[list], NULL);

    (void)server;
    gateway_sessions_notify(&g->sessions, message);
    stateless_tell_changed(g, list, methods[list]);
}

static void updated_notify(struct gateway *g, const json_t *message, const char *uri)
{
    struct session_entry *entry, *next;

    session_each (&g->sessions, entry, next) {
        struct gateway_session *session = gateway_session_of(entry);
        if (json_object_get(session->subscribed, uri)) {
            gateway_session_notify(session, message);
        }
    }
}

static void on_notification(void *ctx, struct mcp_server *server, const char *method,
                            json_t *params)
{
    struct gateway *g = ctx;
    const char *prefix = mcp_server_plan(server)->prefix;
    json_t *copy = json_copy(params);
    json_auto_t *message = jsonrpc_notification(method, copy);

    if (strcmp(method, "notifications/resources/updated") == 0) {
        updated_notify(g, message, json_text_of(params, "uri"));
    } else if (strcmp(method, "notifications/message") == 0) {
        const char *logger = json_text_of(params, "logger");
        (void)json_object_set_new(copy, "logger",
                                  json_sprintf("%s%s%s", prefix, *logger ? "-" : "", logger));
        gateway_sessions_notify(&g->sessions, message);
    }
}

static const struct mcp_server_events events = {
    .on_up = on_server_up,
    .on_failed = on_server_failed,
    .on_changed = on_changed,
    .on_notification = on_notification,
};

/* ---- requests ---- */

static bool is_authorized(const struct gateway *g, const struct http_request *request)
{
    struct str given = http_header_get(request, "authorization");
    struct str scheme = {given.at, strlen("Bearer ")};

    return given.len > scheme.len && str_ieq(scheme, STR("Bearer ")) &&
           str_eq_secret(str_trim(str_skip(given, scheme.len)), str_of(g->options.token));
}

/* The session that a request without a message names, or NULL and an answer. */
static struct gateway_session *session_need(struct gateway *g, struct http_exchange *ex)
{
    struct str id = http_header_get(http_request(ex), "mcp-session-id");
    struct mcp_refusal why;
    struct gateway_session *session = gateway_session_find(&g->sessions, id, &why);

    if (!session) {
        mcp_refuse(ex, why.status, why.code, why.sentence);
    }
    return session;
}

static void mcp_serve(struct gateway *g, struct http_exchange *ex)
{
    struct str method = http_request(ex)->method;
    struct gateway_session *session;

    if (str_eq(method, STR("POST"))) {
        post_accept(&g->posts, ex);
    } else if (str_eq(method, STR("GET"))) {
        session = session_need(g, ex);
        if (session) {
            gateway_session_listen(session, ex);
        }
    } else if (str_eq(method, STR("DELETE"))) {
        session = session_need(g, ex);
        if (session) {
            gateway_session_end(session);
            http_answer(ex, 204, NULL, NULL, 0);
        }
    } else {
        mcp_refuse(ex, 405, JSONRPC_INVALID_REQUEST, "the methods are GET, POST and DELETE");
    }
}

/* A refusal also says which kind of token is expected. */
static void headers_add(struct http_exchange *ex, bool refused)
{
    static struct http_header all[HEADERS_MAX];
    size_t n = 0;
    const struct http_header *cors = cors_headers(CORS_GATEWAY, &n);

    assert(n < HEADERS_MAX);
    memcpy(all, cors, n * sizeof(*cors));
    all[n] = (struct http_header){STR("www-authenticate"), STR("Bearer")};
    http_also(ex, all, n + refused);
}

void gateway_request(void *gateway, struct http_exchange *ex)
{
    struct gateway *g = gateway;
    struct str path = http_request(ex)->path;
    bool refused = !is_authorized(g, http_request(ex));

    headers_add(ex, refused);
    if (str_eq(http_request(ex)->method, STR("OPTIONS"))) {
        http_answer(ex, 204, NULL, NULL, 0);
    } else if (str_eq(path, STR("/health"))) {
        http_answer(ex, 200, "text/plain", "OK", 2);
    } else if (refused) {
        mcp_refuse(ex, 401, JSONRPC_INVALID_REQUEST, "the bearer token is missing or wrong");
    } else if (!str_eq(path, STR("/mcp"))) {
        mcp_refuse(ex, 404, JSONRPC_INVALID_REQUEST, "there is only /mcp here");
    } else {
        mcp_serve(g, ex);
    }
}

/* ---- life ---- */

static void on_tick(uv_timer_t *timer)
{
    struct gateway *g = container_of(timer, struct gateway, tick);

    posts_tick(&g->posts);
    gateway_sessions_tick(&g->sessions);
}

struct gateway *gateway_new(const struct gateway_options *options)
{
    struct gateway *g = xnew(struct gateway);

    g->options = *options;
    g->sessions.rules = &gateway_session_rules;
    g->posts = (struct posts){.on_message = methods_serve, .ctx = g};
    for (size_t i = 0; i < options->plans->n; i++) {
        g->servers[g->n++] = mcp_server_new(&g->options.place, &options->plans->all[i], &events, g);
    }
    g->missing = g->n;
    (void)uv_timer_init(options->place.loop, &g->tick);
    (void)uv_timer_start(&g->tick, on_tick, TICK_MS, TICK_MS);
    return g;
}

void gateway_start(struct gateway *g)
{
    for (size_t i = 0; i < g->n && !g->ended; i++) {
        mcp_server_start(g->servers[i]);
    }
}

struct str gateway_missing(const struct gateway *g, char *names, size_t size)
{
    static const char being_installed[] =
        " (still being installed; addMcpServer of a template installs it ahead)";
    struct str said = {"", 0};
    size_t len = 0;

    names[0] = '\0';
    for (size_t i = 0; i < g->n && len < size; i++) {
        if (!g->is_up[i]) {
            said = len ? said : mcp_server_said(g->servers[i]);
            const char *why = mcp_server_is_installing(g->servers[i]) ? being_installed : "";
            len += (size_t)snprintf(names + len, size - len, "%s%s%s", len ? ", " : "",
                                    mcp_server_plan(g->servers[i])->name, why);
        }
    }
    return said;
}

static void on_tick_closed(uv_handle_t *handle)
{
    free(container_of((uv_timer_t *)handle, struct gateway, tick));
}

/* Calls that wait are answered with an error when their server goes. */
void gateway_free(struct gateway *g)
{
    gateway_sessions_end(&g->sessions);
    for (size_t i = 0; i < g->n; i++) {
        mcp_server_free(g->servers[i]);
    }
    uv_close((uv_handle_t *)&g->tick, on_tick_closed);
}
