/* http2.c - HTTP/2 on the server's side, on nghttp2: many exchanges on one connection.
 *
 * Flow control is the credit of http.h: a stream's window opens again only for bytes that its
 * handler has taken, so at most HTTP_WINDOW_BYTES of each wait in `in`. The connection's own window
 * is given back at once: one slow handler must not stop the others.
 *
 * nghttp2 calls us back while it reads (input) and while it writes (pump). Streams are taken apart
 * in resume() only, so none goes away below nghttp2's feet; what it says about a stream that has
 * gone finds no user data and is dropped.
 */
#include <assert.h>
#include <errno.h>
#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <utlist.h>

#include "lib/base/alloc.h"
#include "lib/http/h2_fields.h"
#include "lib/http/h2_request.h"
#include "lib/http/head.h"
#include "lib/http/internal.h"
#include "lib/http/server.h"

enum {
    STREAMS_MAX = 256,
    READ_BYTES = 64 * 1024,
    ACKS_MAX = 256,         /* of SETTINGS and PING that the peer does not read */
    RESETS_BURST = 256,     /* streams a client may open and cancel... */
    RESETS_PER_SECOND = 16, /* ...and how fast it may again */
    OUT_BYTES_MAX = 64 * 1024 * 1024,
    FRAME_HEAD_BYTES = 9,
    COOKIE_BYTES_MAX = HTTP_HEADER_BYTES_MAX + 2 * HTTP_HEADERS_MAX,
};

struct stream {
    struct http_exchange base;
    struct stream *prev, *next;
    struct http2 *owner;
    int32_t id;
    struct head head; /* the request points into it, and into `cookie` */
    struct buf cookie;
    struct buf in;
    struct buf out;
    struct head trailers; /* of the response */
    int refused;          /* status for a head that passed a limit */
    bool begun;           /* the head is complete */
    bool counted;         /* went to the server's user */
    bool peer_ended;      /* END_STREAM was received */
    bool told_end;        /* on_body_end was called */
    bool sent_end;        /* END_STREAM was sent */
    bool expects;         /* 100-continue, not sent yet */
    bool no_body;         /* of the response */
    int64_t out_left;     /* of the announced length; -1: none was */
};

struct http2 {
    struct http_conn *conn;
    nghttp2_session *session;
    struct stream *streams;
    unsigned heads_n; /* streams whose head is not complete */
    bool greeted;     /* the peer's SETTINGS came */
    bool closing;
    unsigned resets;
    int64_t resets_ms; /* up to when they have been forgiven */
};

static struct stream *stream_of(struct http_exchange *ex)
{
    return container_of(ex, struct stream, base);
}

static struct stream *stream_find(nghttp2_session *session, int32_t id)
{
    return nghttp2_session_get_stream_user_data(session, id);
}

static void http2_wake(struct http2 *h)
{
    h->conn->ops->wake(h->conn);
}

static void http2_close(struct http2 *h, enum http_close how)
{
    h->closing = true;
    h->conn->ops->close(h->conn, how);
}

/* ---- what the handler does ---- */

static void ex_credit(struct http_exchange *base)
{
    struct stream *s = stream_of(base);

    if (s->expects && base->status == 0) {
        nghttp2_nv status = {(uint8_t *)(uintptr_t) ":status", (uint8_t *)(uintptr_t) "100", 7, 3,
                             NGHTTP2_NV_FLAG_NONE};
        (void)nghttp2_submit_headers(s->owner->session, NGHTTP2_FLAG_NONE, s->id, NULL, &status, 1,
                                     NULL);
        s->expects = false;
    }
    http2_wake(s->owner);
}

static void stream_reset(struct stream *s, int error, uint32_t code)
{
    (void)nghttp2_submit_rst_stream(s->owner->session, NGHTTP2_FLAG_NONE, s->id, code);
    http_exchange_fail(&s->base, error);
    http2_wake(s->owner);
}

