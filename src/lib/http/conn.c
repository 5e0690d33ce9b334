#include "lib/http/conn.h"

#include <assert.h>
#include <errno.h>
#include <utlist.h>

#include "lib/base/alloc.h"

enum {
    SNIFF_READ_BYTES = 16 * 1024,
    CIPHER_READ_BYTES = 64 * 1024,
    DISCARD_READ_BYTES = 64 * 1024,
    PLAIN_BYTES_MAX = 64 * 1024 * 1024,
    FIRST_BYTES_MAX = 64 * 1024,
    RECORD_BYTES = 16 * 1024, /* from here on there is no use in gathering more */
};

/* No HTTP/1.1 method begins so: three bytes of HTTP/2's preface tell the two apart. */
static const char preface[] = "PRI";

static struct conn *conn_of_sock(struct sock *sock)
{
    return container_of(sock, struct conn, sock);
}

static struct conn *conn_of(struct http_conn *base)
{
    return container_of(base, struct conn, base);
}

static int64_t conn_now(const struct conn *conn)
{
    return (int64_t)uv_now(conn->base.loop);
}

/* ---- what the protocol asks for ---- */

static void conn_encrypt(struct conn *conn)
{
    size_t len = buf_len(&conn->plain);

    if (len == 0) {
        return;
    }
    if (conn->tls->ops->write(conn->session, buf_at(&conn->plain), len) < 0) {
        conn->close_asked = true;
        conn->close_how = HTTP_CLOSE_RESET;
    }
    buf_fini(&conn->plain);
}

static void conn_write_parts(struct http_conn *base, const struct str *parts, size_t n)
{
    struct conn *conn = conn_of(base);

    if (!conn->tls) {
        sock_write_parts(&conn->sock, parts, n);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        if (buf_append(&conn->plain, parts[i].at, parts[i].len) < 0) {
            conn->close_asked = true;
            conn->close_how = HTTP_CLOSE_RESET;
        }
    }
    if (buf_len(&conn->plain) >= RECORD_BYTES) {
        conn_encrypt(conn);
    }
    sock_wake(&conn->sock);
}

static void conn_write(struct http_conn *base, const void *data, size_t len)
{
    conn_write_parts(base, &(struct str){data, len}, 1);
}

static size_t conn_pending(const struct http_conn *base)
{
    const struct conn *conn = (const struct conn *)base; /* its first member */

    return sock_pending(&conn->sock) + buf_len(&conn->plain);
}

static bool conn_takes_pipe(const struct http_conn *base)
{
    return !((const struct conn *)base)->tls; /* its first member */
}

static size_t conn_splice(struct http_conn *base, int pipe, size_t len)
{
    return sock_splice(&conn_of(base)->sock, pipe, len);
}

static void conn_wake(struct http_conn *base)
{
    sock_wake(&conn_of(base)->sock);
}

static void conn_shut(struct conn *conn)
{
    if (conn->tls) {
        conn_encrypt(conn);
        conn->tls->ops->shutdown(conn->session);
    }
    sock_shutdown(&conn->sock);
}

static void conn_shutdown(struct http_conn *base)
{
    conn_shut(conn_of(base));
}

/* A later request for a gentler close does not undo a reset. */
static void conn_close(struct http_conn *base, enum http_close how)
{
    struct conn *conn = conn_of(base);

    if (!conn->close_asked || how == HTTP_CLOSE_RESET) {
        conn->close_how = how;
    }
    conn->close_asked = true;
    sock_wake(&conn->sock);
}

static struct conn **use_list(struct conn_owner *owner, enum conn_use use)
{
    return use == CONN_FRESH ? &owner->fresh : &owner->idle;
}

static void conn_use(struct conn *conn, enum conn_use use)
{
    struct conn_owner *owner = conn->owner;

    if (conn->use != CONN_BUSY) {
        DL_DELETE2(*use_list(owner, conn->use), conn, use_prev, use_next);
    }
    owner->fresh_n -= conn->use == CONN_FRESH;
    owner->fresh_n += use == CONN_FRESH;
    conn->use = use;
    if (use != CONN_BUSY) {
        DL_APPEND2(*use_list(owner, use), conn, use_prev, use_next);
    }
}

static void conn_request(struct http_conn *base, struct http_exchange *ex)
{
    struct conn *conn = conn_of(base);
    struct conn_owner *owner = conn->owner;

    conn->exchanges_n++;
    conn_use(conn, CONN_BUSY);
    owner->requests++;
    owner->exchanges++;
    owner->options.on_request(owner->options.ctx, ex);
}

static void conn_ended(struct http_conn *base)
{
    struct conn *conn = conn_of(base);

    conn->owner->exchanges--;
    if (--conn->exchanges_n == 0 && !conn->adopted && conn->state != CONN_DROPPED) {
        conn_use(conn, CONN_IDLE);
    }
}

