/* methods.c - the methods that clients may call, and the server that each goes to. */
#include <stdlib.h>
#include <string.h>

#include "inside/gateway/internal.h"
#include "inside/gateway/message.h"
#include "inside/gateway/names.h"
#include "lib/base/buf.h"
#include "lib/base/text.h"
#include "lib/mcp/stateless.h"

enum {
    INSTRUCTIONS_BYTES_MAX = 64 * 1024,
};

/* ---- description of the gateway ---- */

static bool any_can(const struct gateway *g, const char *capability)
{
    for (size_t i = 0; i < g->n; i++) {
        if (mcp_server_can(g->servers[i], capability)) {
            return true;
        }
    }
    return false;
}

static bool any_can_subscribe(const struct gateway *g)
{
    for (size_t i = 0; i < g->n; i++) {
        if (mcp_server_can_subscribe(g->servers[i])) {
            return true;
        }
    }
    return false;
}

static json_t *capabilities(const struct gateway *g)
{
    static const char *const lists[] = {"tools", "prompts", "resources"};
    static const char *const plain[] = {"logging", "completions"};
    json_t *out = json_object();

    for (size_t i = 0; i < countof(lists); i++) {
        if (any_can(g, lists[i])) {
            (void)json_object_set_new(out, lists[i], json_pack("{s:b}", "listChanged", 1));
        }
    }
    for (size_t i = 0; i < countof(plain); i++) {
        if (any_can(g, plain[i])) {
            (void)json_object_set_new(out, plain[i], json_object());
        }
    }
    if (any_can_subscribe(g)) {
        (void)json_object_set_new(json_object_get(out, "resources"), "subscribe", json_true());
    }
    return out;
}

/* The servers' own instructions, each under its name. */
static json_t *instructions(const struct gateway *g)
{
    scoped_buf(out, INSTRUCTIONS_BYTES_MAX);
    int r = 0;

    for (size_t i = 0; i < g->n && r == 0; i++) {
        const char *text = mcp_server_instructions(g->servers[i]);
        if (*text) {
            r = buf_printf(&out, "%s%s: %s", buf_len(&out) ? "\n\n" : "",
                           mcp_server_plan(g->servers[i])->prefix, text);
        }
    }
    return buf_len(&out) ? json_stringn(buf_at(&out), buf_len(&out)) : NULL;
}

json_t *methods_describe(const struct gateway *g)
{
    json_t *about = json_pack("{s:o}", "capabilities", capabilities(g));
    json_t *text = instructions(g);

    if (text) {
        (void)json_object_set_new(about, "instructions", text);
    }
    return about;
}

static json_t *server_info(void)
{
    return json_pack("{s:s, s:s}", "name", "mcp-gateway", "version", ATOLL_VERSION);
}

static void initialize(struct gateway *g, struct post *post, const json_t *params)
{
    enum mcp_version version = version_negotiate(json_text_of(params, "protocolVersion"));
    json_t *result = methods_describe(g);

    (void)json_object_set_new(result, "protocolVersion", json_string(version_name(version)));
    (void)json_object_set_new(result, "serverInfo", server_info());
    post_answer_session(post, jsonrpc_result(post->message.id, result),
                        gateway_session_new(&g->sessions, version)->entry.id);
}

/* ---- answers ---- */

/* Clients may cache lists and resources, but for no time, since servers change them. */
static bool may_be_kept(const char *method)
{
    return str_ends(str_of(method), STR("/list")) || strcmp(method, "resources/read") == 0 ||
           strcmp(method, "server/discover") == 0;
}

static void complete_result(const struct post *post, json_t *result)
{
    if (version_is_stateless(post->version)) {
        stateless_result(result, server_info(), may_be_kept(post->message.method) ? 0 : -1);
    }
}

void methods_answer(struct post *post, json_t *result)
{
    complete_result(post, result);
    post_answer(post, jsonrpc_result(post->message.id, result));
}

/* ---- lists ---- */

static void list_serve(struct gateway *g, struct post *post, enum mcp_server_list list,
                       const char *key)
{
    json_t *items = json_array();

    for (size_t i = 0; i < g->n; i++) {
        names_add(items, mcp_server_items(g->servers[i], list),
                  mcp_server_plan(g->servers[i])->prefix);
    }
    methods_answer(post, json_pack("{s:o}", key, items));
}