/* True when there are any: they end the stream, instead of the last DATA. */
static bool trailers_submit(struct stream *s)
{
    struct head_fields from = head_fields(&s->trailers);
    scoped(h2_fields_fini) struct h2_fields fields = {0};

    return from.n > 0 && h2_fields_trailers(&fields, from.at, from.n) == 0 &&
           nghttp2_submit_trailer(s->owner->session, s->id, fields.list, fields.n) == 0;
}

/* nghttp2 asks how much of a DATA frame can be filled; the bytes follow in on_send_data(). */
static ssize_t on_read_data(nghttp2_session *session, int32_t id, uint8_t *out, size_t len,
                            uint32_t *flags, nghttp2_data_source *source, void *user_data)
{
    struct stream *s = stream_find(session, id);

    (void)out, (void)source, (void)user_data;
    if (!s) {
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    }
    size_t held = buf_len(&s->out);
    if (held == 0 && !s->base.finished) {
        return NGHTTP2_ERR_DEFERRED;
    }
    size_t n = held < len ? held : len;
    if (s->base.finished && n == held) {
        *flags |= NGHTTP2_DATA_FLAG_EOF;
        *flags |= trailers_submit(s) ? NGHTTP2_DATA_FLAG_NO_END_STREAM : 0;
    }
    *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
    return (ssize_t)n;
}

static int on_send_data(nghttp2_session *session, nghttp2_frame *frame, const uint8_t *frame_head,
                        size_t len, nghttp2_data_source *source, void *user_data)
{
    struct http2 *h = user_data;
    struct stream *s = stream_find(session, frame->hd.stream_id);

    (void)source;
    if (h->conn->ops->pending(h->conn) >= HTTP_WINDOW_BYTES) {
        return NGHTTP2_ERR_WOULDBLOCK;
    }
    if (!s) {
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    }
    assert(frame->data.padlen == 0);
    const struct str parts[] = {{(const char *)frame_head, FRAME_HEAD_BYTES},
                                {buf_at(&s->out), len}};
    h->conn->ops->write_parts(h->conn, parts, countof(parts));
    buf_consume(&s->out, len);
    if (buf_len(&s->out) == 0) {
        buf_fini(&s->out);
    }
    return 0;
}

static int stream_respond(struct stream *s, const struct http_header *headers, size_t n,
                          int64_t content_length)
{
    nghttp2_data_provider provider = {.read_callback = on_read_data};
    scoped(h2_fields_fini) struct h2_fields fields = {0};
    int r = h2_fields_make(&fields, s->base.status, headers, n, content_length);

    if (r == 0 && nghttp2_submit_response(s->owner->session, s->id, fields.list, fields.n,
                                          s->no_body ? NULL : &provider) != 0) {
        r = -EPROTO;
    }
    return r;
}

static void ex_respond(struct http_exchange *base, const struct http_header *headers, size_t n,
                       int64_t content_length)
{
    struct stream *s = stream_of(base);
    int status = base->status;

    /* Without a body the head ends the stream: gRPC calls it a trailers-only response. */
    s->no_body = str_eq(base->request.method, STR("HEAD")) || status == 204 || status == 304 ||
                 content_length == 0;
    s->out_left = s->no_body ? -1 : content_length;
    int r = stream_respond(s, headers, n, content_length);
    if (r < 0) {
        stream_reset(s, r, NGHTTP2_INTERNAL_ERROR);
        return;
    }
    http2_wake(s->owner);
}

static void ex_write(struct http_exchange *base, const struct str *parts, size_t n, size_t len)
{
    struct stream *s = stream_of(base);
    int r = s->out_left >= 0 && len > (uint64_t)s->out_left ? -EPROTO : 0;

    if (s->no_body) {
        return;
    }
    for (size_t i = 0; i < n && r == 0; i++) {
        r = buf_append(&s->out, parts[i].at, parts[i].len);
    }
    if (r < 0) {
        stream_reset(s, -EPROTO, NGHTTP2_INTERNAL_ERROR);
        return;
    }
    s->out_left -= s->out_left >= 0 ? (int64_t)len : 0;
    (void)nghttp2_session_resume_data(s->owner->session, s->id);
    http2_wake(s->owner);
}