static const struct http_conn_ops conn_ops = {
    .write = conn_write,
    .write_parts = conn_write_parts,
    .pending = conn_pending,
    .takes_pipe = conn_takes_pipe,
    .splice = conn_splice,
    .wake = conn_wake,
    .shutdown = conn_shutdown,
    .close = conn_close,
    .request = conn_request,
    .ended = conn_ended,
};

/* ---- bytes in ---- */

static size_t conn_want(const struct conn *conn)
{
    if (conn->state == CONN_LINGERING) {
        return DISCARD_READ_BYTES;
    }
    if (conn->state != CONN_OPEN || buf_len(&conn->first) > 0) {
        return 0; /* what was read before comes first */
    }
    return conn->protocol ? conn->protocol->want(conn->state_of_protocol) : SNIFF_READ_BYTES;
}

static uint32_t phase_limit_ms(const struct conn *conn)
{
    const struct http_server_options *options = &conn->owner->options;

    switch (conn->base.phase) {
    case HTTP_PHASE_HEAD:
        return options->header_timeout_ms;
    case HTTP_PHASE_IDLE:
        return options->idle_timeout_ms;
    case HTTP_PHASE_HALF_CLOSED:
        return HTTP_HALF_CLOSED_MS;
    case HTTP_PHASE_CLOSING:
        return HTTP_LINGER_MS;
    case HTTP_PHASE_UNUSED:
    case HTTP_PHASE_BUSY:
    default:
        return 0;
    }
}

bool conn_is_timed(const struct conn *conn)
{
    return phase_limit_ms(conn) > 0 || conn->owner->options.stall_timeout_ms > 0;
}

static void conn_time(struct conn *conn)
{
    if (conn_is_timed(conn)) {
        conn->owner->timed(conn->owner);
    }
}

/* Encrypted bytes are read by the record: how many of them make a plain one is not known. */
static void conn_settle(struct conn *conn)
{
    size_t want = conn_want(conn);

    if (conn->state != CONN_DROPPED) {
        conn_time(conn);
        sock_read(&conn->sock, want && conn->tls ? (size_t)CIPHER_READ_BYTES : want);
    }
}

static void conn_speak(struct conn *conn, const struct http_protocol *protocol)
{
    conn->protocol = protocol;
    conn->state_of_protocol = protocol->open(&conn->base);
    if (conn->base.stopping) {
        protocol->stop(conn->state_of_protocol);
    }
}

/* Chooses the protocol by ALPN or by the first bytes; false while these are too few. */
static bool conn_choose(struct conn *conn, const char *data, size_t len)
{
    const struct http_protocol *http2 = conn->owner->options.http2;

    if (conn->tls) {
        bool chosen = http2 && conn->tls->ops->is_http2(conn->session);
        conn_speak(conn, chosen ? http2 : &http1_protocol);
        return true;
    }
    size_t matched = conn->preface_bytes;
    for (size_t i = 0; http2 && i < len && matched < sizeof(preface) - 1; i++, matched++) {
        if (data[i] != preface[matched]) {
            http2 = NULL;
        }
    }
    if (http2 && matched < sizeof(preface) - 1) {
        conn->preface_bytes = (unsigned char)matched;
        return false;
    }
    conn_speak(conn, http2 ? http2 : &http1_protocol);
    if (conn->preface_bytes > 0) {
        conn->protocol->input(conn->state_of_protocol, preface, conn->preface_bytes);
    }
    return true;
}

static void conn_plain(struct conn *conn, const char *data, size_t len)
{
    if (conn->state != CONN_OPEN) {
        conn->lingered_bytes += len;
        if (conn->lingered_bytes > HTTP_LINGER_BYTES) {
            conn_drop(conn, -ECONNRESET);
        }
        return;
    }
    if (conn->protocol || conn_choose(conn, data, len)) {
        conn->protocol->input(conn->state_of_protocol, data, len);
    }
}

static void conn_eof(struct conn *conn)
{
    if (conn->state == CONN_LINGERING || (conn->state == CONN_OPEN && !conn->protocol)) {
        conn_drop(conn, -ECONNRESET);
    } else if (conn->state == CONN_OPEN) {
        conn->protocol->eof(conn->state_of_protocol);
    }
}

/* Decrypts as long as somebody wants what comes out. */
static void conn_pump(struct conn *conn)
{
    char *plain = loop_context_plain(conn->sock.context);

    for (size_t want; (want = conn_want(conn)) > 0;) {
        size_t size = want < LOOP_PLAIN_BYTES ? want : LOOP_PLAIN_BYTES;
        long n = conn->tls->ops->read(conn->session, plain, size);
        if (n > 0) {
            conn_plain(conn, plain, (size_t)n);
        } else if (n == -EAGAIN) {
            break;
        } else if (n == 0) {
            conn_eof(conn);
            break;
        } else if (conn->protocol) {
            conn_drop(conn, -ECONNRESET);
        } else {
            conn_close(&conn->base, HTTP_CLOSE_FLUSH); /* the alert that says why goes out first */
            break;
        }
    }
}

