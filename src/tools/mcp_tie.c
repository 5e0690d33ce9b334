/* mcp_tie.c - the sandbox of a session: made when a tool first needs it, kept alive as long as the
 * session is, killed with it. */
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

/* Resumes it when it is paused, and gives it time; -ENOENT when it is no more. */
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
                mcp_call_tied(call, session->tie.sandbox_id, err);
            }
        }
    }
}

static void on_opened(void *ctx, int error, const json_t *out, const struct err *err)
{
    struct mcp_session *session = ctx;
    const char *id = json_string_of(out, "sandbox_id");

    session->tie.opening = NULL;
    if (error == 0 && id) {
        (void)str_copy(session->tie.sandbox_id, sizeof(session->tie.sandbox_id), str_of(id));
        session->tie.extended_mono_ms = clock_mono_ms();
    }
    if (session->ended) {
        tie_end(session);
        return;
    }
    waiting_tell(session, error == 0 ? NULL : err);
}

void tie_open(struct mcp_session *session)
{
    static const struct call_listener listener = {.done = on_opened};
    struct mcp_tie *tie = &session->tie;
    struct tools_who who = session_who(session);
    struct err err;

    if (tie->opening) {
        return;
    }
    json_t *input = json_pack("{s:s}", "template", tie->template);
    if (tie->sandbox_id[0]) {
        (void)json_object_set_new(input, "sandbox_id", json_string(tie->sandbox_id));
    }
    if (call_start_run(session->mcp->tools, run_open, &who, input, &listener, session,
                       &tie->opening, &err) < 0) {
        waiting_tell(session, &err);
    }
}

static void on_extended(void *ctx, int error, const json_t *out, const struct err *err)
{
    (void)ctx, (void)error, (void)out, (void)err; /* one that is paused or gone needs no time */
}

void tie_tick(struct mcp_session *session, int64_t now_ms)
{
    static const struct call_listener listener = {.done = on_extended};
    struct mcp_tie *tie = &session->tie;
    struct tools_who who = session_who(session);
    struct tool_call *call;
    struct err err;

    if (!tie->own || !tie->sandbox_id[0] || now_ms - tie->extended_mono_ms < MCP_EXTEND_MS) {
        return;
    }
    json_t *input = json_pack("{s:s}", "sandbox_id", tie->sandbox_id);
    if (call_start_run(session->mcp->tools, run_extend, &who, input, &listener, NULL, &call,
                       &err) == 0) {
        tie->extended_mono_ms = now_ms; /* otherwise the next tick tries again */
    }
}

/* ---- its end ---- */

static void on_killed(void *ctx, int error, const json_t *out, const struct err *err)
{
    struct mcp_session *session = ctx;

    (void)out;
    if (error < 0 && error != -ENOENT) {
        log_warn("the sandbox %s of an MCP session that ended is left to its timeout: %s",
                 session->tie.sandbox_id, err->msg);
    }
    free(session);
}

void tie_end(struct mcp_session *session)
{
    static const struct call_listener listener = {.done = on_killed};
    struct mcp_tie *tie = &session->tie;
    struct tools_who who = session_who(session);
    struct tool_call *call;
    struct err err = {0};

    if (tie->opening) {
        return; /* on_opened() comes here again */
    }
    if (!tie->own || !tie->sandbox_id[0]) {
        free(session);
        return;
    }
    json_t *input = json_pack("{s:s}", "sandbox_id", tie->sandbox_id);
    int r =
        call_start_run(session->mcp->tools, run_kill, &who, input, &listener, session, &call, &err);
    if (r < 0) {
        on_killed(session, r, NULL, &err);
    }
}