static void tools_list(struct gateway *g, struct post *post, json_t *params)
{
    (void)params;
    list_serve(g, post, MCP_SERVER_TOOLS, "tools");
}

static void prompts_list(struct gateway *g, struct post *post, json_t *params)
{
    (void)params;
    list_serve(g, post, MCP_SERVER_PROMPTS, "prompts");
}

static void resources_list(struct gateway *g, struct post *post, json_t *params)
{
    (void)params;
    list_serve(g, post, MCP_SERVER_RESOURCES, "resources");
}

static void templates_list(struct gateway *g, struct post *post, json_t *params)
{
    (void)params;
    list_serve(g, post, MCP_SERVER_TEMPLATES, "resourceTemplates");
}

/* ---- questions that a server answers ---- */

static void on_answer(void *ctx, json_t *message)
{
    struct post *post = ctx;
    json_t *answer = json_copy(message);
    const json_t *result = json_object_get(answer, "result");

    (void)json_object_set(answer, "id", post->message.id);
    if (json_is_object(result)) {
        json_t *own = json_copy(json_unconst(result));
        complete_result(post, own);
        (void)json_object_set_new(answer, "result", own);
    }
    post->server = NULL;
    post_answer(post, answer);
}

static void on_progress(void *ctx, json_t *params)
{
    struct post *post = ctx;
    const json_t *meta = json_object_get(post->message.params, "_meta");
    json_t *token = json_object_get(meta, "progressToken");
    json_t *copy = json_copy(params);

    if (token) {
        (void)json_object_set(copy, "progressToken", token);
    }
    post_tell(post, jsonrpc_notification("notifications/progress", copy));
}

static const struct mcp_server_asker asker = {.on_answer = on_answer, .on_progress = on_progress};

/* Removes the protocol's own metadata from a stateless request: it is for the gateway, and servers
 * have sessions. */
static void meta_strip(json_t *params)
{
    json_t *own = json_object();

    json_each (json_object_get(params, "_meta"), it) {
        if (!str_starts(str_of(json_object_iter_key(it)), STR(MCP_META))) {
            (void)json_object_set(own, json_object_iter_key(it), json_object_iter_value(it));
        }
    }
    (void)json_object_set_new(params, "_meta", own);
}

/* The parameters are taken over. The server's answer may come inside this call: the post is not
 * touched after it. */
static void forward(struct post *post, struct mcp_server *server, json_t *params)
{
    if (version_is_stateless(post->version)) {
        meta_strip(params);
    }
    post->server = server;
    mcp_server_ask(server, post->message.method, params, &asker, post, &post->question);
}

/* The server that has a tool or a prompt of this name; *own is what that server calls it. */
static struct mcp_server *named_find(const struct gateway *g, enum mcp_server_list list,
                                     const char *name, const char **own)
{
    for (size_t i = 0; i < g->n; i++) {
        *own = names_own(name, mcp_server_plan(g->servers[i])->prefix);
        if (*own && names_has(mcp_server_items(g->servers[i], list), "name", *own)) {
            return g->servers[i];
        }
    }
    return NULL;
}

static void named_serve(struct gateway *g, struct post *post, json_t *params,
                        enum mcp_server_list list, const char *what)
{
    const char *own = NULL;
    const char *name = json_text_of(params, "name");
    struct mcp_server *server = named_find(g, list, name, &own);

    if (!server) {
        post_answer(post, message_error(post->message.id, JSONRPC_INVALID_PARAMS, "Unknown %s: %s",
                                        what, name));
        return;
    }
    json_t *renamed = json_copy(params);
    (void)json_object_set_new(renamed, "name", json_string(own));
    forward(post, server, renamed);
}

static void tools_call(struct gateway *g, struct post *post, json_t *params)
{
    named_serve(g, post, params, MCP_SERVER_TOOLS, "tool");
}

static void prompts_get(struct gateway *g, struct post *post, json_t *params)
{
    named_serve(g, post, params, MCP_SERVER_PROMPTS, "prompt");
}

