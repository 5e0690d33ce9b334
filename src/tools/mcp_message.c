/* mcp_message.c - messages of clients: what each asks for, by the rules of its revision. */
#include <errno.h>
#include <string.h>
#include <utlist.h>

#include "lib/base/encode.h"
#include "lib/base/json.h"
#include "tools/mcp_internal.h"
#include "tools/mcp_texts.h"

/* ---- methods ---- */

static enum texts_sandbox sandbox_kind(const struct mcp_post *post)
{
    const struct mcp_sandbox *sandbox = post->session ? &post->session->sandbox : &post->sandbox;

    return post->session && sandbox->own ? SANDBOX_OWN
           : sandbox->sandbox_id[0]      ? SANDBOX_NAMED
                                         : SANDBOX_NONE;
}

static void answer(struct mcp_post *post, const struct jsonrpc_message *message, json_t *result)
{
    post_answer(post, jsonrpc_result(message->id, texts_result(post->version, result)));
}

static void refuse(struct mcp_post *post, const struct jsonrpc_message *message, int code,
                   const char *sentence)
{
    post_answer(post, jsonrpc_error(message->id, code, sentence, NULL));
}

static const char *tool_name(size_t i)
{
    return tools_catalogue[i].name;
}

static void method_list(struct mcp_post *post, const struct jsonrpc_message *message)
{
    const json_t *cursor = json_object_get(message->params, "cursor");
    struct err err;
    size_t end;

    if (cursor && !json_is_string(cursor)) {
        refuse(post, message, JSONRPC_INVALID_PARAMS, "params.cursor: must be a string");
        return;
    }
    int begin = texts_page(json_string_value(cursor), tool_name, tools_catalogue_n, MCP_PAGE_TOOLS,
                           &end, &err);
    if (begin < 0) {
        refuse(post, message, JSONRPC_INVALID_PARAMS, err.msg);
        return;
    }
    json_t *list = json_array();
    for (size_t i = (size_t)begin; i < end; i++) {
        const struct tool *tool = &tools_catalogue[i];
        (void)json_array_append_new(list, texts_tool(tool, tools_input(post->mcp->tools, tool),
                                                     tools_output(post->mcp->tools, tool),
                                                     sandbox_kind(post)));
    }
    json_t *result = json_pack("{s:o}", "tools", list);
    if (end < tools_catalogue_n) {
        (void)json_object_set_new(result, "nextCursor", json_string(tool_name(end)));
    }
    answer(post, message, result);
}

static void method_ping(struct mcp_post *post, const struct jsonrpc_message *message)
{
    answer(post, message, json_object());
}

static void method_discover(struct mcp_post *post, const struct jsonrpc_message *message)
{
    answer(post, message, texts_discover(sandbox_kind(post)));
}

/* Nothing of ours ever changes while we run: the stream is opened, and stays silent. */
static void method_listen(struct mcp_post *post, const struct jsonrpc_message *message)
{
    if (!post->takes_events) {
        refuse(post, message, JSONRPC_INVALID_REQUEST,
               "a subscription is a stream: accept text/event-stream");
        return;
    }
    if (posts_listening_full(post->mcp, post->session, post->team)) {
        post_reply(post, 429,
                   jsonrpc_error(message->id, JSONRPC_INTERNAL_ERROR,
                                 post->session ? "this session has too many open streams"
                                               : "the team has too many open streams",
                                 NULL));
        return;
    }
    post->listens = true;
    post_notify(
        post, jsonrpc_notification("notifications/subscriptions/acknowledged",
                                   json_pack("{s:{s:O}, s:{}}", "_meta", MCP_META "subscriptionId",
                                             message->id, "notifications")));
}

static void method_initialize(struct mcp_post *post, const struct jsonrpc_message *message)
{
    const json_t *asked = json_object_get(message->params, "protocolVersion");
    struct tools_who who = post_who(post);
    struct err err;

    if (!json_is_string(asked)) {
        refuse(post, message, JSONRPC_INVALID_PARAMS, "params.protocolVersion: must be a string");
        return;
    }
    post->version = version_negotiate(json_string_value(asked));
    post->session = mcp_session_new(post->mcp, &who, post->version, &post->sandbox, &err);
    if (!post->session) {
        post_reply(post, 429, jsonrpc_error(message->id, JSONRPC_INTERNAL_ERROR, err.msg, NULL));
        return;
    }
    answer(post, message, texts_initialize(post->version, sandbox_kind(post)));
}

struct method {
    struct mcp_method is;
    void (*run)(struct mcp_post *post, const struct jsonrpc_message *message);
};

static void request_take(struct mcp_post *post, const struct jsonrpc_message *message)
{
    static const struct method methods[] = {
        {{"tools/call", true, true}, mcp_call_begin},
        {{"tools/list", true, true}, method_list},
        {{"ping", true, false}, method_ping},
        {{"server/discover", false, true}, method_discover},
        {{"subscriptions/listen", false, true}, method_listen},
    };

    for (size_t i = 0; i < countof(methods); i++) {
        if (mcp_method_is(&methods[i].is, message->method, post->version)) {
            methods[i].run(post, message);
            return;
        }
    }
    post_answer(post, mcp_method_error(message));
}

