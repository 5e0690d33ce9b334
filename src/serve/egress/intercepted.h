/* intercepted.h - shared by intercept.c (connections) and intercepted.c (one request each). */
#ifndef EGRESS_INTERCEPTED_H
#define EGRESS_INTERCEPTED_H

#include "lib/http/client_conn.h"
#include "lib/http/http2_client.h"
#include "lib/http/server.h"
#include "lib/http/upstream.h"
#include "serve/egress/authority.h"
#include "serve/egress/dial.h"
#include "serve/egress/intercept.h"

struct intercepted;
struct server_dial;

/* The server's protocol is known when the first connection to it is open. */
enum server { SERVER_UNKNOWN, SERVER_HTTP1, SERVER_HTTP2 };

struct intercept {
    struct intercept *prev, *next; /* in net->intercepts */
    struct egress_net *net;        /* counted */
    struct share *share;
    struct authority *authority; /* counted */
    struct http_conn *client;
    char name[POLICY_NAME_BYTES];
    struct endpoint asked, to;
    bool secure;
    bool self;                 /* its requests ask which sandbox this is */
    bool shells;               /* its requests are for shells, and served by: */
    struct intercept *origins; /* one for each server, `next` alone */
    struct intercept *above;   /* of an origin: the connection that it serves; else NULL */
    bool http2_asked;          /* the program speaks HTTP/2, so the server is offered it */
    enum server server;
    struct http2_client *http2; /* NULL: none, or it takes no more */
    struct upstream *idle;      /* of HTTP/1.1 */
    struct intercepted *requests;
    struct server_dial *dials;
    unsigned dials_n;
    struct destination *destination; /* of its server; counted, NULL until it is reached */
};

/* ---- intercept.c ---- */

struct upstream *intercept_take(struct intercept *of, bool tunnel); /* or NULL */
void intercept_keep(struct intercept *of, struct upstream *up);     /* takes it back */
void intercept_dial(struct intercept *of, unsigned waiting);

/* For a connection to the shells: the intercept that serves requests to that server. */
struct intercept *intercept_origin(struct intercept *of, const char *host, uint16_t port,
                                   bool secure);

/* ---- intercepted.c ---- */

void intercepted_start(struct intercept *of, struct http_exchange *ex);
void intercepted_send_waiting(struct intercept *of); /* a connection is available */
void intercepted_fail_waiting(struct intercept *of, const char *why); /* those that wait */
void intercepted_drop_all(struct intercept *of);

#endif
