/* net.c - one sandbox's way out. */
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <utlist.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/log.h"
#include "egress/conn.h"
#include "egress/internal.h"

void net_hold(struct egress_net *net)
{
    net->handles++;
}

void net_release(struct egress_net *net)
{
    if (--net->handles == 0) {
        policy_free(net->policy);
        free(net);
    }
}

static void on_closed(uv_handle_t *handle)
{
    net_release(handle->data);
}

/* ---- refusals ---- */

/* Whether this one is told. A sandbox that is refused all the time does not fill the log. */
static bool log_turn(struct egress_net *net)
{
    uint64_t now = uv_now(net->egress->loop);

    if (now - net->log_since_ms >= EGRESS_LOG_WINDOW_MS) {
        if (net->log_dropped) {
            log_info("sandbox %s: egress: %u more were refused", net->id, net->log_dropped);
        }
        net->log_since_ms = now;
        net->log_n = net->log_dropped = 0;
    }
    if (net->log_n == EGRESS_LOG_BURST) {
        net->log_dropped++;
        return false;
    }
    net->log_n++;
    return true;
}

void net_refused(struct egress_net *net, const struct endpoint *to, struct str name,
                 const char *rule)
{
    char text[ENDPOINT_TEXT_BYTES] = "";

    net->counters.refused++;
    if (!log_turn(net)) {
        return;
    }
    if (to) {
        endpoint_text(to, text);
    }
    log_info("sandbox %s: egress to %s%s%.*s refused by rule: %s", net->id, text,
             to && name.len ? " " : "", (int)name.len, name.at ? name.at : "", rule);
}

/* ---- the gates ---- */

typedef void accept_fn(struct egress_net *net, int fd);

/* A sandbox that connects as fast as it can gets no more than its turn. */
static void accept_some(struct egress_net *net, int listener, accept_fn *take)
{
    for (int i = 0; i < EGRESS_ACCEPT_BATCH && !net->closed; i++) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) {
            return; /* none left, or no descriptors: asked again by the loop */
        }
        take(net, fd);
    }
}

static void on_gate(uv_poll_t *poll, int status, int events)
{
    struct egress_net *net = poll->data;

    (void)status, (void)events;
    accept_some(net, net->gate_fd, conn_accept);
}

static void on_dns_listener(uv_poll_t *poll, int status, int events)
{
    struct egress_net *net = poll->data;

    (void)status, (void)events;
    accept_some(net, net->dns_tcp_fd, dns_tcp_accept);
}

static void poll_start(struct egress_net *net, uv_poll_t *poll, int fd, uv_poll_cb on_ready)
{
    if (uv_poll_init(net->egress->loop, poll, fd) < 0 ||
        uv_poll_start(poll, UV_READABLE, on_ready) < 0) {
        abort(); /* the keeper gave us something that is no socket */
    }
    poll->data = net;
    net_hold(net);
}

struct egress_net *egress_open(struct egress *egress, const char *id, const json_t *options,
                               const struct egress_sockets *sockets)
{
    struct egress_net *net = xnew(struct egress_net);

    net->egress = egress;
    net->handles = 1; /* the opener's */
    (void)str_copy(net->id, sizeof(net->id), str_of(id));
    net->policy = policy_new(options);
    net->gate_fd = sockets->gate;
    net->dns_tcp_fd = sockets->dns_tcp;
    poll_start(net, &net->gate, net->gate_fd, on_gate);
    poll_start(net, &net->dns_listener, net->dns_tcp_fd, on_dns_listener);
    dns_start(net, sockets->dns_udp);
    return net;
}

void egress_set_policy(struct egress_net *net, const json_t *options)
{
    struct conn *conn, *next;

    policy_free(net->policy);
    net->policy = policy_new(options);
    DL_FOREACH_SAFE (net->conns, conn, next) {
        conn_check(conn);
    }
}

struct egress_counters egress_counters(const struct egress_net *net)
{
    return net->counters;
}

void egress_close(struct egress_net *net)
{
    if (!net) {
        return;
    }
    net->closed = true;
    while (net->conns) {
        conn_reset(net->conns);
    }
    dns_tcp_stop(net);
    dns_stop(net);
    uv_close((uv_handle_t *)&net->gate, on_closed);
    uv_close((uv_handle_t *)&net->dns_listener, on_closed);
    fd_closep(&net->gate_fd);
    fd_closep(&net->dns_tcp_fd);
    net_release(net);
}