static size_t ex_pending(const struct http_exchange *base)
{
    const struct stream *s = (const struct stream *)base; /* its first member */

    return buf_len(&s->out);
}

static void ex_trailers(struct http_exchange *base, const struct http_header *headers, size_t n)
{
    struct stream *s = stream_of(base);

    for (size_t i = 0; i < n; i++) {
        if (head_name(&s->trailers, headers[i].name.at, headers[i].name.len) < 0 ||
            head_value(&s->trailers, headers[i].value.at, headers[i].value.len) < 0) {
            stream_reset(s, -EMSGSIZE, NGHTTP2_INTERNAL_ERROR);
            return;
        }
    }
    head_seal(&s->trailers);
}

static void ex_finish(struct http_exchange *base)
{
    struct stream *s = stream_of(base);

    if (s->out_left > 0) {
        stream_reset(s, -EPROTO, NGHTTP2_INTERNAL_ERROR); /* less than was announced */
        return;
    }
    (void)nghttp2_session_resume_data(s->owner->session, s->id);
    http2_wake(s->owner);
}

static void ex_abort(struct http_exchange *base, int error)
{
    stream_reset(stream_of(base), error, NGHTTP2_INTERNAL_ERROR);
}

static const struct http_exchange_ops exchange_ops = {
    .credit = ex_credit,
    .respond = ex_respond,
    .write = ex_write,
    .pending = ex_pending,
    .trailers = ex_trailers,
    .finish = ex_finish,
    .abort = ex_abort,
};

/* ---- streams ---- */

static struct stream *stream_new(struct http2 *h, int32_t id)
{
    struct stream *s = xnew(struct stream);

    s->base.ops = &exchange_ops;
    s->base.moved_ms = (int64_t)uv_now(h->conn->loop);
    s->owner = h;
    s->id = id;
    s->out_left = -1;
    head_init(&s->head);
    head_init(&s->trailers);
    buf_init(&s->cookie, COOKIE_BYTES_MAX);
    buf_init(&s->in, HTTP_WINDOW_BYTES);
    buf_init(&s->out, OUT_BYTES_MAX);
    DL_APPEND(h->streams, s);
    h->heads_n++;
    return s;
}

static void stream_free(struct stream *s)
{
    struct http2 *h = s->owner;

    (void)nghttp2_session_set_stream_user_data(h->session, s->id, NULL);
    DL_DELETE(h->streams, s);
    h->heads_n -= s->begun ? 0 : 1;
    head_fini(&s->head);
    head_fini(&s->trailers);
    buf_fini(&s->cookie);
    buf_fini(&s->in);
    buf_fini(&s->out);
    free(s);
}

/* Calls on_end, if a handler has accepted the stream, and frees the stream. */
static void stream_end(struct stream *s)
{
    struct http2 *h = s->owner;

    if (s->counted) {
        h->conn->ops->ended(h->conn);
    }
    if (s->begun) {
        http_exchange_end(&s->base);
    }
    stream_free(s);
}

static void refused_end(void *ctx, int error)
{
    (void)ctx;
    (void)error;
}

/* Answers without a handler. */
static void stream_refuse(struct stream *s, int status, const char *why)
{
    static const struct http_handler handler = {.on_end = refused_end};
    char body[256];
    int len = snprintf(body, sizeof(body), "{\"code\":%d,\"message\":\"%s\"}", status, why);

    http_accept(&s->base, &handler, NULL);
    http_reply(&s->base, status, "application/json", body, (size_t)len);
}

/* The head is complete. */
static void stream_begin(struct stream *s)
{
    struct http2 *h = s->owner;
    struct str expect = {NULL, 0};
    const char *why = s->refused ? NULL
                                 : h2_request_fill(&s->base.request, &s->head, &s->cookie, h->conn,
                                                   !s->peer_ended);

    s->begun = true;
    h->heads_n--;
    if (s->refused == 414) {
        stream_refuse(s, 414, "the request target is too long");
    } else if (s->refused) {
        stream_refuse(s, 431, "the header fields are too many or too long");
    } else if (why) {
        stream_refuse(s, 400, why);
    } else {
        s->expects = !s->peer_ended &&
                     head_count(head_fields(&s->head), STR("expect"), &expect) > 0 &&
                     str_ieq(expect, STR("100-continue"));
        s->counted = true;
        h->conn->ops->request(h->conn, &s->base);
        assert(s->base.handler); /* http_accept() belongs inside on_request */
    }
}