static bool has_template(const struct mcp_server *server, const char *uri)
{
    const json_t *item;
    size_t i;

    json_array_foreach (mcp_server_items(server, MCP_SERVER_TEMPLATES), i, item) {
        if (names_match(json_text_of(item, "uriTemplate"), uri)) {
            return true;
        }
    }
    return false;
}

/* The server that lists the resource; else one whose template it fits; else the only server that
 * has resources. */
static struct mcp_server *resource_find(const struct gateway *g, const char *uri)
{
    struct mcp_server *any = NULL;
    size_t with_resources = 0;

    for (size_t i = 0; i < g->n; i++) {
        if (names_has(mcp_server_items(g->servers[i], MCP_SERVER_RESOURCES), "uri", uri)) {
            return g->servers[i];
        }
    }
    for (size_t i = 0; i < g->n; i++) {
        if (has_template(g->servers[i], uri)) {
            return g->servers[i];
        }
        if (mcp_server_can(g->servers[i], "resources")) {
            any = g->servers[i];
            with_resources++;
        }
    }
    return with_resources == 1 ? any : NULL;
}

static struct mcp_server *resource_need(struct gateway *g, struct post *post, const char *uri)
{
    struct mcp_server *server = resource_find(g, uri);

    if (!server) {
        int code = version_is_stateless(post->version) ? (int)JSONRPC_INVALID_PARAMS
                                                       : (int)MESSAGE_NO_RESOURCE;
        post_answer(post, message_error(post->message.id, code, "Resource not found: %s", uri));
    }
    return server;
}

static void resources_read(struct gateway *g, struct post *post, json_t *params)
{
    struct mcp_server *server = resource_need(g, post, json_text_of(params, "uri"));

    if (server) {
        forward(post, server, json_copy(params));
    }
}

/* session_serve() has seen that there is one. */
static struct gateway_session *session_named(struct gateway *g, const struct post *post)
{
    struct mcp_refusal why;

    return gateway_session_find(&g->sessions, str_of(post->session), &why);
}

static void resources_subscribe(struct gateway *g, struct post *post, json_t *params)
{
    const char *uri = json_text_of(params, "uri");
    const struct gateway_session *session = session_named(g, post);
    struct mcp_server *server = resource_need(g, post, uri);

    if (!server) {
        return;
    }
    if (json_object_size(session->subscribed) >= SESSION_SUBSCRIBED_MAX) {
        post_refuse(post, 200, JSONRPC_INVALID_REQUEST, "too many resources are subscribed to");
        return;
    }
    (void)json_object_set_new(session->subscribed, uri, json_true());
    forward(post, server, json_copy(params));
}

static bool is_subscribed(const struct gateway *g, const char *uri)
{
    struct session_entry *entry, *next;

    session_each (&g->sessions, entry, next) {
        if (json_object_get(gateway_session_of(entry)->subscribed, uri)) {
            return true;
        }
    }
    return false;
}

/* The server is told when the last client has lost interest. */
static void resources_unsubscribe(struct gateway *g, struct post *post, json_t *params)
{
    const char *uri = json_text_of(params, "uri");
    const struct gateway_session *session = session_named(g, post);
    struct mcp_server *server = resource_need(g, post, uri);

    if (!server) {
        return;
    }
    (void)json_object_del(session->subscribed, uri);
    if (is_subscribed(g, uri)) {
        methods_answer(post, json_object());
    } else {
        forward(post, server, json_copy(params));
    }
}

/* The reference is a prompt by its name, or a resource by its address or template. */
static void complete(struct gateway *g, struct post *post, json_t *params)
{
    json_t *ref = json_object_get(params, "ref");
    const char *own = NULL, *uri = json_text_of(ref, "uri");
    struct mcp_server *server = NULL;
    json_auto_t *renamed = json_copy(params);

    if (*uri) {
        for (size_t i = 0; i < g->n && !server; i++) {
            bool has = names_has(mcp_server_items(g->servers[i], MCP_SERVER_TEMPLATES),
                                 "uriTemplate", uri);
            server = has ? g->servers[i] : NULL;
        }
        server = server ? server : resource_find(g, uri);
    } else if ((server = named_find(g, MCP_SERVER_PROMPTS, json_text_of(ref, "name"), &own))) {
        json_t *own_ref = json_copy(ref);
        (void)json_object_set_new(own_ref, "name", json_string(own));
        (void)json_object_set_new(renamed, "ref", own_ref);
    }
    if (!server) {
        post_refuse(post, 200, JSONRPC_INVALID_PARAMS, "ref names no prompt and no resource");
        return;
    }
    forward(post, server, json_incref(renamed));
}

