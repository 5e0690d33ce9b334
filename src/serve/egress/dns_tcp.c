/* dns_tcp.c - the same questions over TCP, for answers too long for a datagram. A connection has
 * one open question at a time; two bytes before each message give its length. */
#include <stdlib.h>
#include <utlist.h>

#include "lib/base/alloc.h"
#include "lib/base/fd.h"
#include "serve/egress/internal.h"

enum {
    LENGTH_BYTES = 2,
    QUESTION_MAX = 1024, /* a name and what programs add to it */
};

struct dns_conn {
    struct dns_conn *prev, *next; /* in net->dns_conns, until it is closed */
    struct egress_net *net;       /* counted */
    uv_tcp_t tcp;
    uv_timer_t timer;
    uint32_t handles;
    bool closed;
    struct buf in;
    struct buf out; /* being written */
    uv_write_t write;
};

static void on_closed(uv_handle_t *handle)
{
    struct dns_conn *conn = handle->data;

    if (--conn->handles == 0) {
        buf_fini(&conn->in);
        buf_fini(&conn->out);
        net_release(conn->net);
        free(conn);
    }
}

static void conn_close(struct dns_conn *conn)
{
    if (conn->closed) {
        return;
    }
    conn->closed = true;
    dns_forget(conn->net, conn);
    DL_DELETE(conn->net->dns_conns, conn);
    conn->net->dns_conns_n--;
    uv_close((uv_handle_t *)&conn->tcp, on_closed);
    uv_close((uv_handle_t *)&conn->timer, on_closed);
}

static void on_timer(uv_timer_t *timer)
{
    conn_close(timer->data);
}

static void conn_read(struct dns_conn *conn);

static void on_written(uv_write_t *req, int status)
{
    struct dns_conn *conn = req->data;

    buf_clear(&conn->out);
    if (conn->closed) {
        return;
    }
    if (status < 0) {
        conn_close(conn);
    } else {
        conn_read(conn);
    }
}

void dns_tcp_answer(struct dns_conn *conn, struct str text)
{
    const uint8_t length[LENGTH_BYTES] = {(uint8_t)(text.len >> 8), (uint8_t)text.len};

    if (buf_append(&conn->out, length, sizeof(length)) < 0 ||
        buf_append(&conn->out, text.at, text.len) < 0) {
        conn_close(conn);
        return;
    }
    uv_buf_t buf = uv_buf_init(buf_at(&conn->out), (unsigned)buf_len(&conn->out));
    if (uv_write(&conn->write, (uv_stream_t *)&conn->tcp, &buf, 1, on_written) < 0) {
        conn_close(conn);
    }
}

/* Takes a whole message, if there is one, and reads no more until it is answered. */
static void conn_take(struct dns_conn *conn)
{
    const struct dns_asker asker = {.conn = conn};
    char question[QUESTION_MAX];
    struct str in = buf_str(&conn->in);

    if (in.len < LENGTH_BYTES) {
        return;
    }
    size_t len = (size_t)(uint8_t)in.at[0] << 8 | (uint8_t)in.at[1];
    if (len > sizeof(question)) {
        conn_close(conn);
        return;
    }
    if (in.len < LENGTH_BYTES + len) {
        return;
    }
    memcpy(question, in.at + LENGTH_BYTES, len);
    buf_consume(&conn->in, LENGTH_BYTES + len);
    (void)uv_read_stop((uv_stream_t *)&conn->tcp);
    if (!dns_ask(conn->net, (struct str){question, len}, &asker)) {
        conn_close(conn);
    }
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *out)
{
    struct dns_conn *conn = handle->data;
    size_t room = conn->in.max - buf_len(&conn->in);
    char *at = NULL;

    (void)suggested;
    *out = room == 0 || buf_reserve(&conn->in, room, &at) < 0 ? uv_buf_init(NULL, 0)
                                                              : uv_buf_init(at, (unsigned)room);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *unused)
{
    struct dns_conn *conn = stream->data;

    (void)unused;
    if (n < 0) {
        conn_close(conn);
    } else if (n > 0) {
        buf_commit(&conn->in, (size_t)n);
        conn_take(conn);
    }
}

/* The bytes read already may hold the next question. */
static void conn_read(struct dns_conn *conn)
{
    (void)uv_timer_start(&conn->timer, on_timer, EGRESS_DNS_IDLE_MS, 0);
    (void)uv_read_start((uv_stream_t *)&conn->tcp, on_alloc, on_read);
    conn_take(conn);
}

void dns_tcp_accept(struct egress_net *net, int fd)
{
    if (net->dns_conns_n == EGRESS_DNS_CONNECTIONS_MAX) {
        fd_closep(&fd);
        return;
    }
    struct dns_conn *conn = xnew(struct dns_conn);
    conn->net = net;
    net_hold(net);
    buf_init(&conn->in, LENGTH_BYTES + QUESTION_MAX);
    buf_init(&conn->out, LENGTH_BYTES + DNS_MESSAGE_BYTES_MAX);
    (void)uv_timer_init(net->egress->loop, &conn->timer);
    (void)uv_tcp_init(net->egress->loop, &conn->tcp);
    conn->handles = 2;
    conn->timer.data = conn->tcp.data = conn->write.data = conn;
    DL_APPEND(net->dns_conns, conn);
    net->dns_conns_n++;
    if (uv_tcp_open(&conn->tcp, fd) < 0) {
        abort(); /* it was accepted a moment ago */
    }
    conn_read(conn);
}

void dns_tcp_stop(struct egress_net *net)
{
    while (net->dns_conns) {
        conn_close(net->dns_conns);
    }
}
