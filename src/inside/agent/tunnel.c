#include "inside/agent/tunnel.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inside/agent/files.h"
#include "lib/base/alloc.h"
#include "wire/channel.h"

enum {
    PORT_DIGITS_MAX = 5,
    READ_BYTES = 32 * 1024,
};

#define TUNNEL_PATH "/tcp/"

struct tunnel {
    struct agent *agent;
    struct http_exchange *ex; /* NULL: the client is gone */
    uint16_t port;
    bool inet6; /* nothing listens at 127.0.0.1: ::1 is tried */
    bool connected;
    bool closing; /* the socket is, and is the last to go */
    bool reading;
    uv_tcp_t tcp;
    uv_connect_t connect;
    uv_shutdown_t shutdown;
    char chunk[READ_BYTES];
};

struct piece { /* bytes on their way to the service */
    uv_write_t write;
    struct tunnel *tunnel;
    size_t len;
    char data[];
};

static void socket_connect(struct tunnel *tunnel);

/* ---- the end ---- */

static void on_closed(uv_handle_t *handle)
{
    struct tunnel *tunnel = handle->data;

    tunnel->agent->tunnels_n--;
    free(tunnel);
}

static void socket_close(struct tunnel *tunnel)
{
    if (!tunnel->closing) {
        tunnel->closing = true;
        uv_close((uv_handle_t *)&tunnel->tcp, on_closed);
    }
}

/* The client must not take a connection that was cut for one that has ended. */
static void tunnel_break(struct tunnel *tunnel, int error)
{
    if (tunnel->ex) {
        http_abort(tunnel->ex, error);
    }
}

static void on_end(void *ctx, int error)
{
    struct tunnel *tunnel = ctx;

    (void)error;
    tunnel->ex = NULL;
    socket_close(tunnel);
}

/* ---- from the service to the client ---- */

static void on_alloc(uv_handle_t *handle, size_t wanted, uv_buf_t *out)
{
    struct tunnel *tunnel = handle->data;
    size_t room = tunnel->ex ? http_writable(tunnel->ex) : 0;

    (void)wanted;
    *out = uv_buf_init(tunnel->chunk, (unsigned)(room < READ_BYTES ? room : READ_BYTES));
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct tunnel *tunnel = stream->data;

    if (n == 0 || n == UV_ENOBUFS || !tunnel->ex) {
        return;
    }
    if (n > 0) {
        http_write(tunnel->ex, buf->base, (size_t)n);
    }
    if (n == UV_EOF) {
        http_finish(tunnel->ex);
    } else if (n < 0) {
        tunnel_break(tunnel, (int)n);
    }
    if (n < 0 || http_writable(tunnel->ex) == 0) {
        tunnel->reading = n < 0; /* at its end: never again */
        (void)uv_read_stop(stream);
    }
}

static void read_on(struct tunnel *tunnel)
{
    if (tunnel->connected && !tunnel->reading && !tunnel->closing &&
        http_writable(tunnel->ex) > 0) {
        tunnel->reading = true;
        (void)uv_read_start((uv_stream_t *)&tunnel->tcp, on_alloc, on_read);
    }
}

static void on_credit(void *ctx)
{
    read_on(ctx);
}

/* ---- from the client to the service ---- */

static void on_written(uv_write_t *write, int status)
{
    struct piece *piece = container_of(write, struct piece, write);
    struct tunnel *tunnel = piece->tunnel;

    if (status < 0 && !tunnel->closing) {
        tunnel_break(tunnel, status);
    } else if (tunnel->ex) {
        http_credit(tunnel->ex, piece->len);
    }
    free(piece);
}

/* At most HTTP_WINDOW_BYTES are under way: credit comes back when they are written. */
static void on_body(void *ctx, const void *data, size_t len)
{
    struct tunnel *tunnel = ctx;
    struct piece *piece = xcalloc(1, sizeof(*piece) + len);
    uv_buf_t buf = uv_buf_init(piece->data, (unsigned)len);

    piece->tunnel = tunnel;
    piece->len = len;
    memcpy(piece->data, data, len);
    if (tunnel->closing ||
        uv_write(&piece->write, (uv_stream_t *)&tunnel->tcp, &buf, 1, on_written) < 0) {
        free(piece);
        tunnel_break(tunnel, -ECONNRESET);
    }
}

static void on_shut(uv_shutdown_t *shutdown, int status)
{
    (void)shutdown, (void)status;
}

