/* http1.c - HTTP/1.0 and 1.1 on the server's side: one exchange at a time on a connection.
 *
 * Bytes are parsed where they were read; what cannot be taken yet (a request sent ahead, a body
 * without credit) waits in `in`, which want() keeps short. The next request is looked at only when
 * the exchange before it has ended.
 *
 *   HEAD    -> BODY            the head is complete, the request goes to the handler
 *   BODY    -> ANSWER          its body has ended (at once when it has none)
 *   BODY    -> TUNNEL          answered with 101
 *   any     -> HEAD            the exchange ended; DRAIN in between when its body has not
 *   any     -> CLOSED          refused, aborted or the last one: bytes are no longer looked at
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>

#include "lib/base/alloc.h"
#include "lib/http/h1.h"
#include "lib/http/internal.h"
#include "lib/http/loop_context.h"

enum {
    HEAD_READ_BYTES = 16 * 1024,    /* at a time, while no credit says how much to read */
    PIPELINE_BYTES_MAX = 32 * 1024, /* of requests sent ahead, before reading stops */
    DRAIN_READ_BYTES = 64 * 1024,
    CHUNK_LINE_BYTES = 24,
};

enum mode { MODE_HEAD, MODE_BODY, MODE_ANSWER, MODE_TUNNEL, MODE_DRAIN, MODE_CLOSED };

struct http1_exchange {
    struct http_exchange base;
    struct http1 *owner;
    struct head head; /* the request points into it */
    bool minor;       /* 1.1, not 1.0 */
    bool expects;     /* 100-continue, not sent yet */
    bool no_body;     /* of the response: HEAD, 204, 304 */
    bool chunked;     /* of the response */
    bool peer_ended;  /* of a tunnel */
    int64_t out_left; /* of the response's announced length; -1: none was */
};

struct http1 {
    struct http_conn *conn;
    struct h1 h1;
    struct buf in;
    struct http1_exchange *ex; /* NULL while between requests */
    enum mode mode;
    bool eof;
    bool keep_alive;
    size_t drained_bytes;
};

static struct http1_exchange *ex_of(struct http_exchange *ex)
{
    return container_of(ex, struct http1_exchange, base);
}

static void http1_wake(struct http1 *h)
{
    h->conn->ops->wake(h->conn);
}

static void http1_close(struct http1 *h, enum http_close how)
{
    h->mode = MODE_CLOSED; /* `in` stays: a handler may be reading a slice of it at this moment */
    h->conn->ops->close(h->conn, how);
}

/* Ends the exchange, if there is one, and the connection. */
static void http1_fail(struct http1 *h, int error)
{
    if (h->ex) {
        http_exchange_fail(&h->ex->base, error);
        http1_wake(h);
    }
    http1_close(h, HTTP_CLOSE_RESET);
}

/* Answers without a handler: the request could not be parsed. */
static void http1_refuse(struct http1 *h, struct h1_fault fault)
{
    char body[256];
    char head[512];
    int body_len =
        snprintf(body, sizeof(body), "{\"code\":%d,\"message\":\"%s\"}", fault.status, fault.why);
    int head_len = snprintf(head, sizeof(head),
                            "HTTP/1.1 %d %s\r\ndate: %s\r\ncontent-type: application/json\r\n"
                            "content-length: %d\r\nconnection: close\r\n\r\n%s",
                            fault.status, http_reason(fault.status), head_date(), body_len, body);

    h->conn->ops->write(h->conn, head, (size_t)head_len);
    http1_close(h, HTTP_CLOSE_FLUSH);
}

/* ---- what the handler does ---- */

static const char continue_line[] = "HTTP/1.1 100 Continue\r\n\r\n";

static void ex_credit(struct http_exchange *base)
{
    struct http1_exchange *ex = ex_of(base);
    struct http1 *h = ex->owner;

    if (ex->expects && h->mode == MODE_BODY && base->status == 0) {
        h->conn->ops->write(h->conn, continue_line, sizeof(continue_line) - 1);
        ex->expects = false;
    }
    http1_wake(h);
}