static void on_data(struct sock *sock, const char *data, size_t len)
{
    struct conn *conn = conn_of_sock(sock);

    if (conn->base.phase == HTTP_PHASE_CLOSING) {
        conn->base.since_ms = conn_now(conn);
    }
    if (conn->tls) {
        conn->tls->ops->feed(conn->session, data, len);
        conn_pump(conn);
        if (conn->state != CONN_DROPPED && conn->tls->ops->hold(conn->session) < 0) {
            conn_drop(conn, -ECONNRESET);
        }
    } else {
        conn_plain(conn, data, len);
    }
    conn_settle(conn);
}

static void on_end(struct sock *sock, int error)
{
    struct conn *conn = conn_of_sock(sock);

    if (error < 0) {
        conn_drop(conn, -ECONNRESET);
    } else {
        conn_eof(conn);
        conn_settle(conn);
    }
}

/* ---- the end ---- */

/* Between requests nothing has been sent that a close could take back. */
static void conn_flush(struct conn *conn)
{
    enum http_phase phase = conn->base.phase;
    bool idle = phase == HTTP_PHASE_UNUSED || phase == HTTP_PHASE_HEAD || phase == HTTP_PHASE_IDLE;

    if (idle && conn_pending(&conn->base) == 0) {
        conn->state = CONN_LINGERING;
        conn_drop(conn, -ECONNRESET);
        return;
    }
    conn->state = CONN_FLUSHING;
    http_conn_phase(&conn->base, HTTP_PHASE_CLOSING);
}

static void conn_take_first(struct conn *conn)
{
    scoped(buf_fini) struct buf first = conn->first;

    conn->first = (struct buf){0};
    if (buf_len(&first) > 0) {
        on_data(&conn->sock, buf_at(&first), buf_len(&first));
    }
}

static void on_run(struct sock *sock)
{
    struct conn *conn = conn_of_sock(sock);

    conn_take_first(conn);
    if (conn->protocol) {
        conn->protocol->resume(conn->state_of_protocol);
    }
    if (conn->tls && conn->state != CONN_DROPPED) {
        conn_encrypt(conn);
        conn_pump(conn);
        conn_encrypt(conn);
    }
    if (conn->close_asked && conn->state != CONN_DROPPED) {
        if (conn->close_how == HTTP_CLOSE_RESET) {
            conn_drop(conn, -ECONNRESET);
        } else if (conn->state == CONN_OPEN) {
            conn_flush(conn);
        }
    }
    conn_settle(conn);
}

static void on_written(struct sock *sock)
{
    struct conn *conn = conn_of_sock(sock);
    enum http_phase phase = conn->base.phase;

    if (phase == HTTP_PHASE_HALF_CLOSED || phase == HTTP_PHASE_CLOSING) {
        conn->base.since_ms = conn_now(conn);
    }
    if (conn->protocol) {
        conn->protocol->written(conn->state_of_protocol);
        conn_time(conn);
    }
    if (conn->state == CONN_FLUSHING && conn_pending(&conn->base) == 0) {
        conn->state = CONN_LINGERING;
        conn_shut(conn);
        if (conn->sock.eof || conn->evicted) {
            conn_drop(conn, -ECONNRESET);
        }
        conn_settle(conn);
    }
}

void conn_drop(struct conn *conn, int error)
{
    bool orderly = conn->state == CONN_LINGERING;
    const struct http_protocol *protocol = conn->protocol;

    if (conn->state == CONN_DROPPED) {
        return;
    }
    conn->state = CONN_DROPPED;
    conn->protocol = NULL;
    conn_use(conn, CONN_BUSY);
    if (protocol) {
        protocol->gone(conn->state_of_protocol, error);
    }
    sock_close(&conn->sock, !orderly);
}

static void on_closed(struct sock *sock)
{
    struct conn *conn = conn_of_sock(sock);
    struct conn_owner *owner = conn->owner;
    bool evicted = conn->evicted;

    DL_DELETE(owner->conns, conn);
    if (conn->session) {
        conn->tls->ops->free(conn->session);
    }
    buf_fini(&conn->first);
    buf_fini(&conn->plain);
    if (conn->base.tag && owner->options.closed) {
        owner->options.closed(owner->options.ctx, conn->base.tag);
    }
    free(conn);
    owner->closed(owner, evicted);
}

