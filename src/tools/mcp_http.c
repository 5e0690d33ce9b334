/* mcp_http.c - requests to /mcp, up to their bodies: origins, keys, what is accepted. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <utlist.h>

#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/http/cors.h"
#include "tools/mcp_internal.h"

/* ---- checks of a request ---- */

/* "http://localhost:6274" -> "localhost" */
static struct str origin_host(struct str origin)
{
    struct str rest = str_skip(origin, str_find(origin, ':'));

    if (!str_starts(rest, STR("://"))) {
        return (struct str){0};
    }
    rest = str_skip(rest, 3);
    struct str port = str_starts(rest, STR("[")) ? str_skip(rest, str_find(rest, ']')) : rest;
    return (struct str){rest.at, rest.len - port.len + str_find(port, ':')};
}

/* A page of another site may not call us, whatever name it uses for our address. Allowed are pages
 * of this machine and of the operator's domain itself; names below that domain are sandboxes.
 * Programs send no origin. */
bool mcp_origin_allowed(struct str origin, const char *domain)
{
    static const char *const own[] = {"localhost", "127.0.0.1", "[::1]"};
    struct str host = origin_host(origin);

    for (size_t i = 0; i < countof(own); i++) {
        if (str_ieq(host, str_of(own[i]))) {
            return true;
        }
    }
    struct str name = str_of(domain);
    name.len = str_find(name, ':'); /* it may name a port */
    return name.len > 0 && str_ieq(host, name);
}

static int query_text(struct str query, const char *name, char *out, size_t size, struct err *err)
{
    scoped_buf(value, size);

    int r = http_query_get(query, name, &value);
    if (r < 0 || (r > 0 && (buf_len(&value) == 0 || !str_copy(out, size, buf_str(&value))))) {
        return err_set(err, EINVAL, "the query's %s is empty, too long or badly encoded", name);
    }
    return r;
}

int mcp_sandbox_read(struct str query, struct mcp_sandbox *out, struct err *err)
{
    struct mcp_sandbox sandbox = {.own = true, .template = "base"};
    int made = query_text(query, "template", sandbox.template, sizeof(sandbox.template), err);
    int bound =
        query_text(query, "sandbox_id", sandbox.sandbox_id, sizeof(sandbox.sandbox_id), err);

    if (made < 0 || bound < 0) {
        return -EINVAL;
    }
    if (made > 0 && bound > 0) {
        return err_set(err, EINVAL,
                       "the query has both template and sandbox_id: a session has one "
                       "sandbox, which is made for it or exists");
    }
    sandbox.own = bound == 0;
    *out = sandbox;
    return 0;
}

/* ---- methods ---- */

static void handle_post(struct mcp *mcp, struct http_exchange *ex, const struct tools_who *who,
                        const struct mcp_sandbox *sandbox)
{
    const struct http_request *req = http_request(ex);
    struct str accept = http_header_get(req, "accept");
    struct str type = http_header_get(req, "content-type");
    bool json = !accept.at || http_accepts(accept, "application/json");
    bool events = accept.at && http_accepts(accept, "text/event-stream");

    if (!json && !events) {
        mcp_refuse(ex, 406, JSONRPC_INVALID_REQUEST,
                   "answers are application/json or text/event-stream: accept them");
        return;
    }
    if (!str_ieq(str_trim((struct str){type.at, str_find(type, ';')}), STR("application/json"))) {
        mcp_refuse(ex, 415, JSONRPC_INVALID_REQUEST, "a message is application/json");
        return;
    }
    struct mcp_post *post = post_new(mcp, ex, who);
    post->takes_json = json;
    post->takes_events = events;
    post->sandbox = *sandbox;
}

/* The session that the head names; otherwise answers, and NULL. */
static struct mcp_session *head_session(struct mcp *mcp, struct http_exchange *ex, const char *team)
{
    struct str id = http_header_get(http_request(ex), "mcp-session-id");
    struct mcp_refusal why;
    struct mcp_session *session = mcp_session_find(mcp, id, team, &why);

    if (!session) {
        mcp_refuse(ex, why.status, why.code, why.sentence);
    }
    return session;
}

static void stream_open(struct mcp *mcp, struct http_exchange *ex, const struct tools_who *who,
                        struct mcp_session *session)
{
    if (posts_listening_full(mcp, session, who->team)) {
        mcp_refuse(ex, 429, JSONRPC_INTERNAL_ERROR, "this session has too many open streams");
        return;
    }
    struct mcp_post *post = post_new(mcp, ex, who);
    post->session = session;
    post->version = session->entry.version;
    post->listens = true;
    post_stream(post);
}

/* Event ids are "<post>-<event>". */
static struct mcp_post *post_missed(struct mcp_session *session, struct str last, unsigned *event)
{
    char text[64], *end;

    if (!str_copy(text, sizeof(text), last)) {
        return NULL;
    }
    unsigned long long number = strtoull(text, &end, 10);
    *event = *end == '-' ? (unsigned)strtoul(end + 1, NULL, 10) : 0;
    return post_find(session, number);
}

