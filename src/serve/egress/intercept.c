/* intercept.c - one connection of a program, and the connections to its server.
 *
 * Requests that have no server connection yet wait in their intercept. An HTTP/2 connection serves
 * all of them; of HTTP/1.1 there is one each, and the last used one is kept for the next request.
 */
#include "serve/egress/intercept.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <utlist.h>

#include "lib/base/alloc.h"
#include "lib/base/fd.h"
#include "lib/http/tls.h"
#include "lib/http/tls_client.h"
#include "serve/egress/intercepted.h"

/* ---- reaching the server ---- */

/* A connection to the server that is being made: dialled, then TLS. */
struct server_dial {
    struct server_dial *prev, *next;
    struct intercept *of;
    struct lookup *lookup;
    struct dial *dial;
    struct client_conn *conn;
    uv_timer_t timer;
};

static void on_timer_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static void server_dial_free(struct server_dial *server)
{
    DL_DELETE(server->of->dials, server);
    server->of->dials_n--;
    lookup_cancel(server->lookup);
    dial_cancel(server->dial);
    uv_close((uv_handle_t *)&server->timer, on_timer_closed);
}

static struct destination *intercept_note(struct intercept *of, enum destination_verdict verdict,
                                          const char *rule)
{
    return net_note(of->net, &(struct destination_seen){.verdict = verdict,
                                                        .to = &of->to,
                                                        .no_address = of->net->names != NULL,
                                                        .host = str_of(of->name),
                                                        .rule = rule});
}

/* All connections of an intercept share an entry: they are to one server, by one rule. */
static void intercept_reached(struct intercept *of, struct client_conn *conn)
{
    char rule[DESTINATION_RULE_BYTES];

    (void)snprintf(rule, sizeof(rule), "%s %.100s", of->above ? "shell at" : "rules", of->name);
    struct destination *one = intercept_note(of, DESTINATION_REACHED, rule);
    if (!of->destination) {
        of->destination = destination_hold(one);
    }
    client_conn_count_also(conn, &of->destination->bytes_in, &of->destination->bytes_out);
}

static void server_dial_fail(struct server_dial *server, const char *why)
{
    struct intercept *of = server->of;

    client_conn_drop(move_ptr(&server->conn));
    server_dial_free(server);
    of->net->counters.failed++;
    (void)intercept_note(of, DESTINATION_FAILED, why);
    intercepted_fail_waiting(of, why);
}

static void on_http2_gone(void *ctx)
{
    struct intercept *of = ctx;

    http2_client_leave(move_ptr(&of->http2)); /* requests that it has under way go on */
}

/* The connection is ready: waiting requests get it. */
static void server_dial_done(struct server_dial *server)
{
    struct intercept *of = server->of;
    struct client_conn *conn = move_ptr(&server->conn);

    server_dial_free(server);
    of->net->counters.connections++;
    client_conn_count(conn, &of->net->counters.bytes_in, &of->net->counters.bytes_out);
    intercept_reached(of, conn);
    of->server = client_conn_is_http2(conn) ? SERVER_HTTP2 : SERVER_HTTP1;
    if (of->server == SERVER_HTTP1) {
        intercept_keep(of, upstream_on(conn));
    } else if (of->http2) {
        client_conn_drop(conn);
    } else {
        of->http2 = http2_client_new(conn, on_http2_gone, of);
    }
    intercepted_send_waiting(of);
}

static void on_secured(void *ctx, int error, const struct err *err)
{
    struct server_dial *server = ctx;

    if (error < 0) {
        server_dial_fail(server, err->msg);
    } else {
        server_dial_done(server);
    }
}

static void server_dial_secure(struct server_dial *server)
{
    struct intercept *of = server->of;

    tls_client_secure(server->conn, of->net->egress->trust, of->name,
                      of->http2_asked ? TLS_OFFER_HTTP2 : TLS_OFFER_HTTP1, on_secured);
}

