#include "inside/gateway/call.h"

#include <errno.h>
#include <stdlib.h>

#include "inside/gateway/message.h"
#include "lib/base/alloc.h"
#include "lib/mcp/sse.h"

enum {
    TICKS_SILENT = 1, /* whole ones, before a client is told that we are still at it */
};

int event_write(struct buf *out, const json_t *message)
{
    scoped_buf(text, out->max);

    int r = message_write(&text, message);
    return r == 0 ? sse_write(out, (struct str){NULL, 0}, buf_str(&text)) : r;
}

static void call_free(struct call *call)
{
    if (call->prev) {
        call->prev->next = call->next;
    } else {
        call->calls->first = call->next;
    }
    if (call->next) {
        call->next->prev = call->prev;
    }
    json_decref(call->json);
    buf_fini(&call->body);
    free(call->session);
    free(call);
}

/* ---- answers ---- */

static void stream_start(struct call *call)
{
    if (!call->streams) {
        call->streams = true;
        mcp_stream_begin(call->ex, NULL);
    }
}

static void answer_stream(struct call *call, const json_t *message)
{
    scoped_buf(bytes, 2 * (size_t)MESSAGE_BYTES_MAX);

    if (event_write(&bytes, message) < 0) {
        http_abort(call->ex, -EMSGSIZE);
        return;
    }
    http_write(call->ex, buf_at(&bytes), buf_len(&bytes));
    http_finish(call->ex);
}

static void answer_plain(struct call *call, int status, const json_t *message, const char *session)
{
    const struct http_header header = {STR("mcp-session-id"), str_of(session)};
    scoped_buf(bytes, 2 * (size_t)MESSAGE_BYTES_MAX);

    if (message_write(&bytes, message) < 0) {
        http_abort(call->ex, -EMSGSIZE);
        return;
    }
    http_reply_with(call->ex, status, &header, session ? 1 : 0, "application/json", buf_at(&bytes),
                    buf_len(&bytes));
}

/* The exchange's end frees it; when that was before, this does. */
static void answer(struct call *call, int status, json_t *message, const char *session)
{
    call->answered = true;
    if (!call->ex) {
        call_free(call);
    } else if (call->streams) {
        answer_stream(call, message);
    } else {
        answer_plain(call, status, message, session);
    }
    json_decref(message);
}

void call_answer(struct call *call, json_t *message)
{
    answer(call, 200, message, NULL);
}

void call_answer_status(struct call *call, int status, json_t *message)
{
    answer(call, status, message, NULL);
}

void call_answer_session(struct call *call, json_t *message, const char *session)
{
    answer(call, 200, message, session);
}

void call_refuse(struct call *call, int status, int code, const char *why)
{
    answer(call, status, message_error(call->message.id, code, "%s", why), NULL);
}

void call_taken(struct call *call)
{
    call->answered = true;
    http_reply(call->ex, 202, NULL, NULL, 0);
}

void call_drop(struct call *call)
{
    call->answered = true;
    if (!call->ex) {
        call_free(call);
        return;
    }
    if (call->takes_events) {
        stream_start(call);
        http_finish(call->ex);
    } else {
        http_abort(call->ex, -ECANCELED);
    }
}

/* A client that does not read loses what is on the way to the answer, not the answer. */
void call_tell(struct call *call, json_t *notification)
{
    scoped_buf(bytes, HTTP_WINDOW_BYTES);

    if (call->ex && call->takes_events && event_write(&bytes, notification) == 0) {
        stream_start(call);
        if (http_writable(call->ex) >= buf_len(&bytes)) {
            http_write(call->ex, buf_at(&bytes), buf_len(&bytes));
        }
    }
    json_decref(notification);
}

void calls_tick(struct calls *calls)
{
    for (struct call *call = calls->first; call; call = call->next) {
        bool waits = call->backend || call->listens;

        if (call->ex && waits && call->takes_events && call->ticks++ >= TICKS_SILENT) {
            stream_start(call);
            mcp_stream_keep_alive(call->ex);
        }
    }
}

/* ---- its message ---- */

static void on_body(void *ctx, const void *data, size_t len)
{
    struct call *call = ctx;

    if (call->answered) {
        return;
    }
    if (buf_append(&call->body, data, len) < 0) {
        call_refuse(call, 413, JSONRPC_INVALID_REQUEST, "the message is longer than 16 MiB");
        return;
    }
    http_credit(call->ex, len);
}

static void on_body_end(void *ctx)
{
    struct call *call = ctx;
    struct err err;

    if (call->answered) {
        return;
    }
    int r = jsonrpc_parse(buf_str(&call->body), &call->json, &err);
    buf_fini(&call->body);
    if (r < 0) {
        call_refuse(call, 400, JSONRPC_PARSE_ERROR, err.msg);
    } else if (json_is_array(call->json)) {
        call_refuse(call, 400, JSONRPC_INVALID_REQUEST, "batches are not taken: send one message");
    } else if (jsonrpc_read(call->json, &call->message, &err) < 0) {
        call_refuse(call, 400, JSONRPC_INVALID_REQUEST, err.msg);
    } else {
        call->calls->on_message(call->calls->ctx, call);
    }
}

static void on_end(void *ctx, int error)
{
    struct call *call = ctx;

    (void)error;
    call->ex = NULL;
    if (call->backend && !call->answered && version_is_stateless(call->version)) {
        backend_cancel(call->backend, call->question, "the client has left");
        call->backend = NULL;
    }
    if (call->answered || !call->backend) {
        call_free(call);
    }
}

static const struct http_handler handler = {
    .needs_peer = true,
    .on_body = on_body,
    .on_body_end = on_body_end,
    .on_end = on_end,
};

/* One that says nothing takes all. */
static bool takes(const struct http_request *request, const char *type)
{
    struct str accept = http_header_get(request, "accept");

    return !accept.at || http_accepts(accept, type);
}

void call_accept(struct calls *calls, struct http_exchange *ex)
{
    const struct http_request *request = http_request(ex);
    struct str session = http_header_get(request, "mcp-session-id");

    if (!takes(request, "application/json")) {
        mcp_refuse(ex, 406, JSONRPC_INVALID_REQUEST, "the client must accept application/json");
        return;
    }
    struct call *call = xnew(struct call);
    *call = (struct call){.calls = calls, .ex = ex, .next = calls->first};
    if (calls->first) {
        calls->first->prev = call;
    }
    calls->first = call;
    call->takes_events = takes(request, "text/event-stream");
    call->session = session.at ? strndup(session.at, session.len) : NULL;
    buf_init(&call->body, MESSAGE_BYTES_MAX);
    http_accept(ex, &handler, call);
    http_credit(ex, HTTP_WINDOW_BYTES);
}