/* A notification for another server, or one that comes too late, is no error. */
static void notification_take(struct mcp_session *session, const struct jsonrpc_message *message)
{
    const json_t *id = json_object_get(message->params, "requestId");
    struct mcp_call *call;

    if (!session || strcmp(message->method, "notifications/cancelled") != 0 || !id) {
        return;
    }
    call = mcp_call_find(session, id);
    if (call) {
        struct mcp_post *post = call->post;
        mcp_call_drop(call);
        post_forgive(post);
    }
}

/* ---- revisions without sessions: every request says what it needs ---- */

static void stateless_take(struct mcp_post *post, const struct jsonrpc_message *message)
{
    struct err err;
    int code;

    switch (message->kind) {
    case JSONRPC_NOTIFICATION:
        notification_take(post->session, message);
        post_reply(post, 202, NULL);
        return;
    case JSONRPC_RESPONSE:
        post_refuse(post, 400, JSONRPC_INVALID_REQUEST, "nothing was asked: there are no answers");
        return;
    case JSONRPC_REQUEST:
        post->owed = 1;
        code = stateless_check(message, post_request(post), &err);
        if (code != 0) {
            refuse(post, message, code, err.msg);
        } else {
            request_take(post, message);
        }
        return;
    }
}

/* ---- revisions with sessions ---- */

static void message_take(struct mcp_post *post, json_t *json)
{
    struct jsonrpc_message message;
    struct err err;

    if (jsonrpc_read(json, &message, &err) < 0) {
        post_answer(post, jsonrpc_error(message.id, JSONRPC_INVALID_REQUEST, err.msg, NULL));
    } else if (message.kind == JSONRPC_REQUEST) {
        request_take(post, &message);
    } else {
        notification_take(post->session, &message);
        post_forgive(post);
    }
}

/* Until all messages have begun, one more answer is due than there are messages, so that no message
 * completes the post. */
static void batch_take(struct mcp_post *post, json_t *batch)
{
    size_t n = json_array_size(batch);

    if (!version_has_batches(post->version)) {
        post_refuse(post, 400, JSONRPC_INVALID_REQUEST,
                    "this revision of the protocol has no batches: send one message");
        return;
    }
    if (n == 0 || n > MCP_BATCH_MAX) {
        char sentence[64];
        (void)snprintf(sentence, sizeof(sentence), "a batch holds 1 to %d messages", MCP_BATCH_MAX);
        post_refuse(post, 400, JSONRPC_INVALID_REQUEST, sentence);
        return;
    }
    post->batch = true;
    post->owed = n + 1;
    for (size_t i = 0; i < n; i++) {
        message_take(post, json_array_get(batch, i));
    }
    post_forgive(post);
}

/* The session that the request's header names; otherwise answers, and false. */
static bool session_take(struct mcp_post *post)
{
    struct str id = http_header_get(post_request(post), "mcp-session-id");
    struct mcp_refusal why;

    post->session = mcp_session_find(post->mcp, id, post->team, &why);
    if (!post->session) {
        post_refuse(post, why.status, why.code, why.sentence);
    }
    return post->session != NULL;
}

static void session_message_take(struct mcp_post *post, json_t *json)
{
    if (!session_take(post)) {
        return;
    }
    post->version = post->session->entry.version;
    if (json_is_array(json)) {
        batch_take(post, json);
        return;
    }
    post->owed = 1;
    message_take(post, json);
}

/* ---- which of them ---- */

static void single_take(struct mcp_post *post, json_t *json, bool stateless)
{
    struct jsonrpc_message message;
    struct err err;

    if (jsonrpc_read(json, &message, &err) < 0) {
        post_reply(post, 400, jsonrpc_error(message.id, JSONRPC_INVALID_REQUEST, err.msg, NULL));
    } else if (!stateless && message.kind == JSONRPC_REQUEST &&
               strcmp(message.method, "initialize") == 0) {
        post->owed = 1;
        method_initialize(post, &message);
    } else if (!stateless) {
        session_message_take(post, json);
    } else if (!http_header_get(post_request(post), "mcp-session-id").at || session_take(post)) {
        stateless_take(post, &message);
    }
}

static bool version_take(struct mcp_post *post, const json_t *json)
{
    struct str header = http_header_get(post_request(post), "mcp-protocol-version"), asked;

    if (stateless_version(header, json, &post->version, &asked)) {
        return true;
    }
    post_reply(post, 400, mcp_version_error(json_object_get(json, "id"), asked));
    return false;
}

void post_take(struct mcp_post *post, struct str body)
{
    scoped_json *json = NULL;
    struct err err;

    if (jsonrpc_parse(body, &json, &err) < 0) {
        post_refuse(post, 400, JSONRPC_PARSE_ERROR, err.msg);
        return;
    }
    if (!version_take(post, json)) {
        return;
    }
    bool stateless = version_is_stateless(post->version);
    if (!json_is_array(json)) {
        single_take(post, json, stateless);
    } else if (stateless) {
        batch_take(post, json);
    } else {
        session_message_take(post, json);
    }
}