static void on_body_end(void *ctx)
{
    struct tunnel *tunnel = ctx;

    if (tunnel->connected && !tunnel->closing) {
        (void)uv_shutdown(&tunnel->shutdown, (uv_stream_t *)&tunnel->tcp, on_shut);
    }
}

/* ---- the beginning ---- */

static void tunnel_open(struct tunnel *tunnel)
{
    struct http_header upgrade = {STR("upgrade"), STR("tcp")};

    tunnel->connected = true;
    (void)uv_tcp_nodelay(&tunnel->tcp, 1);
    http_respond(tunnel->ex, 101, &upgrade, 1, -1);
    http_credit(tunnel->ex, HTTP_WINDOW_BYTES);
    read_on(tunnel);
}

static void on_retry(uv_handle_t *handle)
{
    struct tunnel *tunnel = handle->data;

    tunnel->closing = false;
    tunnel->inet6 = true;
    socket_connect(tunnel);
}

static void on_connected(uv_connect_t *connect, int status)
{
    struct tunnel *tunnel = connect->data;
    char text[64];

    if (tunnel->closing || !tunnel->ex) {
        return;
    }
    if (status == 0) {
        tunnel_open(tunnel);
    } else if (!tunnel->inet6) {
        tunnel->closing = true;
        uv_close((uv_handle_t *)&tunnel->tcp, on_retry);
    } else {
        (void)snprintf(text, sizeof(text), "nothing listens on port %u", tunnel->port);
        files_fail(tunnel->ex, 502, text);
    }
}

static void socket_connect(struct tunnel *tunnel)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET,
                             .sin_port = htons(tunnel->port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6,
                              .sin6_port = htons(tunnel->port),
                              .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    const struct sockaddr *to = tunnel->inet6 ? (const void *)&v6 : (const void *)&v4;

    if (uv_tcp_init(tunnel->agent->loop, &tunnel->tcp) < 0) {
        abort();
    }
    tunnel->tcp.data = tunnel->connect.data = tunnel;
    if (!tunnel->ex) {
        socket_close(tunnel); /* the client left between the two tries */
        return;
    }
    int r = uv_tcp_connect(&tunnel->connect, &tunnel->tcp, to, on_connected);
    if (r < 0) {
        files_fail(tunnel->ex, 502, "the sandbox has no room for another connection");
    }
}

static bool port_read(struct str path, uint16_t *out)
{
    struct str digits = str_skip(path, strlen(TUNNEL_PATH));
    uint32_t port = 0;

    for (size_t i = 0; i < digits.len; i++) {
        if (digits.len > PORT_DIGITS_MAX || digits.at[i] < '0' || digits.at[i] > '9') {
            return false;
        }
        port = port * 10 + (uint32_t)(digits.at[i] - '0');
    }
    *out = (uint16_t)port;
    return port > 0 && port <= UINT16_MAX && port != AGENT_PORT;
}

static void tunnel_start(struct agent *agent, struct http_exchange *ex, uint16_t port)
{
    static const struct http_handler handler = {.tunnels = true,
                                                .on_body = on_body,
                                                .on_body_end = on_body_end,
                                                .on_credit = on_credit,
                                                .on_end = on_end};
    struct tunnel *tunnel = xnew(struct tunnel);

    tunnel->agent = agent;
    tunnel->ex = ex;
    tunnel->port = port;
    agent->tunnels_n++;
    http_accept(ex, &handler, tunnel);
    socket_connect(tunnel);
}

bool tunnel_handle(struct agent *agent, struct http_exchange *ex)
{
    const struct http_request *req = http_request(ex);
    uint16_t port;

    if (!str_starts(req->path, STR(TUNNEL_PATH))) {
        return false;
    }
    if (!str_eq(req->method, STR("GET")) || !req->upgrade ||
        !str_ieq(http_header_get(req, "upgrade"), STR("tcp"))) {
        files_refuse(ex, 426,
                     "this path takes GET with the headers Connection: upgrade and "
                     "Upgrade: tcp");
    } else if (!port_read(req->path, &port)) {
        files_refuse(ex, 400,
                     "the path is /tcp/PORT, with a port from 1 to 65535 that is not the "
                     "agent's");
    } else if (agent->tunnels_n >= TUNNELS_MAX) {
        files_refuse(ex, 429, "too many connections to ports are open");
    } else {
        tunnel_start(agent, ex, port);
    }
    return true;
}