static void on_dialed(void *ctx, int fd_or_error)
{
    struct server_dial *server = ctx;
    struct err err;

    server->dial = NULL;
    if (fd_or_error < 0) {
        server_dial_fail(server, uv_strerror(fd_or_error));
    } else if (client_conn_open(server->of->net->egress->loop, fd_or_error, &client_conn_quiet,
                                server, &server->conn, &err) < 0) {
        server_dial_fail(server, err.msg);
    } else if (server->of->secure) {
        server_dial_secure(server);
    } else {
        server_dial_done(server);
    }
}

static void on_timer(uv_timer_t *timer)
{
    server_dial_fail(timer->data, "it did not answer in time");
}

static void server_dial_dial(struct server_dial *server)
{
    struct intercept *of = server->of;
    struct target target = {.to = of->to};

    if (of->net->names || dial_is_proxied(of->net->egress, &target)) {
        (void)str_copy(target.name, sizeof(target.name), str_of(of->name)); /* TLS will prove it */
    }
    server->dial = dial_start(of->net, &target, on_dialed, server);
}

static void on_resolved(void *ctx, const struct address *addresses, size_t n)
{
    struct server_dial *server = ctx;

    server->lookup = NULL;
    if (n == 0) {
        server_dial_fail(server, "its name has no address");
    } else if (!dial_choose(server->of->net->egress, addresses, n, NULL, &server->of->to)) {
        server_dial_fail(server, "no address of that name may be reached");
    } else {
        server_dial_dial(server);
    }
}

/* The host's resolvers find a shell's server: the sandbox's own must not decide where a key goes.
 * Behind the sandbox's own proxy, the name itself is sent to the proxy. */
static void server_dial_resolve(struct server_dial *server)
{
    struct intercept *of = server->of;
    struct address literal;

    if (of->net->names && !of->secure) {
        server_dial_fail(server, "without TLS the sandbox's own proxy would see the key");
    } else if (address_parse(str_of(of->name), &literal) == 0) {
        on_resolved(server, &literal, 1);
    } else if (of->net->names) {
        of->to.address = names_address(of->net->names, str_of(of->name));
        server_dial_dial(server);
    } else {
        server->lookup =
            resolver_addresses(of->net->egress->resolver, of->name, on_resolved, server);
    }
}

static void server_dial_start(struct intercept *of)
{
    struct server_dial *server = xnew(struct server_dial);

    server->of = of;
    DL_APPEND(of->dials, server);
    of->dials_n++;
    (void)uv_timer_init(of->net->egress->loop, &server->timer);
    server->timer.data = server;
    (void)uv_timer_start(&server->timer, on_timer, EGRESS_CONNECT_TIMEOUT_MS, 0);
    if (of->above) {
        server_dial_resolve(server);
    } else {
        server_dial_dial(server);
    }
}

/* Dials one connection per waiting request; but only one where HTTP/2 may serve all. */
void intercept_dial(struct intercept *of, unsigned waiting)
{
    bool one = of->http2_asked && of->server != SERVER_HTTP1;
    unsigned most = one ? 1 : INTERCEPT_DIALS_MAX;

    for (unsigned n = of->dials_n; n < waiting && n < most; n++) {
        server_dial_start(of); /* may fail at once */
    }
}

/* ---- available connections ---- */

static void on_idle_gone(void *ctx)
{
    struct intercept *of = ctx;

    upstream_close(move_ptr(&of->idle));
}

void intercept_keep(struct intercept *of, struct upstream *up)
{
    upstream_close(of->idle);
    of->idle = up;
    upstream_idle(up, on_idle_gone, of);
}

struct upstream *intercept_take(struct intercept *of, bool tunnel)
{
    if (of->http2 && !tunnel) {
        return http2_client_open(of->http2);
    }
    struct upstream *up = move_ptr(&of->idle);
    if (up) {
        upstream_idle(up, NULL, NULL);
    }
    return up;
}

/* ---- life ---- */

static void servers_close(struct intercept *of)
{
    intercepted_drop_all(of);
    while (of->dials) {
        client_conn_drop(move_ptr(&of->dials->conn));
        server_dial_free(of->dials);
    }
    upstream_close(of->idle);
    http2_client_close(of->http2);
}

