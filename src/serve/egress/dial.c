#include "serve/egress/dial.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "lib/base/alloc.h"
#include "lib/base/fd.h"
#include "lib/http/connector.h"
#include "lib/http/tls.h"
#include "serve/egress/tls_pipe.h"

enum { HTTP_PORT = 80 };

struct dial {
    struct egress_net *net;
    dial_done *done; /* NULL: nobody waits any more */
    void *ctx;
    struct target target;
    struct proxy proxy;      /* PROXY_NONE: straight there */
    bool guarded;            /* the proxy is the sandbox's choice */
    struct lookup *lookup;   /* of the proxy's name */
    struct tls_trust *trust; /* of a proxy with TLS and authorities of its own; NULL: the host's */
    struct tls_pipe *pipe;   /* in the making */
    struct talk talk;
    struct buf said;             /* to the proxy, and not taken yet */
    struct connector *connector; /* NULL: connected, or not begun */
    int fd;
    int error; /* of a dial that failed at once: the timer reports it */
    struct err err;
    uv_poll_t poll; /* of the talk with a proxy */
    bool polls;
    uv_timer_t timer;
    unsigned handles; /* not closed yet */
};

/* ---- the end ---- */

static void on_closed(uv_handle_t *handle)
{
    struct dial *dial = handle->data;

    if (--dial->handles == 0) {
        fd_closep(&dial->fd);
        buf_fini(&dial->said);
        tls_trust_free(dial->trust);
        explicit_bzero(&dial->proxy, sizeof(dial->proxy));
        free(dial);
    }
}

static void dial_close(struct dial *dial)
{
    dial->done = NULL;
    tls_pipe_cancel(move_ptr(&dial->pipe));
    lookup_cancel(move_ptr(&dial->lookup));
    connector_cancel(move_ptr(&dial->connector));
    uv_close((uv_handle_t *)&dial->timer, on_closed);
    if (dial->polls) {
        uv_close((uv_handle_t *)&dial->poll, on_closed);
    }
}

void dial_cancel(struct dial *dial)
{
    if (dial) {
        dial_close(dial);
    }
}

static void dial_end(struct dial *dial, int error)
{
    dial_done *done = dial->done;
    void *ctx = dial->ctx;
    int result = error < 0 ? error : -1;

    if (error == 0) {
        if (dial->polls) {
            (void)uv_poll_stop(&dial->poll); /* another handle may poll the descriptor now */
        }
        result = move_fd(&dial->fd);
    } else if (dial->proxy.kind != PROXY_NONE) {
        net_proxy_failed(dial->net, &dial->target, &dial->proxy,
                         dial->err.code ? dial->err.msg : uv_strerror(error));
    }
    dial_close(dial);
    done(ctx, result);
}

static void on_timer(uv_timer_t *timer)
{
    struct dial *dial = timer->data;

    dial_end(dial, dial->error < 0 ? dial->error : -ETIMEDOUT);
}

/* From the loop: a caller has no dial yet when it fails inside dial_start(). */
static void dial_fail_soon(struct dial *dial, int error)
{
    dial->error = error;
    (void)uv_timer_start(&dial->timer, on_timer, 0, 0);
}

/* ---- the talk with a proxy ---- */

static void on_talk(uv_poll_t *poll, int status, int events);

static void talk_wait(struct dial *dial)
{
    int events = UV_READABLE | (buf_len(&dial->said) ? UV_WRITABLE : 0);

    (void)uv_poll_start(&dial->poll, events, on_talk);
}

static int talk_send(struct dial *dial)
{
    while (buf_len(&dial->said)) {
        ssize_t n = send(dial->fd, buf_at(&dial->said), buf_len(&dial->said), MSG_NOSIGNAL);
        if (n < 0) {
            return errno == EAGAIN || errno == EINTR ? 0 : -errno;
        }
        buf_consume(&dial->said, (size_t)n);
    }
    return 0;
}

