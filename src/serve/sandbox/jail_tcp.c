#include "serve/sandbox/jail_tcp.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "lib/base/alloc.h"
#include "lib/base/busy.h"
#include "lib/base/fd.h"

enum { STRANGERS_MAX = 16 }; /* foreign connections that are closed while a pair is made */

struct jail_tcp {
    uv_poll_t poll; /* of the listener in a pair, else of `ours` */
    uv_timer_t timer;
    bool waits; /* the two above are in use */
    int open;   /* handles; the last one frees */
    int ours;
    int listener; /* -1: no pair */
    jail_tcp_done *done;
    void *ctx;
};

/* ---- addresses ---- */

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    struct sockaddr_storage room;
};

static const struct in6_addr mapped_loopback = {
    .s6_addr = {[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1}};

/* An IPv6 socket reaches IPv4 too, by mapped addresses. An IPv4 socket, of a jail on a machine
 * without IPv6, reaches IPv4 alone. */
static int address_of(int socket, uint16_t port, enum jail_tcp_family family, union address *out,
                      socklen_t *len)
{
    int domain = 0;
    socklen_t domain_len = sizeof(domain);

    *out = (union address){0};
    if (getsockopt(socket, SOL_SOCKET, SO_DOMAIN, &domain, &domain_len) < 0) {
        return -errno;
    }
    if (domain == AF_INET) {
        out->v4 = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port)};
        out->v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        *len = sizeof(out->v4);
        return family == JAIL_TCP_IPV6 ? -EAFNOSUPPORT : 0;
    }
    out->v6 = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons(port)};
    out->v6.sin6_addr = family == JAIL_TCP_IPV6 ? in6addr_loopback : mapped_loopback;
    *len = sizeof(out->v6);
    return 0;
}

static bool is_peer_of(int accepted, int connected)
{
    union address a = {0}, b = {0};
    socklen_t a_len = sizeof(a), b_len = sizeof(b);

    return getpeername(accepted, &a.any, &a_len) == 0 &&
           getsockname(connected, &b.any, &b_len) == 0 && a_len == b_len &&
           memcmp(&a, &b, a_len) == 0;
}

/* ---- the end ---- */

static void on_closed(uv_handle_t *handle)
{
    struct jail_tcp *tcp = handle->data;

    if (--tcp->open == 0) {
        free(tcp);
    }
}

/* Closes the sockets that it still holds. Nobody has used them yet, so close() does not wait. */
static void jail_tcp_free(struct jail_tcp *tcp)
{
    if (tcp->waits) {
        uv_close((uv_handle_t *)&tcp->poll, on_closed);
        uv_close((uv_handle_t *)&tcp->timer, on_closed);
    }
    fd_closep(&tcp->ours);
    fd_closep(&tcp->listener);
    if (!tcp->waits) {
        free(tcp);
    }
}

static void finish(struct jail_tcp *tcp, int error, int theirs)
{
    jail_tcp_done *done = tcp->done;
    void *ctx = tcp->ctx;
    int ours = error < 0 ? error : move_fd(&tcp->ours);

    jail_tcp_free(tcp);
    done(ctx, ours, theirs);
}

void jail_tcp_cancel(struct jail_tcp *tcp)
{
    if (tcp) {
        jail_tcp_free(tcp);
    }
}

/* ---- the steps ---- */

/* 0: it is connected, or was until its peer ended it. -EINPROGRESS: not yet. */
static int connected(int fd)
{
    struct tcp_info info = {0};
    socklen_t info_len = sizeof(info), error_len = sizeof(int);
    int error = 0;

    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &error_len) < 0 ||
        getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &info_len) < 0) {
        return -errno;
    }
    /* A service may reset a connection that it has just accepted: the reader will see that. */
    bool was = info.tcpi_state == TCP_ESTABLISHED || info.tcpi_state == TCP_CLOSE_WAIT ||
               error == ECONNRESET;
    return was ? 0 : error ? -error : -EINPROGRESS;
}

