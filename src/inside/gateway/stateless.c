/* stateless.c - clients of the revisions without sessions: each request is complete by itself. */
#include <string.h>

#include "inside/gateway/internal.h"
#include "inside/gateway/message.h"
#include "lib/base/compiler.h"
#include "lib/mcp/stateless.h"

enum { LISTENERS_MAX = 256 };

/* The notifications that a client may subscribe to. */
static const struct {
    enum mcp_server_list list;
    const char *member;
} kinds[] = {
    {MCP_SERVER_TOOLS, "toolsListChanged"},
    {MCP_SERVER_PROMPTS, "promptsListChanged"},
    {MCP_SERVER_RESOURCES, "resourcesListChanged"},
};

void stateless_discover(struct gateway *g, struct post *post, json_t *params)
{
    json_t *result = methods_describe(g);
    json_t *can = json_object_get(result, "capabilities");

    (void)params;
    (void)json_object_del(can, "logging");
    (void)json_object_del(json_object_get(can, "resources"), "subscribe");
    (void)json_object_set_new(result, "supportedVersions", version_names());
    methods_answer(post, result);
}

static size_t listeners_count(const struct gateway *g)
{
    size_t n = 0;

    for (const struct post *at = g->posts.first; at; at = at->next) {
        n += at->listens;
    }
    return n;
}

/* A notification of a subscription, whose id is that of the request. */
static json_t *news(const struct post *post, const char *method, json_t *params)
{
    (void)json_object_set_new(params, "_meta",
                              json_pack("{s:O}", MCP_META "subscriptionId", post->message.id));
    return jsonrpc_notification(method, params);
}

void stateless_listen(struct gateway *g, struct post *post, json_t *params)
{
    const json_t *asked = json_object_get(params, "notifications");
    json_t *granted;

    if (!post->takes_events) {
        post_refuse(post, 400, JSONRPC_INVALID_REQUEST,
                    "a subscription is a stream: accept text/event-stream");
        return;
    }
    if (listeners_count(g) >= LISTENERS_MAX) {
        post_refuse(post, 429, JSONRPC_INTERNAL_ERROR, "too many clients listen already");
        return;
    }
    granted = json_object();
    for (size_t i = 0; i < countof(kinds); i++) {
        if (json_is_true(json_object_get(asked, kinds[i].member))) {
            post->wants[kinds[i].list] = true;
            (void)json_object_set_new(granted, kinds[i].member, json_true());
        }
    }
    post->wants[MCP_SERVER_TEMPLATES] = post->wants[MCP_SERVER_RESOURCES];
    post->listens = true;
    post_tell(post, news(post, "notifications/subscriptions/acknowledged",
                         json_pack("{s:o}", "notifications", granted)));
}

void stateless_tell_changed(struct gateway *g, enum mcp_server_list list, const char *method)
{
    for (struct post *at = g->posts.first; at; at = at->next) {
        if (at->listens && at->wants[list]) {
            post_tell(at, news(at, method, json_object()));
        }
    }
}

void stateless_serve(struct gateway *g, struct post *post)
{
    struct err err;

    if (post->message.kind != JSONRPC_REQUEST) {
        post_taken(post); /* no session, so nothing to apply it to */
        return;
    }
    int code = stateless_check(&post->message, http_request(post->ex), &err);
    if (code != 0) {
        post_refuse(post, 400, code, err.msg);
    } else {
        methods_request(g, post);
    }
}