/* Reads only the proxy's own bytes: the server's may follow directly. 1: the proxy is through. */
static int talk_receive(struct dial *dial)
{
    char got[PROXY_ANSWER_MAX];
    size_t used = 0;

    ssize_t n = recv(dial->fd, got, sizeof(got), MSG_PEEK);
    if (n < 0) {
        return errno == EAGAIN || errno == EINTR ? 0 : -errno;
    }
    if (n == 0) {
        return err_set(&dial->err, ECONNRESET, "it closed the connection");
    }
    int r = talk_step(&dial->talk, (struct str){got, (size_t)n}, &used, &dial->said, &dial->err);
    if (used && recv(dial->fd, got, used, 0) != (ssize_t)used) {
        return -EIO;
    }
    return r < 0 || r == 1 || used == 0 ? r : talk_send(dial);
}

static void on_talk(uv_poll_t *poll, int status, int events)
{
    struct dial *dial = poll->data;
    int r = talk_send(dial);

    if (r == 0 && (status < 0 || events & UV_READABLE)) {
        r = talk_receive(dial); /* libuv does not tell a socket's error; reading does */
    }
    r = r == 0 && status < 0 ? status : r;
    if (r == 0) {
        talk_wait(dial);
    } else {
        dial_end(dial, r < 0 ? r : 0);
    }
}

static void talk_start(struct dial *dial)
{
    dial->talk = (struct talk){.proxy = &dial->proxy, .target = &dial->target};
    buf_init(&dial->said, PROXY_ANSWER_MAX);
    if (uv_poll_init(dial->net->egress->loop, &dial->poll, dial->fd) < 0) {
        dial_end(dial, -EIO);
        return;
    }
    dial->poll.data = dial;
    dial->polls = true;
    dial->handles++;
    int r = talk_begin(&dial->talk, &dial->said);
    if (r == 0) {
        r = talk_send(dial);
    }
    if (r < 0) {
        dial_end(dial, r);
    } else {
        talk_wait(dial);
    }
}

/* ---- TLS to a proxy ---- */

/* The talk with the proxy continues over the plain end of the pipe. */
static void on_pipe(void *ctx, int fd_or_error, const struct err *err)
{
    struct dial *dial = ctx;

    dial->pipe = NULL;
    if (fd_or_error < 0) {
        dial->err = *err;
        dial_end(dial, fd_or_error);
        return;
    }
    dial->fd = fd_or_error;
    talk_start(dial);
}

static void tls_start(struct dial *dial)
{
    struct egress *egress = dial->net->egress;
    struct tls_trust *trust = dial->trust ? dial->trust : egress->trust;
    int r = tls_pipe_start(egress->loop, move_fd(&dial->fd), trust, dial->proxy.server_name,
                           on_pipe, dial, &dial->pipe, &dial->err);

    if (r < 0) {
        dial_end(dial, r);
    }
}

/* ---- connecting ---- */

static void on_connected(void *ctx, int fd_or_error)
{
    struct dial *dial = ctx;

    dial->connector = NULL;
    dial->fd = fd_or_error;
    if (fd_or_error < 0) {
        dial_end(dial, fd_or_error);
    } else if (dial->proxy.tls) {
        tls_start(dial);
    } else if (dial->proxy.kind != PROXY_NONE) {
        talk_start(dial);
    } else {
        dial_end(dial, 0);
    }
}

static void dial_connect(struct dial *dial, const struct endpoint *to)
{
    struct sockaddr_storage address;

    endpoint_to_sockaddr(to, &address);
    dial->connector = connector_start(dial->net->egress->loop, (struct sockaddr *)&address, 0,
                                      on_connected, dial);
}

/* ---- to a proxy ---- */

/* A sandbox may name any proxy, but reaches no more through it than without it. */
static bool proxy_allowed(struct dial *dial, const struct endpoint *at)
{
    const char *why = dial->guarded ? guard_check(dial->net->egress, at) : NULL;

    if (why) {
        (void)err_set(&dial->err, EACCES, "no sandbox may reach it: %s", ours(why));
    }
    return !why;
}

