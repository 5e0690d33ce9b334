#include "lib/http/client_conn.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "lib/base/alloc.h"
#include "lib/http/sock.h"

enum {
    CIPHER_READ_BYTES = 64 * 1024,
    RECORD_BYTES = 16 * 1024, /* from here on there is no use in gathering more */
    PLAIN_BYTES_MAX = 64 * 1024 * 1024,
};

struct client_conn {
    struct sock sock;
    const struct client_conn_events *events;
    void *ctx;
    const struct tls_ops *tls; /* NULL: plain */
    struct tls_session *session;
    client_conn_handshake *handshake; /* NULL: it is through */
    void (*ready)(void *ctx, int error, const struct err *err);
    struct buf plain;               /* written in this turn, not encrypted yet */
    uint64_t *bytes_in, *bytes_out; /* NULL: nobody counts */
    uint64_t *also_in, *also_out;   /* likewise */
    size_t limit;                   /* of plain bytes that the owner wants */
    bool eof;
    bool failed; /* `end` or `ready` has been called with an error */
    bool closing;
};

static struct client_conn *client_conn_of(struct sock *sock)
{
    return container_of(sock, struct client_conn, sock);
}

/* ---- TLS ---- */

static void client_conn_fail(struct client_conn *conn, int error)
{
    if (!conn->failed && !conn->closing) {
        conn->failed = true;
        conn->limit = 0;
        conn->events->end(conn->ctx, error);
    }
}

static void client_conn_data(struct client_conn *conn, const char *data, size_t len)
{
    if (conn->bytes_in) {
        *conn->bytes_in += len;
    }
    if (conn->also_in) {
        *conn->also_in += len;
    }
    conn->events->data(conn->ctx, data, len);
}

static void client_conn_encrypt(struct client_conn *conn)
{
    size_t len = buf_len(&conn->plain);

    if (len == 0 || conn->handshake) {
        return;
    }
    if (conn->tls->write(conn->session, buf_at(&conn->plain), len) < 0) {
        conn->sock.error = conn->sock.error ? conn->sock.error : -EPROTO;
        sock_wake(&conn->sock);
    }
    buf_fini(&conn->plain);
}

static void client_conn_shake(struct client_conn *conn)
{
    struct err err = {0};
    int r = conn->handshake(conn->session, &err);

    if (r == -EAGAIN && !conn->sock.eof) {
        return;
    }
    if (r == -EAGAIN) {
        r = err_set(&err, ECONNRESET, "the connection was closed before TLS had begun");
    }
    conn->failed = r < 0;
    conn->handshake = r < 0 ? conn->handshake : NULL;
    conn->ready(conn->ctx, r, &err);
}

static void client_conn_ended(struct client_conn *conn)
{
    if (!conn->eof && !conn->closing && !conn->failed) {
        conn->eof = true;
        conn->events->end(conn->ctx, 0);
    }
}

/* Decrypts as long as the owner has room for plain bytes. */
static void client_conn_pump(struct client_conn *conn)
{
    char *plain = loop_context_plain(conn->sock.context);

    if (conn->handshake && !conn->failed && !conn->closing) {
        client_conn_shake(conn);
    }
    while (!conn->handshake && conn->limit > 0 && !conn->eof && !conn->closing && !conn->failed) {
        size_t size = conn->limit < LOOP_PLAIN_BYTES ? conn->limit : LOOP_PLAIN_BYTES;
        long n = conn->tls->read(conn->session, plain, size);
        if (n > 0) {
            client_conn_data(conn, plain, (size_t)n);
        } else if (n == 0 || (n == -EAGAIN && conn->sock.eof)) {
            client_conn_ended(conn);
        } else if (n == -EAGAIN) {
            break;
        } else {
            client_conn_fail(conn, -EPROTO);
        }
    }
}

/* Encrypted bytes are read by the record: the plain length is not known before. */
static void client_conn_settle(struct client_conn *conn)
{
    if (conn->closing) {
        return;
    }
    if (!conn->tls) {
        sock_read(&conn->sock, conn->limit);
    } else {
        bool wants = (conn->handshake || conn->limit > 0) && !conn->failed && !conn->eof;
        sock_read(&conn->sock, wants ? (size_t)CIPHER_READ_BYTES : 0);
    }
}

/* ---- events of the socket ---- */

static void on_data(struct sock *sock, const char *data, size_t len)
{
    struct client_conn *conn = client_conn_of(sock);

    if (conn->tls) {
        conn->tls->feed(conn->session, data, len);
        client_conn_pump(conn);
        if (conn->tls->hold(conn->session) < 0) {
            client_conn_fail(conn, -EPROTO);
        }
        client_conn_encrypt(conn);
    } else {
        client_conn_data(conn, data, len);
    }
    client_conn_settle(conn);
}

static void on_end(struct sock *sock, int error)
{
    struct client_conn *conn = client_conn_of(sock);

    bool shaking = conn->tls && conn->handshake;

    if (error < 0 && shaking && !conn->failed && !conn->closing) {
        struct err err;
        conn->failed = true;
        (void)err_set(&err, ECONNRESET, "the connection was cut before TLS had begun");
        conn->ready(conn->ctx, -ECONNRESET, &err);
    } else if (!conn->tls || (error < 0 && !sock->eof)) {
        conn->events->end(conn->ctx, error); /* of a write: what the peer sent may still come */
    } else if (error < 0) {
        client_conn_fail(conn, error);
    } else {
        client_conn_pump(conn);
    }
    client_conn_settle(conn);
}

