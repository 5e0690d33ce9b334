#include "lib/http/upstream.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>

#include "lib/base/alloc.h"
#include "lib/http/client_conn.h"
#include "lib/http/h1.h"
#include "lib/http/loop_context.h"
#include "lib/http/upstream_ops.h"

enum {
    HEAD_READ_BYTES = 16 * 1024,
    INTERIM_MAX = 16, /* responses before the response: 100, 102, 103 */
    CHUNK_LINE_BYTES = 24,
    REQUEST_HEAD_BYTES_MAX = 4 * HTTP_HEADER_BYTES_MAX,
};

/*   IDLE  -> HEAD    upstream_send()
 *   HEAD  -> BODY    the response's head is complete
 *   HEAD  -> TUNNEL  it was 101, and one was asked for
 *   any   -> IDLE    on_end; a connection not fit for reuse stays there */
enum mode { MODE_IDLE, MODE_HEAD, MODE_BODY, MODE_TUNNEL };

struct plain_upstream {
    struct upstream base;
    struct client_conn *conn;
    struct h1 h1;
    struct buf in; /* read ahead of credit */
    enum mode mode;
    const struct upstream_handler *handler;
    void *ctx;
    size_t credit;
    unsigned interim;
    bool no_body; /* the request was HEAD */
    bool tunnel_asked;
    bool chunked;     /* of the request */
    int64_t out_left; /* of the request's announced length */
    bool finished;    /* the request */
    bool peer_ended;  /* of a tunnel */
    bool blocked;
    bool held; /* see upstream_hold() */
    bool over; /* on_end(error) is to come */
    int error;
    bool reusable;
    bool dead;   /* the service closed it, or sent what nobody asked for */
    bool closed; /* upstream_close() was called: no callback any more */
    void (*gone)(void *ctx);
    void *gone_ctx;
};

static struct plain_upstream *up_of(struct upstream *base)
{
    return container_of(base, struct plain_upstream, base);
}

/* Marks the exchange over, once; on_end follows from the loop. */
static void up_end(struct plain_upstream *up, int error)
{
    if (!up->over && up->mode != MODE_IDLE) {
        up->over = true;
        up->error = error;
        client_conn_wake(up->conn);
    }
}

/* ---- the request ---- */

static int put_head(struct plain_upstream *up, struct buf *out, struct str method,
                    struct str target)
{
    if (!head_word_ok(method) || !head_word_ok(target)) {
        return -EINVAL;
    }
    int r = buf_append(out, method.at, method.len);
    r = r < 0 ? r : buf_append(out, " ", 1);
    r = r < 0 ? r : buf_append(out, target.at, target.len);
    r = r < 0 ? r : buf_append(out, " HTTP/1.1\r\n", 11);
    if (r == 0 && up->tunnel_asked) {
        r = buf_append(out, "connection: upgrade\r\n", 21);
    }
    return r;
}

/* A method that never has a body needs no content-length. */
static int put_length(struct plain_upstream *up, struct buf *out, struct str method)
{
    bool bodiless = str_eq(method, STR("GET")) || str_eq(method, STR("HEAD"));

    if (up->chunked) {
        return buf_append(out, "transfer-encoding: chunked\r\n\r\n", 30);
    }
    if (up->out_left > 0 || (!bodiless && !up->tunnel_asked)) {
        return buf_printf(out, "content-length: %lld\r\n\r\n", (long long)up->out_left);
    }
    return buf_append(out, "\r\n", 2);
}

static void plain_send(struct upstream *base, const struct upstream_request *request,
                       const struct upstream_handler *handler, void *ctx)
{
    struct plain_upstream *up = up_of(base);
    const struct str method = request->method;
    const int64_t content_length = request->content_length;
    scoped_buf(out, REQUEST_HEAD_BYTES_MAX);

    assert(up->mode == MODE_IDLE && handler->on_end);
    up->mode = MODE_HEAD;
    up->handler = handler;
    up->ctx = ctx;
    up->gone = NULL;
    up->credit = 0;
    up->interim = 0;
    up->no_body = str_eq(method, STR("HEAD"));
    up->tunnel_asked = request->tunnel;
    up->chunked = content_length < 0 && !request->tunnel;
    up->out_left = content_length < 0 ? 0 : content_length;
    up->finished = up->peer_ended = up->blocked = up->over = up->reusable = false;
    h1_reset(&up->h1);
    int r = put_head(up, &out, method, request->target);
    r = r < 0 ? r : head_put_fields(&out, request->headers, request->headers_n);
    r = r < 0 ? r : put_length(up, &out, method);
    if (r < 0 || up->dead) {
        up_end(up, r < 0 ? r : -ECONNRESET);
        return;
    }
    client_conn_write(up->conn, buf_at(&out), buf_len(&out));
}

