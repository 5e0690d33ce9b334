/* intercept.c - one connection of a program, and the connections to its server.
 *
 * Requests that have no server connection yet wait in their intercept. An HTTP/2 connection serves
 * all of them; of HTTP/1.1 there is one each, and the last used one is kept for the next request.
 */
#include "serve/egress/intercept.h"

#include <errno.h>
#include <stdlib.h>
#include <utlist.h>

#include "lib/base/alloc.h"
#include "lib/base/fd.h"
#include "lib/http/tls.h"
#include "lib/http/tls_client.h"
#include "serve/egress/passage.h"

/* ---- reaching the server ---- */

/* A connection to the server that is being made: dialled, then TLS. */
struct reach {
    struct reach *prev, *next;
    struct intercept *of;
    struct lookup *lookup;
    struct dial *dial;
    struct link *link;
    uv_timer_t timer;
};

static void on_timer_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static void reach_free(struct reach *reach)
{
    DL_DELETE(reach->of->reaches, reach);
    reach->of->reaches_n--;
    lookup_cancel(reach->lookup);
    dial_cancel(reach->dial);
    uv_close((uv_handle_t *)&reach->timer, on_timer_closed);
}

static void reach_fail(struct reach *reach, const char *why)
{
    struct intercept *of = reach->of;

    link_drop(move_ptr(&reach->link));
    reach_free(reach);
    of->net->counters.failed++;
    passages_fail(of, why);
}

static void on_http2_gone(void *ctx)
{
    struct intercept *of = ctx;

    http2_client_leave(move_ptr(&of->http2)); /* requests that it has under way go on */
}

/* The connection is good: whoever waits gets it. */
static void reach_done(struct reach *reach)
{
    struct intercept *of = reach->of;
    struct link *link = move_ptr(&reach->link);

    reach_free(reach);
    of->net->counters.connections++;
    link_count(link, &of->net->counters.bytes_in, &of->net->counters.bytes_out);
    of->server = link_is_http2(link) ? SERVER_HTTP2 : SERVER_HTTP1;
    if (of->server == SERVER_HTTP1) {
        intercept_keep(of, upstream_on(link));
    } else if (of->http2) {
        link_drop(link);
    } else {
        of->http2 = http2_client_new(link, on_http2_gone, of);
    }
    passages_serve(of);
}

static void on_secured(void *ctx, int error, const struct err *err)
{
    struct reach *reach = ctx;

    if (error < 0) {
        reach_fail(reach, err->msg);
    } else {
        reach_done(reach);
    }
}

static void reach_secure(struct reach *reach)
{
    struct intercept *of = reach->of;

    tls_client_secure(reach->link, of->net->egress->trust, of->name,
                      of->http2_asked ? TLS_OFFER_HTTP2 : TLS_OFFER_HTTP1, on_secured);
}

static void on_dialed(void *ctx, int fd_or_error)
{
    struct reach *reach = ctx;
    struct err err;

    reach->dial = NULL;
    if (fd_or_error < 0) {
        reach_fail(reach, uv_strerror(fd_or_error));
    } else if (link_open(reach->of->net->egress->loop, fd_or_error, &link_quiet, reach,
                         &reach->link, &err) < 0) {
        reach_fail(reach, err.msg);
    } else if (reach->of->secure) {
        reach_secure(reach);
    } else {
        reach_done(reach);
    }
}

static void on_timer(uv_timer_t *timer)
{
    reach_fail(timer->data, "it did not answer in time");
}

static void reach_dial(struct reach *reach)
{
    struct intercept *of = reach->of;
    struct target target = {.to = of->to};

    if (of->net->names || dial_is_proxied(of->net->egress, &target)) {
        (void)str_copy(target.name, sizeof(target.name), str_of(of->name)); /* TLS will prove it */
    }
    reach->dial = dial_start(of->net, &target, on_dialed, reach);
}

static void on_resolved(void *ctx, const struct address *addresses, size_t n)
{
    struct reach *reach = ctx;

    reach->lookup = NULL;
    if (n == 0) {
        reach_fail(reach, "its name has no address");
    } else if (!dial_choose(reach->of->net->egress, addresses, n, NULL, &reach->of->to)) {
        reach_fail(reach, "no address of that name may be reached");
    } else {
        reach_dial(reach);
    }
}

/* Where a shell's server is, is asked of the host's resolvers: a sandbox's own have no say in where
 * a key goes. Behind a proxy of the sandbox's the name itself goes there. */
static void reach_resolve(struct reach *reach)
{
    struct intercept *of = reach->of;
    struct address literal;

    if (of->net->names && !of->secure) {
        reach_fail(reach, "without TLS the sandbox's own proxy would see the key");
    } else if (address_parse(str_of(of->name), &literal) == 0) {
        on_resolved(reach, &literal, 1);
    } else if (of->net->names) {
        of->to.address = names_address(of->net->names, str_of(of->name));
        reach_dial(reach);
    } else {
        reach->lookup = resolver_addresses(of->net->egress->resolver, of->name, on_resolved, reach);
    }
}

static void reach_start(struct intercept *of)
{
    struct reach *reach = xnew(struct reach);

    reach->of = of;
    DL_APPEND(of->reaches, reach);
    of->reaches_n++;
    (void)uv_timer_init(of->net->egress->loop, &reach->timer);
    reach->timer.data = reach;
    (void)uv_timer_start(&reach->timer, on_timer, EGRESS_CONNECT_TIMEOUT_MS, 0);
    if (of->above) {
        reach_resolve(reach);
    } else {
        reach_dial(reach);
    }
}

/* As many as are waited for; but one first, where one may do for all. */
void intercept_reach(struct intercept *of, unsigned waiting)
{
    bool one = of->http2_asked && of->server != SERVER_HTTP1;
    unsigned most = one ? 1 : INTERCEPT_REACHES_MAX;

    for (unsigned n = of->reaches_n; n < waiting && n < most; n++) {
        reach_start(of); /* may fail at once */
    }
}

/* ---- connections to be had ---- */

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
    passages_drop(of);
    while (of->reaches) {
        link_drop(move_ptr(&of->reaches->link));
        reach_free(of->reaches);
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
        free(origin);
    }
    servers_close(of);
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
    passage_start(http_request(ex)->connection_tag, ex);
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