static void on_run(struct sock *sock)
{
    struct client_conn *conn = client_conn_of(sock);

    if (!conn->closing) {
        conn->events->run(conn->ctx);
    }
    if (conn->tls && !conn->closing) {
        client_conn_encrypt(conn);
        client_conn_pump(conn);
        client_conn_encrypt(conn);
    }
    client_conn_settle(conn);
}

static void on_written(struct sock *sock)
{
    struct client_conn *conn = client_conn_of(sock);

    if (!conn->closing) {
        conn->events->written(conn->ctx);
        client_conn_settle(conn);
    }
}

static void on_closed(struct sock *sock)
{
    struct client_conn *conn = client_conn_of(sock);

    if (conn->session) {
        conn->tls->free(conn->session);
    }
    buf_fini(&conn->plain);
    conn->events->closed(conn->ctx);
    free(conn);
}

static const struct sock_events events_of_sock = {
    .data = on_data, .end = on_end, .run = on_run, .written = on_written, .closed = on_closed};

/* ---- what the owner does ---- */

int client_conn_open(uv_loop_t *loop, int fd, const struct client_conn_events *events, void *ctx,
                     struct client_conn **out, struct err *err)
{
    struct client_conn *conn = xnew(struct client_conn);
    int r = sock_open(&conn->sock, &events_of_sock, loop, fd, err);

    if (r < 0) {
        free(conn);
        return r;
    }
    buf_init(&conn->plain, PLAIN_BYTES_MAX);
    client_conn_own(conn, events, ctx);
    *out = conn;
    return 0;
}

void client_conn_own(struct client_conn *conn, const struct client_conn_events *events, void *ctx)
{
    conn->events = events;
    conn->ctx = ctx;
}

void client_conn_secure(struct client_conn *conn, const struct tls_ops *ops,
                        struct tls_session *session, client_conn_handshake *handshake,
                        void (*ready)(void *ctx, int error, const struct err *err))
{
    assert(!conn->tls);
    conn->tls = ops;
    conn->session = session;
    conn->handshake = handshake;
    conn->ready = ready;
    sock_wake(&conn->sock);
}

void client_conn_send(void *ctx, const void *data, size_t len)
{
    struct client_conn *conn = ctx;

    sock_write(&conn->sock, data, len);
}

void client_conn_count(struct client_conn *conn, uint64_t *in, uint64_t *out)
{
    conn->bytes_in = in;
    conn->bytes_out = out;
}

void client_conn_count_also(struct client_conn *conn, uint64_t *in, uint64_t *out)
{
    conn->also_in = in;
    conn->also_out = out;
}

bool client_conn_is_http2(const struct client_conn *conn)
{
    return conn->tls && conn->tls->is_http2(conn->session);
}

static void client_conn_written(struct client_conn *conn, size_t len)
{
    if (conn->bytes_out) {
        *conn->bytes_out += len;
    }
    if (conn->also_out) {
        *conn->also_out += len;
    }
}

void client_conn_write(struct client_conn *conn, const void *data, size_t len)
{
    client_conn_write_parts(conn, &(struct str){data, len}, 1);
}

void client_conn_write_parts(struct client_conn *conn, const struct str *parts, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        client_conn_written(conn, parts[i].len);
    }
    if (!conn->tls) {
        sock_write_parts(&conn->sock, parts, n);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        if (buf_append(&conn->plain, parts[i].at, parts[i].len) < 0) {
            conn->sock.error = conn->sock.error ? conn->sock.error : -ENOBUFS;
        }
    }
    if (buf_len(&conn->plain) >= RECORD_BYTES) {
        client_conn_encrypt(conn);
    }
    sock_wake(&conn->sock);
}

size_t client_conn_pending(const struct client_conn *conn)
{
    return sock_pending(&conn->sock) + buf_len(&conn->plain);
}

void client_conn_read(struct client_conn *conn, size_t limit)
{
    bool more = limit > 0 && conn->limit == 0;

    conn->limit = limit;
    if (more && conn->tls) {
        sock_wake(&conn->sock); /* some may be decrypted already */
    }
    client_conn_settle(conn);
}

void client_conn_wake(struct client_conn *conn)
{
    sock_wake(&conn->sock);
}

void client_conn_shutdown(struct client_conn *conn)
{
    if (conn->tls) {
        client_conn_encrypt(conn);
        conn->tls->shutdown(conn->session);
    }
    sock_shutdown(&conn->sock);
}

bool client_conn_eof(const struct client_conn *conn)
{
    return conn->tls ? conn->eof || conn->failed : conn->sock.eof;
}

void client_conn_close(struct client_conn *conn, bool reset)
{
    conn->closing = true;
    sock_close(&conn->sock, reset);
}

/* ---- without an owner ---- */

static void no_data(void *ctx, const char *data, size_t len)
{
    (void)ctx, (void)data, (void)len;
}

static void no_end(void *ctx, int error)
{
    (void)ctx, (void)error;
}

static void no_event(void *ctx)
{
    (void)ctx;
}

const struct client_conn_events client_conn_quiet = {
    .data = no_data, .end = no_end, .run = no_event, .written = no_event, .closed = no_event};

void client_conn_drop(struct client_conn *conn)
{
    if (conn) {
        client_conn_own(conn, &client_conn_quiet, NULL);
        client_conn_close(conn, true);
    }
}