/* Gives bytes that a handler has taken, or will not take, back to the peer. */
static void stream_consumed(struct stream *s, size_t n)
{
    s->base.moved_ms = (int64_t)uv_now(s->owner->conn->loop);
    (void)nghttp2_session_consume_stream(s->owner->session, s->id, n);
}

static size_t stream_take(struct stream *s, const char *data, size_t len)
{
    size_t n = len;

    if (s->base.over || s->base.finished) {
        stream_consumed(s, n); /* nobody wants it */
        return n;
    }
    n = n < s->base.credit ? n : s->base.credit;
    if (n > 0) {
        s->expects = false;
        stream_consumed(s, n);
        http_exchange_body(&s->base, data, n);
    }
    return n;
}

/* Hands over what waited for credit, and the end behind it. */
static void stream_drain(struct stream *s)
{
    while (buf_len(&s->in) > 0) {
        size_t n = stream_take(s, buf_at(&s->in), buf_len(&s->in));
        if (n == 0) {
            return;
        }
        buf_consume(&s->in, n);
    }
    buf_fini(&s->in);
    if (s->begun && s->peer_ended && !s->told_end) {
        s->told_end = true;
        http_exchange_body_end(&s->base);
    }
}

/* ---- callbacks of nghttp2 while it reads ---- */

static bool is_request(const nghttp2_frame *frame)
{
    return frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST;
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *user_data)
{
    if (is_request(frame)) {
        int32_t id = frame->hd.stream_id;
        (void)nghttp2_session_set_stream_user_data(session, id, stream_new(user_data, id));
    }
    return 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
                     void *user_data)
{
    struct stream *s = stream_find(session, frame->hd.stream_id);

    (void)flags, (void)user_data;
    if (!s || !is_request(frame) || s->refused) {
        return 0;
    }
    if (str_eq((struct str){(const char *)name, name_len}, STR(":path")) &&
        value_len > HTTP_TARGET_BYTES_MAX) {
        s->refused = 414;
        return 0;
    }
    int r = head_name(&s->head, (const char *)name, name_len);
    r = r < 0 ? r : head_value(&s->head, (const char *)value, value_len);
    s->refused = r < 0 ? 431 : 0;
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data,
                   size_t len, void *user_data)
{
    struct stream *s = stream_find(session, id);
    const char *at = (const char *)data;

    (void)flags, (void)user_data;
    (void)nghttp2_session_consume_connection(session, len);
    if (!s) {
        (void)nghttp2_session_consume_stream(session, id, len);
        return 0;
    }
    size_t n = buf_len(&s->in) == 0 ? stream_take(s, at, len) : 0;
    if (n < len && buf_append(&s->in, at + n, len - n) < 0) {
        stream_reset(s, -EMSGSIZE, NGHTTP2_FLOW_CONTROL_ERROR);
    }
    return 0;
}

/* A client that opens streams only to cancel them wastes our time. */
static void count_reset(struct http2 *h)
{
    int64_t now_ms = (int64_t)uv_now(h->conn->loop);
    int64_t forgiven = (now_ms - h->resets_ms) * RESETS_PER_SECOND / 1000;

    if (forgiven > 0) {
        h->resets -= forgiven < h->resets ? (unsigned)forgiven : h->resets;
        h->resets_ms = now_ms;
    }
    if (++h->resets > RESETS_BURST) {
        (void)nghttp2_session_terminate_session(h->session, NGHTTP2_ENHANCE_YOUR_CALM);
    }
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user_data)
{
    struct http2 *h = user_data;
    struct stream *s = stream_find(session, frame->hd.stream_id);
    bool ended = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;

    switch (frame->hd.type) {
    case NGHTTP2_SETTINGS:
        h->greeted = true;
        break;
    case NGHTTP2_RST_STREAM:
        count_reset(h);
        break;
    case NGHTTP2_HEADERS:
    case NGHTTP2_DATA:
        if (s) {
            s->peer_ended = s->peer_ended || ended;
            if (is_request(frame)) {
                stream_begin(s);
            }
            stream_drain(s);
        }
        break;
    default:
        break;
    }
    return 0;
}

