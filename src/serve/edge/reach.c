/* reach.c - a connection to a service that does not speak plain HTTP/1.1: HTTP/2 for gRPC, TLS for
 * the ports that network.httpsPorts names. Whose certificate a service has says nothing: it is
 * reached through its own sandbox's agent. */
#include <errno.h>
#include <stdlib.h>

#include "lib/base/alloc.h"
#include "lib/http/http2_client.h"
#include "lib/http/link.h"
#include "lib/http/tls_client.h"
#include "serve/edge/internal.h"

struct reach {
    struct edge *edge;
    struct link *link; /* NULL: handed on */
    struct http2_client *client;
    bool http2;
    void (*done)(void *ctx, struct upstream *up); /* NULL: over */
    void *ctx;
};

static void reach_done(struct reach *reach, struct upstream *up)
{
    void (*done)(void *ctx, struct upstream *up) = reach->done;

    reach->done = NULL;
    done(reach->ctx, up);
}

/* A service that goes away is told by the stream that it has. */
static void on_client_gone(void *ctx)
{
    (void)ctx;
}

static void reach_ready(struct reach *reach)
{
    if (!reach->http2) {
        reach_done(reach, upstream_on(move_ptr(&reach->link)));
        return;
    }
    reach->client = http2_client_new(move_ptr(&reach->link), on_client_gone, NULL);
    reach_done(reach, http2_client_open(reach->client));
}

static void on_secured(void *ctx, int error, const struct err *err)
{
    struct reach *reach = ctx;

    (void)err;
    if (!reach->done) {
        return;
    }
    if (error < 0 || (reach->http2 && !link_is_http2(reach->link))) {
        link_drop(move_ptr(&reach->link));
        reach_done(reach, NULL);
    } else {
        reach_ready(reach);
    }
}

int reach_start(struct edge *edge, int fd, const struct reach_way *way,
                void (*done)(void *ctx, struct upstream *up), void *ctx, struct reach **out,
                struct err *err)
{
    struct reach *reach = xnew(struct reach);

    *reach = (struct reach){.edge = edge, .http2 = way->http2, .done = done, .ctx = ctx};
    int r = link_open(edge->loop, fd, &link_quiet, reach, &reach->link, err);
    if (r < 0) {
        free(reach);
        return r;
    }
    *out = reach;
    if (way->tls) {
        tls_client_secure(reach->link, edge->anybody, way->name,
                          way->http2 ? TLS_OFFER_HTTP2 : TLS_OFFER_HTTP1, on_secured);
    } else {
        reach_ready(reach);
    }
    return 0;
}

void reach_free(struct reach *reach)
{
    if (!reach) {
        return;
    }
    link_drop(reach->link);
    http2_client_close(reach->client);
    free(reach);
}