const struct sock_events conn_events = {
    .data = on_data,
    .end = on_end,
    .run = on_run,
    .written = on_written,
    .closed = on_closed,
};

/* ---- the server's side ---- */

struct conn *conn_new(struct conn_owner *owner, struct tls_context *tls, void *tag)
{
    struct conn *conn = xnew(struct conn);

    conn->base.ops = &conn_ops;
    conn->base.loop = owner->options.loop;
    conn->base.tag = tag;
    conn->base.secure = tls != NULL;
    conn->base.phase = HTTP_PHASE_HEAD;
    conn->base.since_ms = conn->opened_ms = conn_now(conn);
    conn->owner = owner;
    conn->tls = tls;
    buf_init(&conn->plain, PLAIN_BYTES_MAX);
    buf_init(&conn->first, FIRST_BYTES_MAX);
    return conn;
}

static void conn_name_peer(struct conn *conn)
{
    struct sockaddr_storage addr;
    socklen_t len = sizeof(addr);

    if (conn->sock.is_tcp && getpeername(conn->sock.fd, (struct sockaddr *)&addr, &len) == 0) {
        (void)uv_ip_name((struct sockaddr *)&addr, conn->base.peer, sizeof(conn->base.peer));
    }
}

static void conn_cipher(void *ctx, const void *data, size_t len)
{
    struct conn *conn = ctx;

    sock_write(&conn->sock, data, len);
}

void conn_start(struct conn *conn)
{
    DL_APPEND(conn->owner->conns, conn);
    if (!conn->adopted) {
        conn_use(conn, CONN_FRESH);
    }
    conn_name_peer(conn);
    if (conn->tls) {
        conn->session = conn->tls->ops->open(conn->tls, conn_cipher, conn);
    }
    conn_settle(conn);
}

void conn_start_with(struct conn *conn, struct str first)
{
    if (buf_append(&conn->first, first.at, first.len) < 0) {
        conn_close(&conn->base, HTTP_CLOSE_RESET);
    }
    conn_start(conn);
    conn_wake(&conn->base);
}

void conn_refuse(struct conn *conn)
{
    static const char answer[] =
        "HTTP/1.1 503 Service Unavailable\r\n"
        "content-type: application/json\r\n"
        "content-length: 60\r\nconnection: close\r\n\r\n"
        "{\"code\":503,\"message\":\"the server has too many connections\"}";

    if (conn->tls) {
        conn_drop(conn, -EBUSY); /* the client gets no TLS handshake: it would be refused anyway */
        return;
    }
    conn_write(&conn->base, answer, sizeof(answer) - 1);
    conn_close(&conn->base, HTTP_CLOSE_FLUSH);
}

bool conn_can_go(const struct conn *conn, int64_t now_ms)
{
    int64_t since_ms = conn->use == CONN_FRESH ? conn->opened_ms : conn->base.since_ms;
    bool coming = conn->use == CONN_FRESH || conn->base.phase == HTTP_PHASE_HEAD;
    int64_t patience_ms = conn_pending(&conn->base) > 0 ? HTTP_LINGER_MS
                          : coming                      ? CONN_PATIENCE_MS
                                                        : 0;

    return conn->use != CONN_BUSY && conn->base.phase != HTTP_PHASE_BUSY &&
           now_ms - since_ms >= patience_ms;
}

/* A connection between requests is told, where the protocol can; the others have had their time. */
void conn_evict(struct conn *conn)
{
    bool idle = conn->base.phase == HTTP_PHASE_IDLE && conn_pending(&conn->base) == 0;

    conn->evicted = true;
    conn_use(conn, CONN_BUSY);
    if (conn->protocol && conn->state == CONN_OPEN && idle) {
        conn->protocol->expire(conn->state_of_protocol);
    } else {
        conn_drop(conn, -EBUSY);
    }
}

void conn_stop(struct conn *conn)
{
    conn->base.stopping = true;
    if (conn->protocol) {
        conn->protocol->stop(conn->state_of_protocol);
    } else if (!conn->preface_bytes) {
        conn_close(&conn->base, HTTP_CLOSE_FLUSH);
    }
}

void conn_sweep(struct conn *conn, int64_t now_ms)
{
    uint32_t limit_ms = phase_limit_ms(conn);

    if (conn->state == CONN_DROPPED) {
        return;
    }
    if (conn->protocol && conn->state == CONN_OPEN) {
        conn->protocol->sweep(conn->state_of_protocol, now_ms,
                              conn->owner->options.stall_timeout_ms);
    }
    if (limit_ms == 0 || now_ms - conn->base.since_ms < limit_ms) {
        return;
    }
    if (conn->protocol && conn->state == CONN_OPEN) {
        conn->protocol->expire(conn->state_of_protocol);
    } else {
        conn_drop(conn, -ETIMEDOUT);
    }
}
