/* http2_client.c - on nghttp2, as the server's side in http2.c.
 *
 * nghttp2 calls back while it reads; what it says is put into the stream, and told to the handler
 * when it has finished (streams_tell). A stream goes away in on_run() only, so none does below
 * nghttp2's feet.
 */
#include "lib/http/http2_client.h"

#include <assert.h>
#include <errno.h>
#include <nghttp2/nghttp2.h>
#include <utlist.h>

#include "lib/base/alloc.h"
#include "lib/http/h2_fields.h"
#include "lib/http/head.h"
#include "lib/http/upstream_ops.h"

enum {
    READ_BYTES = 64 * 1024,
    STREAMS_MAX = 256,
    INTERIM_MAX = 16, /* responses before the response: 100, 102, 103 */
    ACKS_MAX = 256,
    OUT_BYTES_MAX = 2 * HTTP_WINDOW_BYTES,
};

struct stream {
    struct upstream base;
    struct stream *prev, *next;
    struct http2_client *client;
    int32_t id; /* 0: nothing was sent */
    const struct upstream_handler *handler;
    void *ctx;
    struct head head, trailers;
    struct buf in, out;
    size_t credit;
    int64_t out_left; /* of the request's announced length; -1: none was */
    unsigned interim;
    int status;      /* of the response; 0: its head is not complete */
    bool told;       /* on_response was called */
    bool peer_ended; /* END_STREAM was received */
    bool finished;   /* the request */
    bool blocked;
    bool over;   /* on_end(error) is to come */
    bool closed; /* upstream_close() was called */
    int error;
};

struct http2_client {
    struct client_conn *conn;
    nghttp2_session *session;
    struct stream *streams;
    unsigned streams_n;
    void (*gone)(void *ctx);
    void *gone_ctx;
    bool dead;    /* no new streams */
    bool leaving; /* http2_client_leave() was called */
    bool closed;  /* http2_client_close() was called */
};

static struct stream *stream_of(struct upstream *base)
{
    return container_of(base, struct stream, base);
}

static struct stream *stream_find(nghttp2_session *session, int32_t id)
{
    return nghttp2_session_get_stream_user_data(session, id);
}

static void stream_fail(struct stream *s, int error)
{
    if (!s->over) {
        s->over = true;
        s->error = error;
        client_conn_wake(s->client->conn);
    }
}

static void stream_reset(struct stream *s, int error)
{
    (void)nghttp2_submit_rst_stream(s->client->session, NGHTTP2_FLAG_NONE, s->id, NGHTTP2_CANCEL);
    stream_fail(s, error);
}

/* ---- the request ---- */

static ssize_t on_read_data(nghttp2_session *session, int32_t id, uint8_t *out, size_t len,
                            uint32_t *flags, nghttp2_data_source *source, void *user_data)
{
    struct stream *s = stream_find(session, id);

    (void)source, (void)user_data;
    if (!s) {
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    }
    size_t held = buf_len(&s->out);
    size_t n = held < len ? held : len;
    if (n == 0 && !s->finished) {
        return NGHTTP2_ERR_DEFERRED;
    }
    if (n > 0) {
        memcpy(out, buf_at(&s->out), n);
        buf_consume(&s->out, n);
    }
    if (s->finished && n == held) {
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    }
    return (ssize_t)n;
}

static void stream_send(struct upstream *base, const struct upstream_request *request,
                        const struct upstream_handler *handler, void *ctx)
{
    struct stream *s = stream_of(base);
    nghttp2_data_provider provider = {.read_callback = on_read_data};
    scoped(h2_fields_fini) struct h2_fields fields = {0};

    assert(s->id == 0 && handler->on_end);
    s->handler = handler;
    s->ctx = ctx;
    s->out_left = request->content_length;
    bool sane = head_word_ok(request->method) && head_word_ok(request->target) && !request->tunnel;
    int r = sane ? h2_fields_request(&fields, request->method, request->target, request->headers,
                                     request->headers_n, request->content_length)
                 : -EINVAL;
    if (r < 0 || s->client->dead) {
        stream_fail(s, r < 0 ? r : -ECONNRESET);
        return;
    }
    s->id = nghttp2_submit_request(s->client->session, NULL, fields.list, fields.n,
                                   request->content_length == 0 ? NULL : &provider, s);
    if (s->id < 0) {
        s->id = 0;
        stream_fail(s, -EPROTO);
    }
    client_conn_wake(s->client->conn);
}

static size_t stream_writable(const struct upstream *base)
{
    const struct stream *s = (const struct stream *)base; /* its first member */
    size_t pending = s->over ? HTTP_WINDOW_BYTES : buf_len(&s->out);

    return pending < HTTP_WINDOW_BYTES ? HTTP_WINDOW_BYTES - pending : 0;
}