static int put(struct buf *out, struct str text)
{
    return buf_append(out, text.at, text.len);
}

/* The connection writes its own date: the date of a service behind us is left out. */
static int put_headers(struct buf *out, const struct http_header *headers, size_t n)
{
    int r = 0;

    for (size_t i = 0; i < n && r == 0; i++) {
        if (!str_ieq(headers[i].name, STR("date"))) {
            r = head_put_fields(out, &headers[i], 1);
        }
    }
    return r;
}

/* The fields that frame the response, and whether the connection outlives it. */
static int put_framing(struct buf *out, const struct http1_exchange *ex, int64_t content_length)
{
    int status = ex->base.status;

    if (status == 101) {
        return put(out, STR("connection: upgrade\r\n\r\n"));
    }
    int r = 0;
    if (ex->chunked) {
        r = put(out, STR("transfer-encoding: chunked\r\n"));
    } else if (content_length >= 0 && status != 204) {
        r = buf_printf(out, "content-length: %lld\r\n", (long long)content_length);
    }
    if (r == 0 && !ex->owner->keep_alive) {
        r = put(out, STR("connection: close\r\n"));
    } else if (r == 0 && !ex->minor) {
        r = put(out, STR("connection: keep-alive\r\n"));
    }
    return r < 0 ? r : put(out, STR("\r\n"));
}

/* Decides how the response is framed: once, before its head goes out. */
static void ex_frame(struct http1_exchange *ex, int64_t content_length)
{
    int status = ex->base.status;
    struct http1 *h = ex->owner;

    ex->no_body = str_eq(ex->base.request.method, STR("HEAD")) || status == 204 || status == 304;
    ex->chunked = !ex->no_body && status != 101 && content_length < 0 && ex->minor;
    ex->out_left = ex->no_body || status == 101 ? -1 : content_length;
    if (!ex->no_body && content_length < 0 && !ex->minor) {
        h->keep_alive = false; /* its end is the connection's */
    }
    if (h->conn->stopping || (ex->expects && h->mode == MODE_BODY)) {
        h->keep_alive = false; /* a client that was never told to go on may or may not send */
    }
    if (h->h1.state == H1_BODY && (h->h1.chunked || h->h1.left > HTTP_DRAIN_BYTES)) {
        h->keep_alive = false; /* the rest may be too long to drop: say so before closing on it */
    }
}

static void ex_respond(struct http_exchange *base, const struct http_header *headers, size_t n,
                       int64_t content_length)
{
    struct http1_exchange *ex = ex_of(base);
    struct http1 *h = ex->owner;
    scoped_buf(out, (size_t)HTTP_HEADER_BYTES_MAX * 4);

    ex_frame(ex, content_length);
    int r = buf_printf(&out, "HTTP/1.1 %d %s\r\ndate: %s\r\n", base->status,
                       http_reason(base->status), head_date());
    r = r < 0 ? r : put_headers(&out, headers, n);
    r = r < 0 ? r : put_framing(&out, ex, content_length);
    if (r < 0) {
        http1_fail(h, -EMSGSIZE);
        return;
    }
    h->conn->ops->write(h->conn, buf_at(&out), buf_len(&out));
    if (base->status == 101) {
        h->mode = MODE_TUNNEL;
        h->keep_alive = false;
    }
    http1_wake(h); /* what waited for the decision goes on */
}

/* A chunk leaves as a whole: a line end that follows in a packet of its own would wake the peer for
 * two bytes. */
static void chunk_write(struct http_conn *conn, const struct str *parts, size_t n, size_t len)
{
    char line[CHUNK_LINE_BYTES];
    struct str all[HTTP_PARTS_MAX + 2] = {
        {line, (size_t)snprintf(line, sizeof(line), "%zx\r\n", len)}};

    memcpy(all + 1, parts, n * sizeof(*parts));
    all[n + 1] = STR("\r\n");
    conn->ops->write_parts(conn, all, n + 2);
}

