#include "http/upstream.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>

#include "base/alloc.h"
#include "http/h1.h"
#include "http/internal.h"
#include "http/wire.h"

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

struct upstream {
    struct wire wire;
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
    bool over; /* on_end(error) is to come */
    int error;
    bool reusable;
    bool dead;   /* the service closed it, or sent what nobody asked for */
    bool closed; /* upstream_close() was called: no callback any more */
    void (*gone)(void *ctx);
    void *gone_ctx;
};

static struct upstream *up_of(struct wire *wire)
{
    return container_of(wire, struct upstream, wire);
}

/* Marks the exchange over, once; on_end follows from the loop. */
static void up_end(struct upstream *up, int error)
{
    if (!up->over && up->mode != MODE_IDLE) {
        up->over = true;
        up->error = error;
        wire_wake(&up->wire);
    }
}

/* ---- the request ---- */

static int put_head(struct upstream *up, struct buf *out, struct str method, struct str target)
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

/* A method that never carries a body needs no word about its length. */
static int put_length(struct upstream *up, struct buf *out, struct str method)
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

void upstream_send(struct upstream *up, struct str method, struct str target,
                   const struct http_header *headers, size_t n, int64_t content_length, bool tunnel,
                   const struct upstream_handler *handler, void *ctx)
{
    scoped_buf out;

    assert(up->mode == MODE_IDLE && handler->on_end);
    up->mode = MODE_HEAD;
    up->handler = handler;
    up->ctx = ctx;
    up->gone = NULL;
    up->credit = 0;
    up->interim = 0;
    up->no_body = str_eq(method, STR("HEAD"));
    up->tunnel_asked = tunnel;
    up->chunked = content_length < 0 && !tunnel;
    up->out_left = content_length < 0 ? 0 : content_length;
    up->finished = up->peer_ended = up->blocked = up->over = up->reusable = false;
    h1_reset(&up->h1);
    buf_init(&out, REQUEST_HEAD_BYTES_MAX);
    int r = put_head(up, &out, method, target);
    r = r < 0 ? r : head_put_fields(&out, headers, n);
    r = r < 0 ? r : put_length(up, &out, method);
    if (r < 0 || up->dead) {
        up_end(up, r < 0 ? r : -ECONNRESET);
        return;
    }
    wire_write(&up->wire, buf_at(&out), buf_len(&out));
}

void upstream_write(struct upstream *up, const void *data, size_t len)
{
    if (up->over || up->mode == MODE_IDLE || len == 0) {
        return;
    }
    assert(!up->finished);
    if (up->chunked) {
        char line[CHUNK_LINE_BYTES];
        wire_write(&up->wire, line, (size_t)snprintf(line, sizeof(line), "%zx\r\n", len));
        wire_write(&up->wire, data, len);
        wire_write(&up->wire, "\r\n", 2);
    } else if (up->mode == MODE_TUNNEL) {
        wire_write(&up->wire, data, len);
    } else if ((uint64_t)up->out_left >= len) {
        up->out_left -= (int64_t)len;
        wire_write(&up->wire, data, len);
    } else {
        up_end(up, -EPROTO); /* more than was announced: the service would misread it */
    }
    if (upstream_writable(up) == 0) {
        up->blocked = true;
    }
}

size_t upstream_writable(const struct upstream *up)
{
    size_t pending =
        up->over || up->mode == MODE_IDLE ? HTTP_WINDOW_BYTES : wire_pending(&up->wire);

    return pending < HTTP_WINDOW_BYTES ? HTTP_WINDOW_BYTES - pending : 0;
}

void upstream_finish(struct upstream *up)
{
    if (up->over || up->mode == MODE_IDLE || up->finished) {
        return;
    }
    up->finished = true;
    if (up->mode == MODE_TUNNEL) {
        wire_shutdown(&up->wire);
        if (up->peer_ended) {
            up_end(up, 0);
        }
    } else if (up->chunked) {
        wire_write(&up->wire, "0\r\n\r\n", 5);
    } else if (up->out_left > 0) {
        up_end(up, -EPROTO); /* less than was announced */
    }
}

void upstream_credit(struct upstream *up, size_t bytes)
{
    up->credit = bytes > SIZE_MAX - up->credit ? SIZE_MAX : up->credit + bytes;
    wire_wake(&up->wire);
}

/* ---- the response ---- */

static void up_body_end(struct upstream *up)
{
    if (up->handler->on_body_end) {
        up->handler->on_body_end(up->ctx);
    }
}

/* What a HEAD says of a body it does not have still goes on. */
static int64_t announced_length(const struct upstream *up)
{
    if (!up->no_body) {
        return h1_content_length(&up->h1);
    }
    return up->h1.parser.flags & F_CONTENT_LENGTH ? (int64_t)up->h1.parser.content_length : -1;
}

static void up_response(struct upstream *up)
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

static size_t take_head(struct upstream *up, const char *data, size_t len)
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