static void stream_write(struct upstream *base, const void *data, size_t len)
{
    struct stream *s = stream_of(base);

    if (s->over || len == 0) {
        return;
    }
    assert(!s->finished);
    if ((s->out_left >= 0 && len > (uint64_t)s->out_left) || buf_append(&s->out, data, len) < 0) {
        stream_reset(s, -EPROTO);
        return;
    }
    s->out_left -= s->out_left >= 0 ? (int64_t)len : 0;
    s->blocked = s->blocked || stream_writable(base) == 0;
    (void)nghttp2_session_resume_data(s->client->session, s->id);
    client_conn_wake(s->client->conn);
}

static void stream_finish(struct upstream *base)
{
    struct stream *s = stream_of(base);

    if (s->over || s->finished) {
        return;
    }
    s->finished = true;
    if (s->out_left > 0) {
        stream_reset(s, -EPROTO); /* less than was announced */
        return;
    }
    (void)nghttp2_session_resume_data(s->client->session, s->id);
    client_conn_wake(s->client->conn);
}

static void stream_credit(struct upstream *base, size_t bytes)
{
    struct stream *s = stream_of(base);

    s->credit = bytes > SIZE_MAX - s->credit ? SIZE_MAX : s->credit + bytes;
    client_conn_wake(s->client->conn);
}

static bool stream_reusable(const struct upstream *base)
{
    (void)base;
    return false;
}

static void stream_idle(struct upstream *base, void (*gone)(void *ctx), void *ctx)
{
    (void)base, (void)gone, (void)ctx;
}

/* Closed at once: the counters of the connection's bytes may be freed after the last stream. */
static void client_settle(struct http2_client *client)
{
    const struct stream *s;

    DL_FOREACH (client->streams, s) {
        if (!s->closed) {
            return;
        }
    }
    http2_client_close(client);
}

static void stream_close(struct upstream *base)
{
    struct stream *s = stream_of(base);
    struct http2_client *client = s->client;

    s->closed = true;
    if (s->id > 0 && !s->over) {
        stream_reset(s, -ECANCELED);
    }
    s->over = true;
    client_conn_wake(client->conn);
    if (client->leaving) {
        client_settle(client);
    }
}

static const struct upstream_ops ops = {
    .send = stream_send,
    .write = stream_write,
    .writable = stream_writable,
    .finish = stream_finish,
    .credit = stream_credit,
    .reusable = stream_reusable,
    .idle = stream_idle,
    .close = stream_close,
};

/* ---- the response, as nghttp2 reads it ---- */

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
                     void *user_data)
{
    struct stream *s = stream_find(session, frame->hd.stream_id);

    (void)flags, (void)user_data;
    if (!s || frame->hd.type != NGHTTP2_HEADERS) {
        return 0;
    }
    if (s->over) {
        return 0; /* one reset is enough for however many fields are too much */
    }
    struct head *head = s->status ? &s->trailers : &s->head;
    if (head_name(head, (const char *)name, name_len) < 0 ||
        head_value(head, (const char *)value, value_len) < 0) {
        stream_reset(s, -EMSGSIZE);
    }
    return 0;
}

/* A head is complete: the response's, or one of those before it. */
static void head_done(struct stream *s)
{
    struct str text = {NULL, 0};
    char digits[4] = "";

    head_seal(&s->head);
    (void)head_count(head_fields(&s->head), STR(":status"), &text);
    (void)str_copy(digits, sizeof(digits), text); /* nghttp2 has checked that it is a number */
    int status = (int)strtol(digits, NULL, 10);
    if (status >= 200) {
        s->status = status;
    } else if (++s->interim > INTERIM_MAX) {
        stream_reset(s, -EPROTO);
    } else {
        head_fini(&s->head);
        head_init(&s->head);
    }
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user_data)
{
    struct http2_client *client = user_data;
    struct stream *s = stream_find(session, frame->hd.stream_id);

    if (frame->hd.type == NGHTTP2_GOAWAY) {
        client->dead = true;
    }
    if (!s || (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA)) {
        return 0;
    }
    if (frame->hd.type == NGHTTP2_HEADERS && s->status == 0 && !s->over) {
        head_done(s);
    }
    s->peer_ended = s->peer_ended || (frame->hd.flags & NGHTTP2_FLAG_END_STREAM);
    return 0;
}

