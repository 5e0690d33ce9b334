/* passage.h - between intercept.c, which has the connections, and passage.c: one request each. */
#ifndef EGRESS_PASSAGE_H
#define EGRESS_PASSAGE_H

#include "lib/http/http2_client.h"
#include "lib/http/link.h"
#include "lib/http/server.h"
#include "lib/http/upstream.h"
#include "serve/egress/authority.h"
#include "serve/egress/dial.h"
#include "serve/egress/intercept.h"

struct passage;
struct reach;

/* What the server speaks is known when the first connection to it is there. */
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
    struct passage *passages;
    struct reach *reaches;
    unsigned reaches_n;
};

/* ---- intercept.c ---- */

struct upstream *intercept_take(struct intercept *of, bool tunnel); /* or NULL */
void intercept_keep(struct intercept *of, struct upstream *up);     /* takes it back */
void intercept_reach(struct intercept *of, unsigned waiting);

/* Of a connection to the shells: what serves requests to that server. */
struct intercept *intercept_origin(struct intercept *of, const char *host, uint16_t port,
                                   bool secure);

/* ---- passage.c ---- */

void passage_start(struct intercept *of, struct http_exchange *ex);
void passages_serve(struct intercept *of);                 /* a connection is to be had */
void passages_fail(struct intercept *of, const char *why); /* those that wait */
void passages_drop(struct intercept *of);

#endif