/* ---- the rest ---- */

static void ping(struct gateway *g, struct post *post, json_t *params)
{
    (void)g, (void)params;
    methods_answer(post, json_object());
}

static void on_level_set(void *ctx, json_t *message)
{
    (void)ctx, (void)message;
}

static void level_set(struct gateway *g, struct post *post, json_t *params)
{
    static const struct mcp_server_asker nobody = {.on_answer = on_level_set};

    for (size_t i = 0; i < g->n; i++) {
        if (mcp_server_can(g->servers[i], "logging")) {
            int64_t ignored;
            mcp_server_ask(g->servers[i], "logging/setLevel", json_copy(params), &nobody, NULL,
                           &ignored);
        }
    }
    methods_answer(post, json_object());
}

static const struct {
    struct mcp_method is;
    void (*serve)(struct gateway *g, struct post *post, json_t *params);
} methods[] = {
    {{"ping", true, false}, ping},
    {{"tools/list", true, true}, tools_list},
    {{"tools/call", true, true}, tools_call},
    {{"prompts/list", true, true}, prompts_list},
    {{"prompts/get", true, true}, prompts_get},
    {{"resources/list", true, true}, resources_list},
    {{"resources/templates/list", true, true}, templates_list},
    {{"resources/read", true, true}, resources_read},
    {{"resources/subscribe", true, false}, resources_subscribe},
    {{"resources/unsubscribe", true, false}, resources_unsubscribe},
    {{"completion/complete", true, true}, complete},
    {{"logging/setLevel", true, false}, level_set},
    {{"server/discover", false, true}, stateless_discover},
    {{"subscriptions/listen", false, true}, stateless_listen},
};

void methods_request(struct gateway *g, struct post *post)
{
    for (size_t i = 0; i < countof(methods); i++) {
        if (mcp_method_is(&methods[i].is, post->message.method, post->version)) {
            methods[i].serve(g, post, post->message.params);
            return;
        }
    }
    post_answer_status(post, version_is_stateless(post->version) ? 404 : 200,
                       mcp_method_error(&post->message));
}

static void cancel(struct gateway *g, const char *session, const json_t *params)
{
    json_t *id = json_object_get(params, "requestId");

    for (struct post *at = g->posts.first; at; at = at->next) {
        if (at->server && text_same(at->session, session) && json_equal(at->message.id, id)) {
            mcp_server_cancel(at->server, at->question, json_text_of(params, "reason"));
            at->server = NULL;
            post_drop(at);
            return;
        }
    }
}

static void session_serve(struct gateway *g, struct post *post)
{
    const struct jsonrpc_message *message = &post->message;
    struct mcp_refusal why;

    if (!gateway_session_find(&g->sessions, str_of(post->session), &why)) {
        post_refuse(post, why.status, why.code, why.sentence);
    } else if (message->kind == JSONRPC_REQUEST) {
        methods_request(g, post);
    } else {
        if (text_same(message->method, "notifications/cancelled")) {
            cancel(g, post->session, message->params);
        }
        post_taken(post);
    }
}

void methods_serve(void *gateway, struct post *post)
{
    const struct jsonrpc_message *message = &post->message;
    struct str header = http_header_get(http_request(post->ex), "mcp-protocol-version"), asked;
    struct gateway *g = gateway;

    if (message->kind == JSONRPC_REQUEST && strcmp(message->method, "initialize") == 0) {
        initialize(g, post, message->params);
    } else if (!stateless_version(header, post->json, &post->version, &asked)) {
        post_answer_status(post, 400, mcp_version_error(message->id, asked));
    } else if (version_is_stateless(post->version)) {
        stateless_serve(g, post);
    } else {
        session_serve(g, post);
    }
}