struct intercept *intercept_origin(struct intercept *of, const char *host, uint16_t port,
                                   bool secure)
{
    struct intercept *origin;

    LL_FOREACH (of->origins, origin) {
        if (origin->secure == secure && origin->to.port == port &&
            strcmp(origin->name, host) == 0) {
            return origin;
        }
    }
    origin = xnew(struct intercept);
    *origin = (struct intercept){.net = of->net, .above = of, .secure = secure};
    origin->to.port = port;
    (void)str_copy(origin->name, sizeof(origin->name), str_of(host));
    LL_PREPEND(of->origins, origin);
    return origin;
}

static void intercept_free(struct intercept *of)
{
    struct egress_net *net = of->net;

    while (of->origins) {
        struct intercept *origin = of->origins;

        LL_DELETE(of->origins, origin);
        servers_close(origin);
        destination_release(origin->destination);
        free(origin);
    }
    servers_close(of);
    destination_release(of->destination);
    DL_DELETE(net->intercepts, of);
    net->counters.open--;
    share_give(of->share);
    authority_release(of->authority);
    net_release(net);
    free(of);
}

static void on_client_closed(void *ctx, void *tag)
{
    (void)ctx;
    intercept_free(tag);
}

/* The daemon itself is asked. */
static bool is_ours(const struct intercept *of)
{
    return of->shells || of->self;
}

static struct intercept *intercept_new(struct egress_net *net, const struct intercept_start *start)
{
    struct intercept *of = xnew(struct intercept);

    of->net = net;
    net_hold(net);
    of->shells = start->shells;
    of->self = start->self;
    if (!is_ours(of) && !net->authority) {
        net->authority = authority_new(net->egress->secret, net->id);
    }
    of->authority = is_ours(of) ? NULL : authority_hold(net->authority);
    (void)str_copy(of->name, sizeof(of->name), str_of(start->name));
    of->asked = start->asked;
    of->to = start->to;
    of->secure = start->secure;
    DL_APPEND(net->intercepts, of);
    net->counters.open++;
    of->share = net_take(net);
    return of;
}

void intercept_start(struct egress_net *net, const struct intercept_start *start)
{
    struct intercept *of = intercept_new(net, start);
    struct err err;

    if (http_server_adopt_begun(net->egress->http, start->fd, start->first,
                                of->secure ? authority_tls(of->authority) : NULL, of, &of->client,
                                &err) < 0) {
        net_refused(net, &start->asked, str_of(start->name), err.msg);
        intercept_free(of);
    }
}

void intercepts_check(struct egress_net *net)
{
    struct intercept *of;

    DL_FOREACH (net->intercepts, of) {
        if (is_ours(of)) {
            continue; /* each request finds what it may */
        }
        char rule[POLICY_RULE_BYTES];
        enum verdict verdict = policy_address(net->policy, &of->asked.address, rule);
        bool allowed = verdict == VERDICT_ALLOW ||
                       (verdict == VERDICT_BY_NAME && policy_name(net->policy, str_of(of->name)));

        if (!allowed) {
            net_refused(net, &of->asked, str_of(of->name), rule);
        }
        if (!allowed || !transforms_find(net->transforms, str_of(of->name))) {
            http_conn_reset(of->client);
        }
    }
}

void intercepts_close(struct egress_net *net)
{
    struct intercept *of;

    DL_FOREACH (net->intercepts, of) {
        http_conn_reset(of->client);
    }
}

/* ---- all of them ---- */

static void on_request(void *ctx, struct http_exchange *ex)
{
    (void)ctx;
    intercepted_start(http_request(ex)->connection_tag, ex);
}

int intercept_open(struct egress *egress, const char *extra_ca, struct err *err)
{
    const struct http_server_options options = {.loop = egress->loop,
                                                .on_request = on_request,
                                                .closed = on_client_closed,
                                                .http2 = &http2_protocol,
                                                .connections_max = egress->shares.capacity};
    int r = tls_trust_new(extra_ca, &egress->trust, err);

    return r < 0 ? r : http_server_new(&options, &egress->http, err);
}

static void on_stopped(void *ctx)
{
    struct egress *egress = ctx;

    http_server_free(egress->http);
    egress_destroy(egress);
}

void intercept_stop(struct egress *egress)
{
    if (egress->http) {
        http_server_stop(egress->http, 0, on_stopped, egress);
    } else {
        egress_destroy(egress);
    }
}
