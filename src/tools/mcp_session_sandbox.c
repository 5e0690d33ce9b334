/* mcp_session_sandbox.c - the sandbox of a session: made when a tool first needs it, kept alive as
 * long as the session is, killed with it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <utlist.h>

#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/json.h"
#include "lib/base/log.h"
#include "tools/call.h"
#include "tools/mcp_internal.h"

enum { TARGET_BYTES = 128 };

static struct tools_who session_who(const struct mcp_session *session)
{
    return (struct tools_who){.team = session->entry.owner, .key = str_of(session->key)};
}

static void target_of(const json_t *input, const char *verb, char out[TARGET_BYTES])
{
    (void)snprintf(out, TARGET_BYTES, "/sandboxes/%s%s", json_string_of(input, "sandbox_id"), verb);
}

/* ---- in a fiber ---- */

/* Resumes it when it is paused, and extends its life; -ENOENT when it does not exist any more. */
static int sandbox_connect(struct tool_call *call, const json_t *input, json_t **out,
                           struct err *err)
{
    char target[TARGET_BYTES];
    scoped_json *body = json_pack("{s:i}", "timeout", MCP_SANDBOX_S);

    target_of(input, "/connect", target);
    int r = call_api(call, "POST", target, body, NULL, err);
    if (r == 0) {
        *out = json_pack("{s:O}", "sandbox_id", json_object_get(input, "sandbox_id"));
    }
    return r;
}

static int sandbox_make(struct tool_call *call, const json_t *input, json_t **out, struct err *err)
{
    scoped_json *answer = NULL;
    scoped_json *body =
        json_pack("{s:O, s:i, s:{s:s}}", "templateID", json_object_get(input, "template"),
                  "timeout", MCP_SANDBOX_S, "metadata", "origin", "mcp");

    int r = call_api(call, "POST", "/sandboxes", body, &answer, err);
    if (r == 0) {
        *out = json_pack("{s:O}", "sandbox_id", json_object_get(answer, "sandboxID"));
        r = *out ? 0 : err_set(err, EIO, "the API named no sandbox");
    }
    return r;
}

static int run_open(struct tool_call *call, const json_t *input, json_t **out, struct err *err)
{
    if (json_object_get(input, "sandbox_id")) {
        int r = sandbox_connect(call, input, out, err);
        if (r != -ENOENT) {
            return r;
        }
    }
    return sandbox_make(call, input, out, err);
}

static int run_extend(struct tool_call *call, const json_t *input, json_t **out, struct err *err)
{
    char target[TARGET_BYTES];
    scoped_json *body = json_pack("{s:i}", "duration", MCP_SANDBOX_S);

    target_of(input, "/refreshes", target);
    int r = call_api(call, "POST", target, body, NULL, err);
    *out = r == 0 ? json_object() : NULL;
    return r;
}

static int run_kill(struct tool_call *call, const json_t *input, json_t **out, struct err *err)
{
    char target[TARGET_BYTES];

    target_of(input, "", target);
    int r = call_api(call, "DELETE", target, NULL, NULL, err);
    *out = r == 0 ? json_object() : NULL;
    return r;
}

/* ---- its life ---- */

static void waiting_tell(struct mcp_session *session, const struct err *err)
{
    struct mcp_post *post, *next_post;
    struct mcp_call *call, *next;

    DL_FOREACH_SAFE (session->mcp->posts, post, next_post) {
        if (post->session != session) {
            continue;
        }
        DL_FOREACH_SAFE (post->calls, call, next) {
            if (call->tying) {
                mcp_call_sandbox_ready(call, session->sandbox.sandbox_id, err);
            }
        }
    }
}

static void on_opened(void *ctx, int error, const json_t *out, const struct err *err)
{
    struct mcp_session *session = ctx;
    const char *id = json_string_of(out, "sandbox_id");

    session->sandbox.opening = NULL;
    if (error == 0 && id) {
        (void)str_copy(session->sandbox.sandbox_id, sizeof(session->sandbox.sandbox_id),
                       str_of(id));
        session->sandbox.extended_mono_ms = clock_mono_ms();
    }
    if (session->ended) {
        session_sandbox_end(session);
        return;
    }
    waiting_tell(session, error == 0 ? NULL : err);
}

void session_sandbox_open(struct mcp_session *session)
{
    static const struct call_listener listener = {.done = on_opened};
    struct mcp_sandbox *sandbox = &session->sandbox;
    struct tools_who who = session_who(session);
    struct err err;

    if (sandbox->opening) {
        return;
    }
    json_t *input = json_pack("{s:s}", "template", sandbox->template);
    if (sandbox->sandbox_id[0]) {
        (void)json_object_set_new(input, "sandbox_id", json_string(sandbox->sandbox_id));
    }
    if (call_start_run(session->mcp->tools, run_open, &who, input, &listener, session,
                       &sandbox->opening, &err) < 0) {
        waiting_tell(session, &err);
    }
}

static void on_extended(void *ctx, int error, const json_t *out, const struct err *err)
{
    (void)ctx, (void)error, (void)out, (void)err; /* one that is paused or gone needs no time */
}

void session_sandbox_tick(struct mcp_session *session, int64_t now_ms)
{
    static const struct call_listener listener = {.done = on_extended};
    struct mcp_sandbox *sandbox = &session->sandbox;
    struct tools_who who = session_who(session);
    struct tool_call *call;
    struct err err;

    if (!sandbox->own || !sandbox->sandbox_id[0] ||
        now_ms - sandbox->extended_mono_ms < MCP_EXTEND_MS) {
        return;
    }
    json_t *input = json_pack("{s:s}", "sandbox_id", sandbox->sandbox_id);
    if (call_start_run(session->mcp->tools, run_extend, &who, input, &listener, NULL, &call,
                       &err) == 0) {
        sandbox->extended_mono_ms = now_ms; /* otherwise the next tick tries again */
    }
}

/* ---- its end ---- */

static void on_killed(void *ctx, int error, const json_t *out, const struct err *err)
{
    struct mcp_session *session = ctx;

    (void)out;
    if (error < 0 && error != -ENOENT) {
        log_warn("the sandbox %s of an MCP session that ended is left to its timeout: %s",
                 session->sandbox.sandbox_id, err->msg);
    }
    free(session);
}

void session_sandbox_end(struct mcp_session *session)
{
    static const struct call_listener listener = {.done = on_killed};
    struct mcp_sandbox *sandbox = &session->sandbox;
    struct tools_who who = session_who(session);
    struct tool_call *call;
    struct err err = {0};

    if (sandbox->opening) {
        return; /* on_opened() comes here again */
    }
    if (!sandbox->own || !sandbox->sandbox_id[0]) {
        free(session);
        return;
    }
    json_t *input = json_pack("{s:s}", "sandbox_id", sandbox->sandbox_id);
    int r =
        call_start_run(session->mcp->tools, run_kill, &who, input, &listener, session, &call, &err);
    if (r < 0) {
        on_killed(session, r, NULL, &err);
    }
}