/* The agent's end, or -errno; -EINPROGRESS: it has not arrived. */
static int pair_accept(const struct jail_tcp *tcp)
{
    for (int i = 0; i < STRANGERS_MAX; i++) {
        scoped_fd fd = accept4(tcp->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) {
            return errno == EAGAIN || errno == EINTR || errno == ECONNABORTED ? -EINPROGRESS
                                                                              : -errno;
        }
        if (is_peer_of(fd, tcp->ours)) {
            return move_fd(&fd);
        }
    }
    return -EAGAIN;
}

/* True when it is over, and the connection with it. */
static bool step(struct jail_tcp *tcp)
{
    int r = tcp->listener >= 0 ? pair_accept(tcp) : connected(tcp->ours);

    if (r == -EINPROGRESS) {
        return false;
    }
    finish(tcp, r, tcp->listener >= 0 && r >= 0 ? r : -1);
    return true;
}

static void on_ready(uv_poll_t *poll, int status, int events)
{
    busy("a connection into a jail");
    (void)status, (void)events;
    (void)step(poll->data);
}

static void on_timeout(uv_timer_t *timer)
{
    finish(timer->data, -ETIMEDOUT, -1);
}

/* Loopback is quick: nearly always there is nothing to wait for. */
static struct jail_tcp *go_on(struct jail_tcp *tcp, uv_loop_t *loop)
{
    if (step(tcp)) {
        return NULL;
    }
    bool pair = tcp->listener >= 0;
    if (uv_poll_init(loop, &tcp->poll, pair ? tcp->listener : tcp->ours) < 0 ||
        uv_timer_init(loop, &tcp->timer) < 0) {
        abort(); /* a socket can always be polled */
    }
    tcp->poll.data = tcp->timer.data = tcp;
    tcp->waits = true;
    tcp->open = 2;
    (void)uv_poll_start(&tcp->poll, pair ? UV_READABLE : UV_WRITABLE, on_ready);
    (void)uv_timer_start(&tcp->timer, on_timeout, JAIL_TCP_TIMEOUT_MS, 0);
    return tcp;
}

static struct jail_tcp *jail_tcp_new(int ours, int listener, jail_tcp_done *done, void *ctx)
{
    struct jail_tcp *tcp = xnew(struct jail_tcp);

    *tcp = (struct jail_tcp){.ours = ours, .listener = listener, .done = done, .ctx = ctx};
    return tcp;
}

static int begin(int socket, uint16_t port, enum jail_tcp_family family)
{
    union address address;
    socklen_t len = 0;
    int r = address_of(socket, port, family, &address, &len);

    if (r < 0 || connect(socket, &address.any, len) == 0) {
        return r;
    }
    return errno == EINPROGRESS ? 0 : -errno;
}

struct jail_tcp *jail_tcp_connect(uv_loop_t *loop, int socket, uint16_t port,
                                  enum jail_tcp_family family, jail_tcp_done *done, void *ctx)
{
    struct jail_tcp *tcp = jail_tcp_new(socket, -1, done, ctx);
    int r = begin(socket, port, family);

    if (r < 0) {
        finish(tcp, r, -1);
        return NULL;
    }
    return go_on(tcp, loop);
}

/* Its port, or -errno. */
static int listen_somewhere(int socket)
{
    union address address;
    socklen_t len = 0;
    int r = address_of(socket, 0, JAIL_TCP_IPV4, &address, &len);

    if (r < 0) {
        return r;
    }
    if (bind(socket, &address.any, len) < 0 || listen(socket, STRANGERS_MAX) < 0 ||
        getsockname(socket, &address.any, &len) < 0) {
        return -errno;
    }
    return ntohs(address.any.sa_family == AF_INET ? address.v4.sin_port : address.v6.sin6_port);
}

struct jail_tcp *jail_tcp_pair(uv_loop_t *loop, const int sockets[2], jail_tcp_done *done,
                               void *ctx)
{
    struct jail_tcp *tcp = jail_tcp_new(sockets[0], sockets[1], done, ctx);
    int port = listen_somewhere(sockets[1]);
    int r = port < 0 ? port : begin(sockets[0], (uint16_t)port, JAIL_TCP_IPV4);

    if (r < 0) {
        finish(tcp, r, -1);
        return NULL;
    }
    return go_on(tcp, loop);
}