static int on_frame_sent(nghttp2_session *session, const nghttp2_frame *frame, void *user_data)
{
    struct stream *s = stream_find(session, frame->hd.stream_id);
    bool carries_end = frame->hd.type == NGHTTP2_DATA || frame->hd.type == NGHTTP2_HEADERS;

    (void)user_data;
    if (!s || !carries_end || !(frame->hd.flags & NGHTTP2_FLAG_END_STREAM)) {
        return 0;
    }
    s->sent_end = true;
    if (!s->peer_ended) {
        /* Answered before the body ended: the client may stop sending it (RFC 9113, 8.1). */
        (void)nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, s->id, NGHTTP2_NO_ERROR);
    }
    return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t id, uint32_t code, void *user_data)
{
    struct stream *s = stream_find(session, id);

    (void)code;
    if (s) {
        http_exchange_fail(&s->base, s->sent_end ? 0 : -ECONNRESET);
        http2_wake(user_data);
    }
    return 0;
}

/* ---- the connection's side ---- */

static nghttp2_session_callbacks *callbacks_new(void)
{
    nghttp2_session_callbacks *cb;

    if (nghttp2_session_callbacks_new(&cb) != 0) {
        abort();
    }
    nghttp2_session_callbacks_set_on_begin_headers_callback(cb, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(cb, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(cb, on_frame);
    nghttp2_session_callbacks_set_on_frame_send_callback(cb, on_frame_sent);
    nghttp2_session_callbacks_set_on_stream_close_callback(cb, on_stream_close);
    nghttp2_session_callbacks_set_send_data_callback(cb, on_send_data);
    return cb;
}

static void session_new(struct http2 *h)
{
    nghttp2_session_callbacks *callbacks = callbacks_new();
    nghttp2_option *option;

    if (nghttp2_option_new(&option) != 0) {
        abort();
    }
    nghttp2_option_set_no_auto_window_update(option, 1);
    nghttp2_option_set_max_outbound_ack(option, ACKS_MAX);
    if (nghttp2_session_server_new2(&h->session, callbacks, h, option) != 0) {
        abort();
    }
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(callbacks);
}

static void *http2_open(struct http_conn *conn)
{
    const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, STREAMS_MAX},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, HTTP_WINDOW_BYTES},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, HTTP_HEADER_BYTES_MAX},
    };
    struct http2 *h = xnew(struct http2);

    h->conn = conn;
    h->resets_ms = (int64_t)uv_now(conn->loop);
    session_new(h);
    (void)nghttp2_submit_settings(h->session, NGHTTP2_FLAG_NONE, settings, countof(settings));
    (void)nghttp2_session_set_local_window_size(h->session, NGHTTP2_FLAG_NONE, 0,
                                                4 * HTTP_WINDOW_BYTES);
    http2_wake(h);
    return h;
}

static void fail_all(struct http2 *h, int error)
{
    struct stream *s;

    DL_FOREACH (h->streams, s) {
        http_exchange_fail(&s->base, error);
    }
}

/* Lets nghttp2 write as long as the socket keeps up. */
static void http2_pump(struct http2 *h)
{
    const struct http_conn_ops *ops = h->conn->ops;

    while (ops->pending(h->conn) < HTTP_WINDOW_BYTES) {
        const uint8_t *data;
        ssize_t n = nghttp2_session_mem_send(h->session, &data);
        if (n < 0) {
            fail_all(h, -EPROTO);
            http2_close(h, HTTP_CLOSE_RESET);
        }
        if (n <= 0) {
            return;
        }
        ops->write(h->conn, data, (size_t)n);
    }
}

