/* service_conn.c - a connection to a service that does not speak plain HTTP/1.1: HTTP/2 for gRPC,
 * TLS for the ports that network.httpsPorts names. The service's certificate is not checked: the
 * socket leads into its own sandbox. */
#include <errno.h>
#include <stdlib.h>

#include "lib/base/alloc.h"
#include "lib/http/client_conn.h"
#include "lib/http/http2_client.h"
#include "lib/http/tls_client.h"
#include "serve/edge/internal.h"

struct service_conn {
    struct edge *edge;
    struct client_conn *conn; /* NULL: handed on */
    struct http2_client *client;
    bool http2;
    void (*done)(void *ctx, struct upstream *up); /* NULL: over */
    void *ctx;
};

static void service_conn_done(struct service_conn *service, struct upstream *up)
{
    void (*done)(void *ctx, struct upstream *up) = service->done;

    service->done = NULL;
    done(service->ctx, up);
}

/* The stream's on_end reports a service that goes away. */
static void on_client_gone(void *ctx)
{
    (void)ctx;
}

static void service_conn_ready(struct service_conn *service)
{
    if (!service->http2) {
        service_conn_done(service, upstream_on(move_ptr(&service->conn)));
        return;
    }
    service->client = http2_client_new(move_ptr(&service->conn), on_client_gone, NULL);
    service_conn_done(service, http2_client_open(service->client));
}

static void on_secured(void *ctx, int error, const struct err *err)
{
    struct service_conn *service = ctx;

    (void)err;
    if (!service->done) {
        return;
    }
    if (error < 0 || (service->http2 && !client_conn_is_http2(service->conn))) {
        client_conn_drop(move_ptr(&service->conn));
        service_conn_done(service, NULL);
    } else {
        service_conn_ready(service);
    }
}

int service_conn_start(struct edge *edge, int fd, const struct service_conn_way *way,
                       void (*done)(void *ctx, struct upstream *up), void *ctx,
                       struct service_conn **out, struct err *err)
{
    struct service_conn *service = xnew(struct service_conn);

    *service = (struct service_conn){.edge = edge, .http2 = way->http2, .done = done, .ctx = ctx};
    int r = client_conn_open(edge->loop, fd, &client_conn_quiet, service, &service->conn, err);
    if (r < 0) {
        free(service);
        return r;
    }
    *out = service;
    if (way->tls) {
        tls_client_secure(service->conn, edge->anybody, way->name,
                          way->http2 ? TLS_OFFER_HTTP2 : TLS_OFFER_HTTP1, on_secured);
    } else {
        service_conn_ready(service);
    }
    return 0;
}

void service_conn_free(struct service_conn *service)
{
    if (!service) {
        return;
    }
    client_conn_drop(service->conn);
    http2_client_close(service->client);
    free(service);
}