static void ex_write(struct http_exchange *base, const struct str *parts, size_t n, size_t len)
{
    struct http1_exchange *ex = ex_of(base);
    struct http_conn *conn = ex->owner->conn;

    if (ex->no_body) {
        return;
    }
    if (ex->out_left >= 0 && len > (uint64_t)ex->out_left) {
        http1_fail(ex->owner, -EPROTO); /* more than was announced: the client would misread it */
        return;
    }
    if (ex->chunked) {
        chunk_write(conn, parts, n, len);
        return;
    }
    ex->out_left -= ex->out_left >= 0 ? (int64_t)len : 0;
    conn->ops->write_parts(conn, parts, n);
}

static size_t ex_pending(const struct http_exchange *base)
{
    const struct http1_exchange *ex = (const struct http1_exchange *)base; /* its first member */

    return ex->owner->conn->ops->pending(ex->owner->conn);
}

static bool ex_takes_pipe(const struct http_exchange *base)
{
    const struct http1_exchange *ex = (const struct http1_exchange *)base; /* its first member */
    const struct http_conn *conn = ex->owner->conn;

    return ex->out_left > 0 && conn->ops->takes_pipe && conn->ops->takes_pipe(conn);
}

static size_t ex_splice(struct http_exchange *base, int pipe, size_t len)
{
    struct http1_exchange *ex = ex_of(base);

    if (len > (uint64_t)ex->out_left) {
        http1_fail(ex->owner, -EPROTO); /* more than was announced */
        return 0;
    }
    size_t done = ex->owner->conn->ops->splice(ex->owner->conn, pipe, len);
    ex->out_left -= (int64_t)done;
    return done;
}

static void ex_finish(struct http_exchange *base)
{
    struct http1_exchange *ex = ex_of(base);
    struct http1 *h = ex->owner;

    if (ex->out_left > 0) {
        http1_fail(h, -EPROTO); /* less than was announced */
        return;
    }
    if (h->mode == MODE_TUNNEL) {
        h->conn->ops->shutdown(h->conn);
        if (!ex->peer_ended) {
            return;
        }
    } else if (ex->chunked) {
        h->conn->ops->write(h->conn, "0\r\n\r\n", 5);
    }
    http_exchange_fail(base, 0);
    http1_wake(h);
}

static void ex_abort(struct http_exchange *base, int error)
{
    http1_fail(ex_of(base)->owner, error);
}

static const struct http_exchange_ops exchange_ops = {
    .credit = ex_credit,
    .respond = ex_respond,
    .write = ex_write,
    .pending = ex_pending,
    .takes_pipe = ex_takes_pipe,
    .splice = ex_splice,
    .finish = ex_finish,
    .abort = ex_abort,
};

/* ---- what the peer sends ---- */

/* Fills the request from the sealed head; returns why it is none, or NULL. */
static const char *fill_request(const struct http1 *h, struct http1_exchange *ex)
{
    struct http_request *req = &ex->base.request;
    struct head_fields fields = head_fields(&ex->head);
    size_t hosts = head_count(fields, STR("host"), &req->authority);

    req->method = str_of(llhttp_method_name(h->h1.parser.method));
    req->scheme = h->conn->secure ? STR("https") : STR("http");
    req->peer = str_of(h->conn->peer);
    req->headers = fields.at;
    req->headers_n = fields.n;
    req->content_length = h1_content_length(&h->h1);
    req->secure = h->conn->secure;
    req->connection_tag = h->conn->tag;
    if (hosts > 1 || (hosts == 0 && ex->minor)) {
        return "a request needs exactly one Host header";
    }
    if (h->h1.parser.method == HTTP_CONNECT) {
        return "CONNECT is not supported";
    }
    if (!head_split_target(head_target_text(&ex->head), req)) {
        return "the request target must be a path";
    }
    if (!head_authority_ok(req->authority)) {
        return "the Host header is malformed";
    }
    req->upgrade = ex->minor && req->content_length == 0 && h->h1.parser.upgrade;
    return NULL;
}

static struct http1_exchange *exchange_new(struct http1 *h)
{
    struct http1_exchange *ex = xnew(struct http1_exchange);
    struct str expect = {NULL, 0};