static int on_data_chunk(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data,
                         size_t len, void *user_data)
{
    struct stream *s = stream_find(session, id);

    (void)flags, (void)user_data;
    (void)nghttp2_session_consume_connection(session, len);
    if (!s || s->over) {
        (void)nghttp2_session_consume_stream(session, id, len);
    } else if (buf_append(&s->in, data, len) < 0) {
        stream_reset(s, -EMSGSIZE);
    }
    return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t id, uint32_t code, void *user_data)
{
    struct stream *s = stream_find(session, id);

    (void)code, (void)user_data;
    if (s && !s->peer_ended) {
        stream_fail(s, -ECONNRESET);
    }
    return 0;
}

/* ---- what handlers are told ---- */

static int64_t length_of(const struct stream *s, struct head_fields fields)
{
    struct str text = {NULL, 0};
    char digits[24];

    if (head_count(fields, STR("content-length"), &text) > 0 &&
        str_copy(digits, sizeof(digits), text)) {
        return strtoll(digits, NULL, 10); /* nghttp2 has checked that it is a number that fits */
    }
    return s->peer_ended && buf_len(&s->in) == 0 ? 0 : -1;
}

static void tell_response(struct stream *s)
{
    struct head_fields fields = head_fields(&s->head);

    s->told = true;
    while (fields.n > 0 && fields.at[0].name.len > 0 && fields.at[0].name.at[0] == ':') {
        fields.at++;
        fields.n--;
    }
    if (s->handler->on_response) {
        s->handler->on_response(s->ctx, s->status, fields.at, fields.n, length_of(s, fields));
    }
}

static void tell_body(struct stream *s)
{
    while (!s->over && buf_len(&s->in) > 0 && s->credit > 0) {
        size_t n = buf_len(&s->in) < s->credit ? buf_len(&s->in) : s->credit;
        s->credit -= n;
        if (s->handler->on_body) {
            s->handler->on_body(s->ctx, buf_at(&s->in), n);
        }
        buf_consume(&s->in, n);
        (void)nghttp2_session_consume_stream(s->client->session, s->id, n);
    }
    if (buf_len(&s->in) == 0) {
        buf_fini(&s->in);
    }
}

static void tell_trailers(struct stream *s)
{
    head_seal(&s->trailers);
    struct head_fields fields = head_fields(&s->trailers);

    if (fields.n > 0 && s->handler->on_trailers) {
        s->handler->on_trailers(s->ctx, fields.at, fields.n);
    }
}

static void stream_tell(struct stream *s)
{
    if (!s->over && s->status != 0 && !s->told) {
        tell_response(s);
    }
    if (!s->over && s->told) {
        tell_body(s);
    }
    if (!s->over && s->told && s->peer_ended && buf_len(&s->in) == 0) {
        tell_trailers(s);
        if (s->handler->on_body_end) {
            s->handler->on_body_end(s->ctx);
        }
        if (!s->finished) {
            (void)nghttp2_submit_rst_stream(s->client->session, NGHTTP2_FLAG_NONE, s->id,
                                            NGHTTP2_NO_ERROR);
        }
        stream_fail(s, 0);
    }
    if (!s->over && s->blocked && buf_len(&s->out) <= HTTP_WINDOW_BYTES / 2) {
        s->blocked = false;
        if (s->handler->on_credit) {
            s->handler->on_credit(s->ctx);
        }
    }
}

static void streams_tell(struct http2_client *client)
{
    struct stream *s;

    DL_FOREACH (client->streams, s) {
        if (s->handler && !s->closed && !client->closed) {
            stream_tell(s);
        }
    }
}

/* ---- streams come and go ---- */

static void stream_free(struct stream *s)
{
    struct http2_client *client = s->client;

    if (s->id > 0) {
        (void)nghttp2_session_set_stream_user_data(client->session, s->id, NULL);
    }
    DL_DELETE(client->streams, s);
    client->streams_n--;
    head_fini(&s->head);
    head_fini(&s->trailers);
    buf_fini(&s->in);
    buf_fini(&s->out);
    free(s);
}

/* A stream whose on_end was called stays until its owner closes it. */
static void streams_end(struct http2_client *client)
{
    struct stream *s, *next;

    DL_FOREACH_SAFE (client->streams, s, next) {
        const struct upstream_handler *handler = s->handler;
        if (s->over && handler && !s->closed && !client->closed) {
            s->handler = NULL;
            handler->on_end(s->ctx, s->error);
        }
    }
    DL_FOREACH_SAFE (client->streams, s, next) {
        if (s->closed) {
            stream_free(s);
        }
    }
}

struct upstream *http2_client_open(struct http2_client *client)
{
    uint32_t most = nghttp2_session_get_remote_settings(client->session,
                                                        NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);