static void up_body(struct upstream *up, const char *data, size_t len)
{
    up->credit -= len;
    if (len > 0 && up->handler->on_body) {
        up->handler->on_body(up->ctx, data, len);
    }
}

static size_t take_body(struct upstream *up, const char *data, size_t len)
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

static size_t take_tunnel(struct upstream *up, const char *data, size_t len)
{
    size_t n = len < up->credit ? len : up->credit;

    up_body(up, data, n);
    return n;
}

static size_t take_step(struct upstream *up, const char *data, size_t len)
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
static size_t up_take(struct upstream *up, const char *data, size_t len)
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
static void up_eof(struct upstream *up)
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
        wire_wake(&up->wire); /* to tell whoever keeps it */
        break;
    }
}

static size_t up_want(const struct upstream *up)
{
    bool held = buf_len(&up->in) > 0;

    switch (up->mode) {
    case MODE_BODY:
        return held || up->over ? 0 : h1_want(&up->h1, up->credit);
    case MODE_TUNNEL:
        return held || up->over ? 0 : up->credit;
    case MODE_HEAD:
        return up->over ? 0 : HEAD_READ_BYTES;
    case MODE_IDLE:
    default:
        return up->dead ? 0 : 1; /* one byte is enough to know that it is not idle */
    }
}

/* ---- events of the wire ---- */

static void on_data(struct wire *wire, const char *data, size_t len)
{
    struct upstream *up = up_of(wire);

    if (up->mode == MODE_IDLE) {
        up->dead = true;
        wire_wake(wire);
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
    wire_read(wire, up_want(up));
}

static void on_end(struct wire *wire, int error)
{
    struct upstream *up = up_of(wire);

    if (error < 0 && !wire->eof && up->mode != MODE_IDLE) {
        up->dead = true; /* it no longer reads, but an answer may be waiting: its end will come */
        return;
    }
    if (error < 0) {
        up->dead = true;
        up_end(up, -ECONNRESET);
        wire_wake(wire);
    } else if (buf_len(&up->in) == 0 && !up->over) {
        up_eof(up);
    }
}

/* Calls on_end; what it does with the connection is its own affair. */
static void up_finish(struct upstream *up)
{
    bool quiet = buf_len(&up->in) == 0 && wire_pending(&up->wire) == 0;

    up->reusable = up->error == 0 && up->mode == MODE_BODY && up->finished && quiet && !up->dead &&
                   !up->wire.eof && up->h1.keep_alive;
    up->dead = up->dead || !up->reusable;
    up->over = false;
    up->mode = MODE_IDLE;
    up->handler->on_end(up->ctx, up->error);
}

static void up_tell_gone(struct upstream *up)
{
    void (*gone)(void *ctx) = up->gone;

    if (up->mode == MODE_IDLE && up->dead && gone && !up->closed) {
        up->gone = NULL;
        gone(up->gone_ctx);
    }
}

static void on_run(struct wire *wire)
{
    struct upstream *up = up_of(wire);
    bool held = buf_len(&up->in) > 0;

    if (!up->over) {
        buf_consume(&up->in, up_take(up, held ? buf_at(&up->in) : "", buf_len(&up->in)));
        held = buf_len(&up->in) > 0;
        if (wire->eof && !held && !up->over && !up->closed && up->mode != MODE_IDLE) {
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
    wire_read(wire, up_want(up));
}

static void on_written(struct wire *wire)
{
    struct upstream *up = up_of(wire);

    if (up->blocked && !up->over && !up->closed && up->mode != MODE_IDLE &&
        wire_pending(wire) <= HTTP_WINDOW_BYTES / 2) {
        up->blocked = false;
        if (up->handler->on_credit) {
            up->handler->on_credit(up->ctx);
        }
    }
}

static void on_closed(struct wire *wire)
{
    struct upstream *up = up_of(wire);

    h1_fini(&up->h1);
    buf_fini(&up->in);
    free(up);
}

static const struct wire_events events = {
    .data = on_data,
    .end = on_end,
    .run = on_run,
    .written = on_written,
    .closed = on_closed,
};

/* ---- life ---- */

int upstream_new(uv_loop_t *loop, int fd, struct upstream **out, struct err *err)
{
    struct upstream *up = xnew(struct upstream);
    int r = wire_open(&up->wire, &events, loop, fd, err);

    if (r < 0) {
        free(up);
        return r;
    }
    h1_init(&up->h1, true);
    buf_init(&up->in, HEAD_READ_BYTES + HUB_READ_BYTES);
    wire_read(&up->wire, up_want(up));
    *out = up;
    return 0;
}

bool upstream_reusable(const struct upstream *up)
{
    return up->reusable && !up->dead;
}

void upstream_idle(struct upstream *up, void (*gone)(void *ctx), void *ctx)
{
    up->gone = gone;
    up->gone_ctx = ctx;
    wire_wake(&up->wire);
}

void upstream_close(struct upstream *up)
{
    if (!up || up->closed) {
        return;
    }
    up->closed = true;
    wire_close(&up->wire, up->mode != MODE_IDLE);
}