    ex->base.ops = &exchange_ops;
    ex->base.moved_ms = (int64_t)uv_now(h->conn->loop);
    ex->base.blocked = h->conn->ops->pending(h->conn) >= HTTP_WINDOW_BYTES;
    ex->owner = h;
    ex->head = h->h1.head;
    head_init(&h->h1.head);
    ex->minor = h->h1.parser.http_minor == 1;
    ex->out_left = -1;
    ex->expects = ex->minor && h->h1.state == H1_BODY &&
                  head_count(head_fields(&ex->head), STR("expect"), &expect) > 0 &&
                  str_ieq(expect, STR("100-continue"));
    return ex;
}

static void exchange_free(struct http1_exchange *ex)
{
    head_fini(&ex->head);
    free(ex);
}

/* The head is complete. */
static void http1_begin(struct http1 *h)
{
    struct http1_exchange *ex = exchange_new(h);
    const char *why = fill_request(h, ex);

    if (why) {
        exchange_free(ex);
        http1_refuse(h, (struct h1_fault){400, why});
        return;
    }
    h->ex = ex;
    h->mode = MODE_BODY;
    h->keep_alive = h->h1.keep_alive;
    http_conn_phase(h->conn, HTTP_PHASE_BUSY);
    h->conn->ops->request(h->conn, &ex->base);
    assert(ex->base.handler); /* http_accept() belongs inside on_request */
}

static size_t take_head(struct http1 *h, const char *data, size_t len)
{
    struct h1_fault fault;

    if (len == 0) {
        return 0;
    }
    http_conn_phase(h->conn, HTTP_PHASE_HEAD);
    long n = h1_head(&h->h1, data, len, false, &fault);
    if (n < 0) {
        http1_refuse(h, fault);
        return len;
    }
    if (h->h1.state != H1_HEAD) {
        http1_begin(h);
    }
    return (size_t)n;
}

/* A body that breaks its framing is answered with an error if nothing was answered yet. */
static void bad_body(struct http1 *h, int error)
{
    bool answered = h->ex->base.status != 0;

    http_exchange_fail(&h->ex->base, error);
    http1_wake(h);
    if (answered) {
        http1_close(h, HTTP_CLOSE_RESET);
        return;
    }
    http1_refuse(h, error == -EMSGSIZE
                        ? (struct h1_fault){431, "the chunk extensions or trailers are too long"}
                        : (struct h1_fault){400, "the chunks of the body are malformed"});
}

static size_t take_body(struct http1 *h, const char *data, size_t len)
{
    assert(h->ex);
    struct http_exchange *ex = &h->ex->base;
    struct str slice;

    if (h->h1.state == H1_DONE) {
        bool undecided = ex->request.upgrade && ex->handler->tunnels && ex->status == 0;
        if (!undecided) {
            h->mode = MODE_ANSWER;
            http_exchange_body_end(ex);
        }
        return 0;
    }
    long n = h1_body(&h->h1, data, len, ex->credit, &slice);
    if (n < 0) {
        bad_body(h, (int)n);
        return len;
    }
    if (n > 0) {
        h->ex->expects = false;
        ex->moved_ms = (int64_t)uv_now(h->conn->loop);
    }
    http_exchange_body(ex, slice.at, slice.len);
    return (size_t)n;
}

static size_t take_tunnel(struct http1 *h, const char *data, size_t len)
{
    assert(h->ex);
    struct http_exchange *ex = &h->ex->base;
    size_t n = len < ex->credit ? len : ex->credit;

    http_exchange_body(ex, data, n);
    return n;
}

static void http1_next(struct http1 *h)
{
    h1_reset(&h->h1);
    h->mode = MODE_HEAD;
    if (h->conn->stopping || (h->eof && buf_len(&h->in) == 0)) {
        http1_close(h, HTTP_CLOSE_FLUSH);
        return;
    }
    http_conn_phase(h->conn, HTTP_PHASE_IDLE);
}

