#include <errno.h>
#include <stdlib.h>
#include <utlist.h>

#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/json.h"
#include "tools/mcp_internal.h"
#include "tools/mcp_texts.h"

/* ---- its end ---- */

static void call_free(struct mcp_call *call)
{
    DL_DELETE(call->post->calls, call);
    json_decref(call->id);
    json_decref(call->progress_token);
    json_decref(call->input);
    free(call);
}

static void call_answer(struct mcp_call *call, json_t *result)
{
    struct mcp_post *post = call->post;
    json_t *answer = jsonrpc_result(call->id, texts_result(post->version, result));

    call_free(call);
    post_answer(post, answer);
}

void mcp_call_drop(struct mcp_call *call)
{
    if (call->running) {
        call_abandon(call->running);
    }
    call_free(call);
}

/* ---- while it runs ---- */

/* Each value must be greater than the one before, also when a tool reports a step several times. */
static double progress_next(const struct mcp_call *call, uint32_t done)
{
    return done > call->progress ? done : call->progress + 0.001;
}

static void on_progress(void *ctx, uint32_t done, uint32_t all, const char *text)
{
    struct mcp_call *call = ctx;
    int64_t now_ms = clock_mono_ms();

    if (!call->progress_token ||
        (done <= call->progress && now_ms - call->progress_mono_ms < MCP_PROGRESS_MS)) {
        return;
    }
    call->progress = progress_next(call, done);
    call->progress_mono_ms = now_ms;
    json_t *params = json_pack("{s:O, s:f, s:o}", "progressToken", call->progress_token, "progress",
                               call->progress, "message", json_sentence(text));
    if (params && all > 0) {
        (void)json_object_set_new(params, "total", json_integer(all));
    }
    if (params) {
        post_notify(call->post, jsonrpc_notification("notifications/progress", params));
    }
}

static void on_done(void *ctx, int error, const json_t *out, const struct err *err)
{
    struct mcp_call *call = ctx;

    call->running = NULL;
    call_answer(call, error == 0 ? texts_content(out) : texts_failure(err->msg));
}

static void call_run(struct mcp_call *call)
{
    static const struct call_listener listener = {.progress = on_progress, .done = on_done};
    struct tools_who who = post_who(call->post);
    struct err err = {0};

    if (call_start(call->post->mcp->tools, call->tool, &who, move_ptr(&call->input), &listener,
                   call, &call->running, &err) < 0) {
        call->running = NULL;
        call_answer(call, texts_failure(err.msg)); /* a model can correct its arguments */
    }
}

/* ---- its sandbox ---- */

void mcp_call_sandbox_ready(struct mcp_call *call, const char *sandbox_id, const struct err *err)
{
    call->tying = false;
    if (err) {
        call_answer(call, texts_failure(err->msg));
        return;
    }
    (void)json_object_set_new(call->input, "sandbox_id", json_string(sandbox_id));
    call_run(call);
}

/* A tool that needs a sandbox and is given none gets that of the session or of the URL; without
 * one, the schema check says what is missing. */
static void call_sandbox_find(struct mcp_call *call)
{
    struct mcp_post *post = call->post;
    const struct mcp_sandbox *sandbox = post->session ? &post->session->sandbox : &post->sandbox;
    const json_t *schema = tools_input(post->mcp->tools, call->tool);

    if (json_object_get(call->input, "sandbox_id") || !schema_requires(schema, "sandbox_id")) {
        call_run(call);
    } else if (post->session && sandbox->own) {
        call->tying = true;
        session_sandbox_open(post->session);
    } else {
        if (sandbox->sandbox_id[0]) {
            (void)json_object_set_new(call->input, "sandbox_id", json_string(sandbox->sandbox_id));
        }
        call_run(call);
    }
}

/* ---- its beginning ---- */

struct mcp_call *mcp_call_find(struct mcp_session *session, const json_t *id)
{
    struct mcp_post *post;
    struct mcp_call *call;

    DL_FOREACH (session->mcp->posts, post) {
        DL_FOREACH (post->calls, call) {
            if (post->session == session && json_equal(call->id, id)) {
                return call;
            }
        }
    }
    return NULL;
}

size_t mcp_calls_count(const struct mcp_session *session)
{
    const struct mcp_post *post;
    const struct mcp_call *call;
    size_t n = 0;

    DL_FOREACH (session->mcp->posts, post) {
        DL_FOREACH (post->calls, call) {
            n += post->session == session;
        }
    }
    return n;
}

static int arguments_read(const json_t *params, const struct tool **tool, json_t **input,
                          struct err *err)
{
    const json_t *name = json_object_get(params, "name");
    json_t *arguments = json_object_get(params, "arguments");

    if (!json_is_string(name)) {
        return err_set(err, EINVAL, "params.name: must be a string");
    }
    *tool = tool_find((struct str){json_string_value(name), json_string_length(name)});
    if (!*tool) {
        return err_set(err, EINVAL, "params.name: there is no tool '%.64s'; tools/list names all",
                       json_string_value(name));
    }
    if (arguments && !json_is_object(arguments)) {
        return err_set(err, EINVAL, "params.arguments: must be an object");
    }
    *input = arguments ? json_deep_copy(arguments) : json_object();
    return 0;
}

static int token_read(const json_t *params, json_t **token, struct err *err)
{
    const json_t *meta = json_object_get(params, "_meta");
    json_t *found = json_object_get(meta, "progressToken");

    if (meta && !json_is_object(meta)) {
        return err_set(err, EINVAL, "params._meta: must be an object");
    }
    if (found && !json_is_string(found) && !json_is_integer(found)) {
        return err_set(err, EINVAL, "params._meta.progressToken: must be a string or an integer");
    }
    *token = json_incref(found);
    return 0;
}

/* The id identifies a call that is to be cancelled. */
static int room_check(const struct mcp_post *post, const json_t *id, struct err *err)
{
    if (post->session && mcp_call_find(post->session, id)) {
        return err_set(err, EINVAL, "id: another call of this session has it, and is under way");
    }
    if (post->session && mcp_calls_count(post->session) >= MCP_CALLS_PER_SESSION_MAX) {
        return err_set(err, EBUSY, "this session has %d calls under way: wait for one of them",
                       MCP_CALLS_PER_SESSION_MAX);
    }
    return 0;
}

void mcp_call_begin(struct mcp_post *post, const struct jsonrpc_message *message)
{
    struct mcp_call *call;
    struct err err;

    if (room_check(post, message->id, &err) < 0) {
        post_answer(post, jsonrpc_error(message->id, JSONRPC_INVALID_REQUEST, err.msg, NULL));
        return;
    }
    call = xnew(struct mcp_call);
    int r = token_read(message->params, &call->progress_token, &err);
    if (r == 0) {
        r = arguments_read(message->params, &call->tool, &call->input, &err);
    }
    if (r < 0) {
        json_decref(call->progress_token);
        free(call);
        post_answer(post, jsonrpc_error(message->id, JSONRPC_INVALID_PARAMS, err.msg, NULL));
        return;
    }
    call->post = post;
    call->id = json_incref(message->id);
    DL_APPEND(post->calls, call);
    call_sandbox_find(call);
}
