#include "inside/gateway/post.h"

#include <errno.h>
#include <stdlib.h>

#include "inside/gateway/message.h"
#include "lib/base/alloc.h"
#include "lib/mcp/sse.h"

enum {
    TICKS_SILENT = 1, /* whole ticks without a byte, before a keep-alive is sent */
};

int event_write(struct buf *out, const json_t *message)
{
    scoped_buf(text, out->max);

    int r = message_write(&text, message);
    return r == 0 ? sse_write(out, (struct str){NULL, 0}, buf_str(&text)) : r;
}

static void post_free(struct post *post)
{
    if (post->prev) {
        post->prev->next = post->next;
    } else {
        post->posts->first = post->next;
    }
    if (post->next) {
        post->next->prev = post->prev;
    }
    json_decref(post->json);
    buf_fini(&post->body);
    free(post->session);
    free(post);
}

/* ---- answers ---- */

static void stream_start(struct post *post)
{
    if (!post->streams) {
        post->streams = true;
        mcp_stream_begin(post->ex, NULL);
    }
}

static void answer_stream(struct post *post, const json_t *message)
{
    scoped_buf(bytes, 2 * (size_t)MESSAGE_BYTES_MAX);

    if (event_write(&bytes, message) < 0) {
        http_abort(post->ex, -EMSGSIZE);
        return;
    }
    http_write(post->ex, buf_at(&bytes), buf_len(&bytes));
    http_finish(post->ex);
}

static void answer_plain(struct post *post, int status, const json_t *message, const char *session)
{
    const struct http_header header = {STR("mcp-session-id"), str_of(session)};
    scoped_buf(bytes, 2 * (size_t)MESSAGE_BYTES_MAX);

    if (message_write(&bytes, message) < 0) {
        http_abort(post->ex, -EMSGSIZE);
        return;
    }
    http_reply_with(post->ex, status, &header, session ? 1 : 0, "application/json", buf_at(&bytes),
                    buf_len(&bytes));
}

/* The exchange's end frees the post; if the exchange has ended already, this function does. */
static void answer(struct post *post, int status, json_t *message, const char *session)
{
    post->answered = true;
    if (!post->ex) {
        post_free(post);
    } else if (post->streams) {
        answer_stream(post, message);
    } else {
        answer_plain(post, status, message, session);
    }
    json_decref(message);
}

void post_answer(struct post *post, json_t *message)
{
    answer(post, 200, message, NULL);
}

void post_answer_status(struct post *post, int status, json_t *message)
{
    answer(post, status, message, NULL);
}

void post_answer_session(struct post *post, json_t *message, const char *session)
{
    answer(post, 200, message, session);
}

void post_refuse(struct post *post, int status, int code, const char *why)
{
    answer(post, status, message_error(post->message.id, code, "%s", why), NULL);
}

void post_taken(struct post *post)
{
    post->answered = true;
    http_reply(post->ex, 202, NULL, NULL, 0);
}

void post_drop(struct post *post)
{
    post->answered = true;
    if (!post->ex) {
        post_free(post);
        return;
    }
    if (post->takes_events) {
        stream_start(post);
        http_finish(post->ex);
    } else {
        http_abort(post->ex, -ECANCELED);
    }
}

/* A client that does not read loses notifications before the answer, not the answer. */
void post_tell(struct post *post, json_t *notification)
{
    scoped_buf(bytes, HTTP_WINDOW_BYTES);

    if (post->ex && post->takes_events && event_write(&bytes, notification) == 0) {
        stream_start(post);
        if (http_writable(post->ex) >= buf_len(&bytes)) {
            http_write(post->ex, buf_at(&bytes), buf_len(&bytes));
        }
    }
    json_decref(notification);
}

void posts_tick(struct posts *posts)
{
    for (struct post *post = posts->first; post; post = post->next) {
        bool waits = post->server || post->listens;

        if (post->ex && waits && post->takes_events && post->ticks++ >= TICKS_SILENT) {
            stream_start(post);
            mcp_stream_keep_alive(post->ex);
        }
    }
}

/* ---- its message ---- */

static void on_body(void *ctx, const void *data, size_t len)
{
    struct post *post = ctx;

    if (post->answered) {
        return;
    }
    if (buf_append(&post->body, data, len) < 0) {
        post_refuse(post, 413, JSONRPC_INVALID_REQUEST, "the message is longer than 16 MiB");
        return;
    }
    http_credit(post->ex, len);
}

static void on_body_end(void *ctx)
{
    struct post *post = ctx;
    struct err err;

    if (post->answered) {
        return;
    }
    int r = jsonrpc_parse(buf_str(&post->body), &post->json, &err);
    buf_fini(&post->body);
    if (r < 0) {
        post_refuse(post, 400, JSONRPC_PARSE_ERROR, err.msg);
    } else if (json_is_array(post->json)) {
        post_refuse(post, 400, JSONRPC_INVALID_REQUEST, "batches are not taken: send one message");
    } else if (jsonrpc_read(post->json, &post->message, &err) < 0) {
        post_refuse(post, 400, JSONRPC_INVALID_REQUEST, err.msg);
    } else {
        post->posts->on_message(post->posts->ctx, post);
    }
}

static void on_end(void *ctx, int error)
{
    struct post *post = ctx;

    (void)error;
    post->ex = NULL;
    if (post->server && !post->answered && version_is_stateless(post->version)) {
        mcp_server_cancel(post->server, post->question, "the client has left");
        post->server = NULL;
    }
    if (post->answered || !post->server) {
        post_free(post);
    }
}

static const struct http_handler handler = {
    .needs_peer = true,
    .on_body = on_body,
    .on_body_end = on_body_end,
    .on_end = on_end,
};

/* A client without an Accept header takes every type. */
static bool takes(const struct http_request *request, const char *type)
{
    struct str accept = http_header_get(request, "accept");

    return !accept.at || http_accepts(accept, type);
}

void post_accept(struct posts *posts, struct http_exchange *ex)
{
    const struct http_request *request = http_request(ex);
    struct str session = http_header_get(request, "mcp-session-id");

    if (!takes(request, "application/json")) {
        mcp_refuse(ex, 406, JSONRPC_INVALID_REQUEST, "the client must accept application/json");
        return;
    }
    struct post *post = xnew(struct post);
    *post = (struct post){.posts = posts, .ex = ex, .next = posts->first};
    if (posts->first) {
        posts->first->prev = post;
    }
    posts->first = post;
    post->takes_events = takes(request, "text/event-stream");
    post->session = session.at ? strndup(session.at, session.len) : NULL;
    buf_init(&post->body, MESSAGE_BYTES_MAX);
    http_accept(ex, &handler, post);
    http_credit(ex, HTTP_WINDOW_BYTES);
}