/* Drops a body that its handler did not want, to see the request behind it. */
static size_t take_drain(struct http1 *h, const char *data, size_t len)
{
    struct str slice;

    if (h->h1.state == H1_DONE) {
        http1_next(h);
        return 0;
    }
    long n = h1_body(&h->h1, data, len, SIZE_MAX, &slice);
    h->drained_bytes += n > 0 ? (size_t)n : 0;
    if (n < 0 || h->drained_bytes > HTTP_DRAIN_BYTES) {
        http1_close(h, HTTP_CLOSE_FLUSH);
        return len;
    }
    return (size_t)n;
}

static size_t take_step(struct http1 *h, const char *data, size_t len)
{
    switch (h->mode) {
    case MODE_HEAD:
        return take_head(h, data, len);
    case MODE_BODY:
        return take_body(h, data, len);
    case MODE_TUNNEL:
        return take_tunnel(h, data, len);
    case MODE_DRAIN:
        return take_drain(h, data, len);
    case MODE_CLOSED:
        return len;
    case MODE_ANSWER:
    default:
        return 0;
    }
}

/* Takes as much as can be taken now; returns how much that was. A step that uses no byte and
 * changes no mode has nothing more to do. */
static size_t http1_take(struct http1 *h, const char *data, size_t len)
{
    size_t used = 0;

    for (;;) {
        enum mode before = h->mode;
        enum h1_state state = h->h1.state;
        if (h->ex && h->ex->base.over) {
            break;
        }
        size_t n = take_step(h, data + used, len - used);
        used += n;
        if (n == 0 && h->mode == before && h->h1.state == state) {
            break;
        }
    }
    return used;
}

/* The peer sends no more, and all it sent has been taken. */
static void http1_ended(struct http1 *h)
{
    switch (h->mode) {
    case MODE_HEAD:
    case MODE_DRAIN:
        http1_close(h, HTTP_CLOSE_FLUSH);
        break;
    case MODE_BODY:
        if (h->h1.state != H1_DONE) {
            http1_fail(h, -ECONNRESET);
            break;
        }
        http_conn_phase(h->conn, HTTP_PHASE_HALF_CLOSED);
        break;
    case MODE_ANSWER:
        assert(h->ex);
        if (h->ex->base.handler->needs_peer && !h->ex->base.finished) {
            http1_fail(h, -ECONNRESET);
            break;
        }
        http_conn_phase(h->conn, HTTP_PHASE_HALF_CLOSED);
        break;
    case MODE_TUNNEL:
        assert(h->ex);
        if (!h->ex->peer_ended) {
            h->ex->peer_ended = true;
            http_conn_phase(h->conn, HTTP_PHASE_BUSY);
            http_exchange_body_end(&h->ex->base);
        }
        if (h->ex->base.finished && !h->ex->base.over) {
            http_exchange_fail(&h->ex->base, 0);
            http1_wake(h);
        }
        break;
    case MODE_CLOSED:
    default:
        break;
    }
}

static void http1_check_eof(struct http1 *h)
{
    bool over = h->ex && h->ex->base.over;

    if (h->eof && !over && (buf_len(&h->in) == 0 || h->mode == MODE_ANSWER)) {
        http1_ended(h);
    }
}

/* ---- the connection's side ---- */

static void *http1_open(struct http_conn *conn)
{
    struct http1 *h = xnew(struct http1);

    h->conn = conn;
    h1_init(&h->h1, false);
    buf_init(&h->in, PIPELINE_BYTES_MAX + LOOP_READ_BYTES);
    return h;
}

static size_t http1_room(const struct http1 *h)
{
    size_t held = buf_len(&h->in);
    size_t room = held < PIPELINE_BYTES_MAX ? PIPELINE_BYTES_MAX - held : 0;

    return room < HEAD_READ_BYTES ? room : HEAD_READ_BYTES;
}

static size_t http1_want(const void *p)
{
    const struct http1 *h = p;
    bool held = buf_len(&h->in) > 0;

    if (h->ex && h->ex->base.over) {
        return 0;
    }
    switch (h->mode) {
    case MODE_BODY:
        if (h->h1.state == H1_DONE) {
            return http1_room(h); /* an upgrade not decided yet */
        }
        return held ? 0 : h1_want(&h->h1, h->ex->base.credit);
    case MODE_TUNNEL:
        return held ? 0 : h->ex->base.credit;
    case MODE_DRAIN:
        return DRAIN_READ_BYTES;
    case MODE_CLOSED:
        return 0;
    case MODE_HEAD:
    case MODE_ANSWER:
    default:
        return http1_room(h);
    }
}