    if (client->dead || client->streams_n >= STREAMS_MAX || client->streams_n >= most) {
        return NULL;
    }
    struct stream *s = xnew(struct stream);
    s->base.ops = &ops;
    s->client = client;
    head_init(&s->head);
    head_init(&s->trailers);
    buf_init(&s->in, HTTP_WINDOW_BYTES);
    buf_init(&s->out, OUT_BYTES_MAX);
    DL_APPEND(client->streams, s);
    client->streams_n++;
    return &s->base;
}

bool http2_client_idle(const struct http2_client *client)
{
    return !client->streams;
}

/* ---- the connection ---- */

static void client_die(struct http2_client *client, int error)
{
    struct stream *s;

    client->dead = true;
    DL_FOREACH (client->streams, s) {
        stream_fail(s, error);
    }
    client_conn_wake(client->conn);
}

static void client_pump(struct http2_client *client)
{
    while (client_conn_pending(client->conn) < HTTP_WINDOW_BYTES) {
        const uint8_t *data;
        ssize_t n = nghttp2_session_mem_send(client->session, &data);
        if (n < 0) {
            client_die(client, -EPROTO);
        }
        if (n <= 0) {
            return;
        }
        client_conn_write(client->conn, data, (size_t)n);
    }
}

static void on_link_data(void *ctx, const char *data, size_t len)
{
    struct http2_client *client = ctx;

    if (nghttp2_session_mem_recv(client->session, (const uint8_t *)data, len) < 0) {
        client_die(client, -EPROTO);
    }
    client_conn_wake(client->conn);
}

static void on_link_end(void *ctx, int error)
{
    struct http2_client *client = ctx;

    streams_tell(client); /* what came before the end is still good */
    client_die(client, error < 0 ? error : -ECONNRESET);
}

static void on_link_run(void *ctx)
{
    struct http2_client *client = ctx;

    streams_tell(client);
    client_pump(client);
    streams_end(client);
    if (client->dead && !client->closed && client->gone) {
        void (*gone)(void *gone_ctx) = client->gone;
        client->gone = NULL;
        gone(client->gone_ctx);
    }
    if (!client->closed) {
        client_pump(client);
        client_conn_read(client->conn, READ_BYTES);
    }
}

static void on_link_written(void *ctx)
{
    struct http2_client *client = ctx;

    client_pump(client);
    streams_tell(client);
}

static void on_link_closed(void *ctx)
{
    struct http2_client *client = ctx;

    while (client->streams) {
        assert(client->streams->closed); /* else its owner would go on with freed memory */
        stream_free(client->streams);
    }
    nghttp2_session_del(client->session);
    free(client);
}

static const struct client_conn_events events = {.data = on_link_data,
                                                 .end = on_link_end,
                                                 .run = on_link_run,
                                                 .written = on_link_written,
                                                 .closed = on_link_closed};

static void session_new(struct http2_client *client)
{
    nghttp2_session_callbacks *cb;
    nghttp2_option *option;

    if (nghttp2_session_callbacks_new(&cb) != 0 || nghttp2_option_new(&option) != 0) {
        abort();
    }
    nghttp2_session_callbacks_set_on_header_callback(cb, on_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(cb, on_frame);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, on_data_chunk);
    nghttp2_session_callbacks_set_on_stream_close_callback(cb, on_stream_close);
    nghttp2_option_set_no_auto_window_update(option, 1);
    nghttp2_option_set_max_outbound_ack(option, ACKS_MAX);
    if (nghttp2_session_client_new2(&client->session, cb, client, option) != 0) {
        abort();
    }
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(cb);
}

struct http2_client *http2_client_new(struct client_conn *conn, void (*gone)(void *ctx), void *ctx)
{
    const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, HTTP_WINDOW_BYTES},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, HTTP_HEADER_BYTES_MAX},
    };
    struct http2_client *client = xnew(struct http2_client);

    client->conn = conn;
    client->gone = gone;
    client->gone_ctx = ctx;
    session_new(client);
    (void)nghttp2_submit_settings(client->session, NGHTTP2_FLAG_NONE, settings, countof(settings));
    (void)nghttp2_session_set_local_window_size(client->session, NGHTTP2_FLAG_NONE, 0,
                                                4 * HTTP_WINDOW_BYTES);
    client_conn_own(conn, &events, client);
    client_conn_read(conn, READ_BYTES);
    client_conn_wake(conn);
    return client;
}

void http2_client_leave(struct http2_client *client)
{
    if (!client->closed) {
        client->leaving = true;
        client->dead = true;
        client->gone = NULL;
        client_settle(client);
    }
}

void http2_client_close(struct http2_client *client)
{
    if (client && !client->closed) {
        client->closed = true;
        client->dead = true;
        client_conn_close(client->conn, client->streams != NULL);
    }
}