static void handle_get(struct mcp *mcp, struct http_exchange *ex, const struct tools_who *who)
{
    struct str accept = http_header_get(http_request(ex), "accept");
    struct str last = http_header_get(http_request(ex), "last-event-id");
    unsigned event = 0;

    if (!accept.at || !http_accepts(accept, "text/event-stream")) {
        mcp_refuse(ex, 406, JSONRPC_INVALID_REQUEST, "a stream is text/event-stream: accept it");
        return;
    }
    struct mcp_session *session = head_session(mcp, ex, who->team);
    if (!session) {
        return;
    }
    struct mcp_post *post = last.at ? post_missed(session, last, &event) : NULL;
    if (post) {
        post_resume(post, ex, event);
    } else if (last.at) { /* clients ask no more, then; they would after any other status */
        mcp_refuse(ex, 405, JSONRPC_INVALID_REQUEST,
                   "the stream of this event has ended, and nothing of it is left");
    } else {
        stream_open(mcp, ex, who, session);
    }
}

static void handle_delete(struct mcp *mcp, struct http_exchange *ex, const struct tools_who *who)
{
    struct mcp_session *session = head_session(mcp, ex, who->team);

    if (session) {
        mcp_session_end(session);
        http_answer(ex, 204, NULL, NULL, 0);
    }
}

/* ---- all of them ---- */

/* The header's revision, if there is one. On a POST the message has more about it. */
static bool head_version_known(const struct http_request *req)
{
    struct str name = http_header_get(req, "mcp-protocol-version");
    enum mcp_version version;

    return !name.at || str_eq(req->method, STR("POST")) || version_find(name, &version);
}

static void handle_known(struct mcp *mcp, struct http_exchange *ex, const struct tools_who *who)
{
    const struct http_request *req = http_request(ex);
    struct mcp_sandbox sandbox;
    struct err err;

    if (!head_version_known(req)) {
        mcp_refuse(ex, 400, MCP_UNSUPPORTED_VERSION,
                   "this revision of the protocol is not supported");
    } else if (mcp_sandbox_read(req->query, &sandbox, &err) < 0) {
        mcp_refuse(ex, 400, JSONRPC_INVALID_REQUEST, err.msg);
    } else if (str_eq(req->method, STR("POST"))) {
        handle_post(mcp, ex, who, &sandbox);
    } else if (str_eq(req->method, STR("GET"))) {
        handle_get(mcp, ex, who);
    } else if (str_eq(req->method, STR("DELETE"))) {
        handle_delete(mcp, ex, who);
    } else {
        mcp_refuse(ex, 405, JSONRPC_INVALID_REQUEST, "/mcp takes POST, GET and DELETE");
    }
}

void mcp_handle(struct mcp *mcp, struct http_exchange *ex)
{
    const struct http_request *req = http_request(ex);
    struct str origin = http_header_get(req, "origin");
    struct tools_who who;
    struct err err;

    if (origin.at && !mcp_origin_allowed(origin, tools_options(mcp->tools)->domain)) {
        mcp_refuse(ex, 403, JSONRPC_INVALID_REQUEST,
                   "pages of this origin may not use the MCP server");
        return;
    }
    if (str_eq(req->method, STR("OPTIONS"))) {
        cors_preflight(ex, CORS_MCP);
        return;
    }
    cors_also(ex, CORS_MCP);
    if (mcp->stopping) {
        mcp_refuse(ex, 503, JSONRPC_INTERNAL_ERROR, "the daemon is stopping");
    } else if (tools_authenticate(mcp->tools, req, &who, &err) < 0) {
        mcp_refuse(ex, 401, JSONRPC_INVALID_REQUEST, err.msg);
    } else {
        handle_known(mcp, ex, &who);
    }
}

/* ---- life ---- */

static void on_tick(uv_timer_t *timer)
{
    struct mcp *mcp = timer->data;
    int64_t now_ms = clock_mono_ms();

    posts_tick(mcp, now_ms);
    mcp_sessions_tick(mcp, now_ms);
    if (!mcp->posts && !mcp->sessions.by_id) {
        (void)uv_timer_stop(timer);
    }
}

void mcp_wake(struct mcp *mcp)
{
    if (!uv_is_active((uv_handle_t *)&mcp->tick) && !mcp->stopping) {
        (void)uv_timer_start(&mcp->tick, on_tick, MCP_TICK_MS, MCP_TICK_MS);
    }
}

struct mcp *mcp_new(struct tools *tools)
{
    struct mcp *mcp = xnew(struct mcp);

    mcp->tools = tools;
    mcp->sessions.rules = &mcp_session_rules;
    (void)uv_timer_init(tools_loop(tools), &mcp->tick);
    mcp->tick.data = mcp;
    return mcp;
}

void mcp_stop(struct mcp *mcp)
{
    struct mcp_post *post, *next_post;

    mcp->stopping = true;
    mcp_sessions_forget(mcp);
    DL_FOREACH_SAFE (mcp->posts, post, next_post) {
        if (post->listens) {
            post_drop(post);
        }
    }
    (void)uv_timer_stop(&mcp->tick);
}

static void on_closed(uv_handle_t *tick)
{
    free(tick->data);
}

void mcp_free(struct mcp *mcp)
{
    if (mcp) {
        uv_close((uv_handle_t *)&mcp->tick, on_closed);
    }
}