static void http1_input(void *p, const char *data, size_t len)
{
    struct http1 *h = p;

    if (buf_len(&h->in) == 0) {
        size_t n = http1_take(h, data, len);
        data += n;
        len -= n;
    }
    if (len > 0 && h->mode != MODE_CLOSED && buf_append(&h->in, data, len) < 0) {
        http1_fail(h, -ENOBUFS);
    }
}

/* Calls on_end of the exchange that is over and decides what follows it. */
static void http1_end(struct http1 *h)
{
    struct http1_exchange *ex = h->ex;
    bool well = ex->base.error == 0;

    h->ex = NULL;
    h->conn->ops->ended(h->conn);
    http_exchange_end(&ex->base);
    exchange_free(ex);
    if (h->mode == MODE_CLOSED) {
        return;
    }
    if (!well || !h->keep_alive) {
        http1_close(h, well ? HTTP_CLOSE_FLUSH : HTTP_CLOSE_RESET);
    } else if (h->h1.state == H1_BODY) {
        h->mode = MODE_DRAIN;
        h->drained_bytes = 0;
        http_conn_phase(h->conn, HTTP_PHASE_IDLE);
    } else {
        http1_next(h);
    }
}

static void http1_resume(void *p)
{
    struct http1 *h = p;

    if (h->ex && h->ex->base.over) {
        http1_end(h);
    }
    bool held = buf_len(&h->in) > 0;
    buf_consume(&h->in, http1_take(h, held ? buf_at(&h->in) : "", buf_len(&h->in)));
    if (buf_len(&h->in) == 0) {
        buf_fini(&h->in); /* an idle connection keeps no buffer */
    }
    http1_check_eof(h);
}

static void http1_eof(void *p)
{
    struct http1 *h = p;

    h->eof = true;
    http1_check_eof(h);
}

static void http1_written(void *p)
{
    struct http1 *h = p;

    if (h->ex) {
        http_exchange_unblock(&h->ex->base);
    }
}

static void http1_sweep(void *p, int64_t now_ms, uint32_t stall_ms)
{
    struct http1 *h = p;

    if (!h->ex || h->ex->base.over) {
        return;
    }
    bool owed = h->mode == MODE_BODY && h->h1.state == H1_BODY && http1_want(h) > 0;
    if (http_exchange_stalled(&h->ex->base, owed, now_ms, stall_ms)) {
        http1_fail(h, -ETIMEDOUT);
    }
}

static void http1_expire(void *p)
{
    struct http1 *h = p;

    if (h->ex) {
        http1_fail(h, -ECONNRESET); /* half-closed for too long: taken for gone */
    } else if (h->h1.head_bytes > 0) {
        http1_refuse(h, (struct h1_fault){408, "the request did not arrive in time"});
    } else {
        http1_close(h, HTTP_CLOSE_FLUSH);
    }
}

static void http1_stop(void *p)
{
    struct http1 *h = p;

    if (h->mode == MODE_HEAD && h->h1.head_bytes == 0 && buf_len(&h->in) == 0) {
        http1_close(h, HTTP_CLOSE_FLUSH);
    }
}

static void http1_gone(void *p, int error)
{
    struct http1 *h = p;

    if (h->ex) {
        http_exchange_fail(&h->ex->base, error);
        h->mode = MODE_CLOSED;
        http1_end(h);
    }
    h1_fini(&h->h1);
    buf_fini(&h->in);
    free(h);
}

const struct http_protocol http1_protocol = {
    .open = http1_open,
    .want = http1_want,
    .input = http1_input,
    .eof = http1_eof,
    .resume = http1_resume,
    .written = http1_written,
    .sweep = http1_sweep,
    .expire = http1_expire,
    .stop = http1_stop,
    .gone = http1_gone,
};