static void proxy_connect(struct dial *dial, const struct address *address)
{
    const struct endpoint at = {*address, dial->proxy.port};
    const struct endpoint *mapped = map_find(dial->net->egress, &at);

    if (mapped) {
        dial_connect(dial, mapped);
    } else if (proxy_allowed(dial, &at)) {
        dial_connect(dial, &at);
    } else {
        dial_fail_soon(dial, -EACCES);
    }
}

static void on_proxy_found(void *ctx, const struct address *addresses, size_t n)
{
    struct dial *dial = ctx;

    dial->lookup = NULL;
    if (n == 0) {
        (void)err_set(&dial->err, ENOENT, "its name has no address");
        dial_fail_soon(dial, -ENOENT);
    } else {
        proxy_connect(dial, &addresses[0]);
    }
}

static void proxy_dial(struct dial *dial)
{
    struct address address;

    if (dial->proxy.port == 0) {
        (void)err_set(&dial->err, EINVAL, "its address cannot be understood");
        dial_fail_soon(dial, -EINVAL);
    } else if (address_parse(str_of(dial->proxy.host), &address) == 0) {
        proxy_connect(dial, &address);
    } else {
        dial->lookup =
            resolver_addresses(dial->net->egress->resolver, dial->proxy.host, on_proxy_found, dial);
    }
}

/* ---- the beginning ---- */

static const struct proxy *operators_proxy(const struct egress *egress, const struct target *to)
{
    const struct proxy *proxy =
        to->to.port == HTTP_PORT ? &egress->http_proxy : &egress->https_proxy;

    if (proxy->kind == PROXY_NONE || map_find(egress, &to->to) ||
        proxy_is_exempt(egress->no_proxy, str_of(to->name), &to->to.address)) {
        return NULL;
    }
    return proxy;
}

bool dial_is_proxied(const struct egress *egress, const struct target *to)
{
    return operators_proxy(egress, to) != NULL;
}

/* False: it has failed. */
static bool trust_own(struct dial *dial)
{
    const char *pem = dial->net->proxy_authorities;

    if (!dial->proxy.tls || !dial->guarded || !pem) {
        return true;
    }
    if (tls_trust_new_pem(str_of(pem), &dial->trust) == 0) {
        return true;
    }
    (void)err_set(&dial->err, EINVAL, "its authorities cannot be read");
    dial_fail_soon(dial, -EINVAL);
    return false;
}

struct dial *dial_start(struct egress_net *net, const struct target *to, dial_done *done, void *ctx)
{
    struct dial *dial = xnew(struct dial);

    *dial =
        (struct dial){.net = net, .done = done, .ctx = ctx, .target = *to, .fd = -1, .handles = 1};
    (void)uv_timer_init(net->egress->loop, &dial->timer);
    dial->timer.data = dial;
    (void)uv_timer_start(&dial->timer, on_timer, EGRESS_CONNECT_TIMEOUT_MS, 0);
    dial->guarded = net->proxy.kind != PROXY_NONE;
    const struct proxy *proxy = dial->guarded ? &net->proxy : operators_proxy(net->egress, to);
    if (proxy) {
        dial->proxy = *proxy; /* the sandbox's may change meanwhile */
        if (trust_own(dial)) {
            proxy_dial(dial);
        }
    } else {
        const struct endpoint *mapped = map_find(net->egress, &to->to);
        dial_connect(dial, mapped ? mapped : &to->to);
    }
    return dial;
}

/* ---- choosing an address ---- */

static bool may_dial(const struct egress *egress, const struct endpoint *to)
{
    return map_find(egress, to) ||
           (!guard_check(egress, to) && route_of(egress->route_fd, &to->address) == ROUTE_AWAY);
}

bool dial_choose(const struct egress *egress, const struct address *addresses, size_t n,
                 const struct address *wanted, struct endpoint *to)
{
    bool found = false;

    for (size_t i = 0; i < n; i++) {
        struct endpoint one = {addresses[i], to->port};
        bool is_wanted = wanted && address_eq(&addresses[i], wanted);

        if ((is_wanted || !found) && may_dial(egress, &one)) {
            *to = one;
            found = true;
        }
        if (is_wanted && found) {
            return true;
        }
    }
    return found;
}