static size_t up_writable(const struct plain_upstream *up)
{
    size_t pending =
        up->over || up->mode == MODE_IDLE ? HTTP_WINDOW_BYTES : client_conn_pending(up->conn);

    return pending < HTTP_WINDOW_BYTES ? HTTP_WINDOW_BYTES - pending : 0;
}

static void plain_write(struct upstream *base, const void *data, size_t len)
{
    struct plain_upstream *up = up_of(base);

    if (up->over || up->mode == MODE_IDLE || len == 0) {
        return;
    }
    assert(!up->finished);
    if (up->chunked) {
        char line[CHUNK_LINE_BYTES];
        const struct str parts[] = {
            {line, (size_t)snprintf(line, sizeof(line), "%zx\r\n", len)}, {data, len}, STR("\r\n")};
        client_conn_write_parts(up->conn, parts, countof(parts));
    } else if (up->mode == MODE_TUNNEL) {
        client_conn_write(up->conn, data, len);
    } else if ((uint64_t)up->out_left >= len) {
        up->out_left -= (int64_t)len;
        client_conn_write(up->conn, data, len);
    } else {
        up_end(up, -EPROTO); /* more than was announced: the service would misread it */
    }
    if (up_writable(up) == 0) {
        up->blocked = true;
    }
}

static size_t plain_writable(const struct upstream *base)
{
    return up_writable((const struct plain_upstream *)base); /* its first member */
}

static void plain_finish(struct upstream *base)
{
    struct plain_upstream *up = up_of(base);

    if (up->over || up->mode == MODE_IDLE || up->finished) {
        return;
    }
    up->finished = true;
    if (up->mode == MODE_TUNNEL) {
        client_conn_shutdown(up->conn);
        if (up->peer_ended) {
            up_end(up, 0);
        }
    } else if (up->chunked) {
        client_conn_write(up->conn, "0\r\n\r\n", 5);
    } else if (up->out_left > 0) {
        up_end(up, -EPROTO); /* less than was announced */
    }
}

static void plain_credit(struct upstream *base, size_t bytes)
{
    struct plain_upstream *up = up_of(base);

    up->credit = bytes > SIZE_MAX - up->credit ? SIZE_MAX : up->credit + bytes;
    client_conn_wake(up->conn);
}

/* ---- the response ---- */

static void up_body_end(struct plain_upstream *up)
{
    if (up->handler->on_body_end) {
        up->handler->on_body_end(up->ctx);
    }
}

/* The content length in the answer to a HEAD is passed on, although there is no body. */
static int64_t announced_length(const struct plain_upstream *up)
{
    if (!up->no_body) {
        return h1_content_length(&up->h1);
    }
    return up->h1.parser.flags & F_CONTENT_LENGTH ? (int64_t)up->h1.parser.content_length : -1;
}

static void up_response(struct plain_upstream *up)
{
    struct head_fields fields = head_fields(&up->h1.head);
    int status = up->h1.parser.status_code;

    if (status < 200 && (status != 101 || !up->tunnel_asked)) {
        if (status < 100 || status == 101 || ++up->interim > INTERIM_MAX) {
            up_end(up, -EPROTO);
            return;
        }
        h1_reset(&up->h1);
        return;
    }
    up->mode = status == 101 ? MODE_TUNNEL : MODE_BODY;
    if (up->handler->on_response) {
        up->handler->on_response(up->ctx, status, fields.at, fields.n, announced_length(up));
    }
}

static size_t take_head(struct plain_upstream *up, const char *data, size_t len)
{
    struct h1_fault fault;
    long n = len ? h1_head(&up->h1, data, len, up->no_body, &fault) : 0;

    if (n < 0) {
        up_end(up, (int)n);
        return len;
    }
    if (up->h1.state != H1_HEAD) {
        up_response(up);
    }
    return (size_t)n;
}

static void up_body(struct plain_upstream *up, const char *data, size_t len)
{
    up->credit -= len;
    if (len > 0 && up->handler->on_body) {
        up->handler->on_body(up->ctx, data, len);
    }
}

static size_t take_body(struct plain_upstream *up, const char *data, size_t len)
{
    struct str slice;

    if (up->h1.state == H1_DONE) {
        up_body_end(up);
        up_end(up, 0);
        return 0;
    }
    long n = h1_body(&up->h1, data, len, up->credit, &slice);
    if (n < 0) {
        up_end(up, (int)n);
        return len;
    }
    up_body(up, slice.at, slice.len);
    return (size_t)n;
}