static void http2_set_phase(struct http2 *h)
{
    enum http_phase phase = !h->greeted || h->heads_n > 0 ? HTTP_PHASE_HEAD
                            : h->streams                  ? HTTP_PHASE_BUSY
                                                          : HTTP_PHASE_IDLE;

    if (!h->closing) {
        http_conn_phase(h->conn, phase);
    }
}

/* Sends GOAWAY and closes: for a connection that is over, on either side's account. */
static void http2_leave(struct http2 *h, int error)
{
    (void)nghttp2_session_terminate_session(h->session, NGHTTP2_NO_ERROR);
    http2_pump(h);
    fail_all(h, error);
    http2_wake(h);
    http2_close(h, HTTP_CLOSE_FLUSH);
}

static size_t http2_want(const void *p)
{
    const struct http2 *h = p;

    return h->closing ? 0 : READ_BYTES;
}

static void http2_input(void *p, const char *data, size_t len)
{
    struct http2 *h = p;
    ssize_t n = nghttp2_session_mem_recv(h->session, (const uint8_t *)data, len);

    if (n < 0) {
        fail_all(h, -EPROTO); /* no HTTP/2 at all, or a flood: it would not read a GOAWAY */
        http2_close(h, HTTP_CLOSE_RESET);
    }
    http2_set_phase(h);
    http2_wake(h);
}

static void http2_eof(void *p)
{
    http2_leave(p, -ECONNRESET);
}

static void http2_resume(void *p)
{
    struct http2 *h = p;
    struct stream *s, *next;

    DL_FOREACH (h->streams, s) {
        if (!s->base.over) {
            stream_drain(s);
        }
    }
    http2_pump(h);
    DL_FOREACH_SAFE (h->streams, s, next) {
        if (s->base.over) {
            stream_end(s);
        }
    }
    bool idle = !h->streams && h->conn->stopping;
    bool ended = !nghttp2_session_want_read(h->session) && !nghttp2_session_want_write(h->session);
    if (!h->closing && (idle || ended)) {
        fail_all(h, -ECONNRESET);
        http2_wake(h);
        http2_close(h, HTTP_CLOSE_FLUSH);
    }
    http2_set_phase(h);
}

static void http2_written(void *p)
{
    struct http2 *h = p;
    struct stream *s;

    http2_pump(h);
    DL_FOREACH (h->streams, s) {
        http_exchange_unblock(&s->base);
    }
}

static void http2_sweep(void *p, int64_t now_ms, uint32_t stall_ms)
{
    struct http2 *h = p;
    struct stream *s;

    DL_FOREACH (h->streams, s) {
        bool owed = s->begun && !s->peer_ended && s->base.credit > 0 && !s->base.finished;
        if (!s->base.over && http_exchange_stalled(&s->base, owed, now_ms, stall_ms)) {
            stream_reset(s, -ETIMEDOUT, NGHTTP2_CANCEL);
        }
    }
}

static void http2_expire(void *p)
{
    http2_leave(p, -ETIMEDOUT);
}

static void http2_stop(void *p)
{
    struct http2 *h = p;
    int32_t last = nghttp2_session_get_last_proc_stream_id(h->session);

    (void)nghttp2_submit_goaway(h->session, NGHTTP2_FLAG_NONE, last, NGHTTP2_NO_ERROR, NULL, 0);
    http2_wake(h);
}

static void http2_gone(void *p, int error)
{
    struct http2 *h = p;
    struct stream *s, *next;

    h->closing = true;
    fail_all(h, error);
    DL_FOREACH_SAFE (h->streams, s, next) {
        stream_end(s);
    }
    nghttp2_session_del(h->session);
    free(h);
}

const struct http_protocol http2_protocol = {
    .open = http2_open,
    .want = http2_want,
    .input = http2_input,
    .eof = http2_eof,
    .resume = http2_resume,
    .written = http2_written,
    .sweep = http2_sweep,
    .expire = http2_expire,
    .stop = http2_stop,
    .gone = http2_gone,
};