static size_t take_tunnel(struct plain_upstream *up, const char *data, size_t len)
{
    size_t n = len < up->credit ? len : up->credit;

    up_body(up, data, n);
    return n;
}

static size_t take_step(struct plain_upstream *up, const char *data, size_t len)
{
    switch (up->mode) {
    case MODE_HEAD:
        return take_head(up, data, len);
    case MODE_BODY:
        return take_body(up, data, len);
    case MODE_TUNNEL:
        return take_tunnel(up, data, len);
    case MODE_IDLE:
    default:
        return 0;
    }
}

/* Takes what can be taken now; a step that uses no byte and changes nothing has no more to do. */
static size_t up_take(struct plain_upstream *up, const char *data, size_t len)
{
    size_t used = 0;

    while (!up->over && !up->closed) {
        enum mode before = up->mode;
        enum h1_state state = up->h1.state;
        size_t n = take_step(up, data + used, len - used);
        used += n;
        if (n == 0 && up->mode == before && up->h1.state == state) {
            break;
        }
    }
    return used;
}

/* The service sends no more, and all it sent has been taken. */
static void up_eof(struct plain_upstream *up)
{
    up->dead = true;
    switch (up->mode) {
    case MODE_HEAD:
        up_end(up, -ECONNRESET);
        break;
    case MODE_BODY:
        if (!h1_eof(&up->h1)) {
            up_end(up, -ECONNRESET);
            break;
        }
        (void)up_take(up, "", 0);
        break;
    case MODE_TUNNEL:
        if (!up->peer_ended) {
            up->peer_ended = true;
            up_body_end(up);
        }
        if (up->finished) {
            up_end(up, 0);
        }
        break;
    case MODE_IDLE:
    default:
        client_conn_wake(up->conn); /* to tell the owner that keeps it idle */
        break;
    }
}

static size_t up_want(const struct plain_upstream *up)
{
    bool waits = buf_len(&up->in) > 0;

    if (up->held) {
        return 0;
    }
    switch (up->mode) {
    case MODE_BODY:
        return waits || up->over ? 0 : h1_want(&up->h1, up->credit);
    case MODE_TUNNEL:
        return waits || up->over ? 0 : up->credit;
    case MODE_HEAD:
        return up->over ? 0 : HEAD_READ_BYTES;
    case MODE_IDLE:
    default:
        return up->dead ? 0 : 1; /* one byte is enough to know that it is not idle */
    }
}

/* ---- events of the wire ---- */

static void on_data(void *ctx, const char *data, size_t len)
{
    struct plain_upstream *up = ctx;

    if (up->mode == MODE_IDLE) {
        up->dead = true;
        client_conn_wake(up->conn);
    } else {
        if (buf_len(&up->in) == 0) {
            size_t n = up_take(up, data, len);
            data += n;
            len -= n;
        }
        if (len > 0 && !up->closed && buf_append(&up->in, data, len) < 0) {
            up_end(up, -ENOBUFS);
        }
    }
    client_conn_read(up->conn, up_want(up));
}

static void on_end(void *ctx, int error)
{
    struct plain_upstream *up = ctx;

    if (error < 0 && !client_conn_eof(up->conn) && up->mode != MODE_IDLE) {
        up->dead = true; /* it no longer reads, but an answer may be waiting: its end will come */
        return;
    }
    if (error < 0) {
        up->dead = true;
        up_end(up, -ECONNRESET);
        client_conn_wake(up->conn);
    } else if (buf_len(&up->in) == 0 && !up->over) {
        up_eof(up);
    }
}

/* Calls on_end, which may close or reuse the connection. */
static void up_finish(struct plain_upstream *up)
{
    bool quiet = buf_len(&up->in) == 0 && client_conn_pending(up->conn) == 0;

    up->reusable = up->error == 0 && up->mode == MODE_BODY && up->finished && quiet && !up->dead &&
                   !client_conn_eof(up->conn) && up->h1.keep_alive;
    up->dead = up->dead || !up->reusable;
    up->over = false;
    up->mode = MODE_IDLE;
    up->handler->on_end(up->ctx, up->error);
}

static void up_tell_gone(struct plain_upstream *up)
{
    void (*gone)(void *ctx) = up->gone;

    if (up->mode == MODE_IDLE && up->dead && gone && !up->closed) {
        up->gone = NULL;
        gone(up->gone_ctx);
    }
}

static void on_run(void *ctx)
{
    struct plain_upstream *up = ctx;
    bool held = buf_len(&up->in) > 0;

    if (!up->over) {
        buf_consume(&up->in, up_take(up, held ? buf_at(&up->in) : "", buf_len(&up->in)));
        held = buf_len(&up->in) > 0;
        if (client_conn_eof(up->conn) && !held && !up->over && !up->closed &&
            up->mode != MODE_IDLE) {
            up_eof(up);
        }
    }
    if (!held) {
        buf_fini(&up->in);
    }
    if (up->over && !up->closed) {
        up_finish(up);
    }
    up_tell_gone(up);
    client_conn_read(up->conn, up_want(up));
}

static void on_written(void *ctx)
{
    struct plain_upstream *up = ctx;

    if (up->blocked && !up->over && !up->closed && up->mode != MODE_IDLE &&
        client_conn_pending(up->conn) <= HTTP_WINDOW_BYTES / 2) {
        up->blocked = false;
        if (up->handler->on_credit) {
            up->handler->on_credit(up->ctx);
        }
    }
}

static void on_closed(void *ctx)
{
    struct plain_upstream *up = ctx;

    h1_fini(&up->h1);
    buf_fini(&up->in);
    free(up);
}

static const struct client_conn_events events = {
    .data = on_data,
    .end = on_end,
    .run = on_run,
    .written = on_written,
    .closed = on_closed,
};

/* ---- life ---- */

static bool plain_reusable(const struct upstream *base)
{
    const struct plain_upstream *up = (const struct plain_upstream *)base;

    return up->reusable && !up->dead;
}

static void plain_hold(struct upstream *base, bool held)
{
    struct plain_upstream *up = up_of(base);

    up->held = held;
    client_conn_read(up->conn, up_want(up));
}

static void plain_idle(struct upstream *base, void (*gone)(void *ctx), void *ctx)
{
    struct plain_upstream *up = up_of(base);

    up->gone = gone;
    up->gone_ctx = ctx;
    client_conn_wake(up->conn);
}

static void plain_close(struct upstream *base)
{
    struct plain_upstream *up = up_of(base);

    if (!up->closed) {
        up->closed = true;
        client_conn_close(up->conn, up->mode != MODE_IDLE);
    }
}

static const struct upstream_ops ops = {
    .send = plain_send,
    .write = plain_write,
    .writable = plain_writable,
    .finish = plain_finish,
    .credit = plain_credit,
    .hold = plain_hold,
    .reusable = plain_reusable,
    .idle = plain_idle,
    .close = plain_close,
};

struct upstream *upstream_on(struct client_conn *conn)
{
    struct plain_upstream *up = xnew(struct plain_upstream);

    up->base.ops = &ops;
    up->conn = conn;
    client_conn_own(conn, &events, up);
    h1_init(&up->h1, true);
    buf_init(&up->in, HEAD_READ_BYTES + LOOP_READ_BYTES);
    client_conn_read(conn, up_want(up));
    return &up->base;
}

int upstream_new(uv_loop_t *loop, int fd, struct upstream **out, struct err *err)
{
    struct client_conn *conn = NULL;
    int r = client_conn_open(loop, fd, &events, NULL, &conn, err);

    if (r == 0) {
        *out = upstream_on(conn);
    }
    return r;
}

/* ---- whichever protocol it is ---- */

void upstream_send(struct upstream *up, struct str method, struct str target,
                   const struct http_header *headers, size_t n, int64_t content_length, bool tunnel,
                   const struct upstream_handler *handler, void *ctx)
{
    const struct upstream_request request = {method, target, headers, n, content_length, tunnel};

    up->ops->send(up, &request, handler, ctx);
}

void upstream_write(struct upstream *up, const void *data, size_t len)
{
    up->ops->write(up, data, len);
}

size_t upstream_writable(const struct upstream *up)
{
    return up->ops->writable(up);
}

/* Until there is no room: on_credit comes only then. */
struct str upstream_write_some(struct upstream *up, struct str body)
{
    size_t room;

    while (body.len > 0 && (room = upstream_writable(up)) > 0) {
        size_t n = body.len < room ? body.len : room;

        upstream_write(up, body.at, n);
        body = str_skip(body, n);
    }
    if (body.len == 0) {
        upstream_finish(up);
    }
    return body;
}

void upstream_finish(struct upstream *up)
{
    up->ops->finish(up);
}

void upstream_credit(struct upstream *up, size_t bytes)
{
    up->ops->credit(up, bytes);
}

bool upstream_hold(struct upstream *up, bool held)
{
    if (up->ops->hold) {
        up->ops->hold(up, held);
    }
    return up->ops->hold;
}

bool upstream_reusable(const struct upstream *up)
{
    return up->ops->reusable(up);
}

void upstream_idle(struct upstream *up, void (*gone)(void *ctx), void *ctx)
{
    up->ops->idle(up, gone, ctx);
}

void upstream_close(struct upstream *up)
{
    if (up) {
        up->ops->close(up);
    }
}
