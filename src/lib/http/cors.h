/* cors.h - the one table of what web pages of other origins may send and read.
 *
 * Any origin may call each surface: a key or token is in a header that a page must set itself, so
 * another site's page has none to abuse. The dashboard's cookie counts only beside X-Atoll-CSRF,
 * which no preflight allows. Threads: the loop's.
 */
#ifndef HTTP_CORS_H
#define HTTP_CORS_H

#include "lib/http/http.h"

enum cors_surface {
    CORS_API,         /* the control plane, and the tools over plain HTTP */
    CORS_MCP,         /* the daemon's MCP server */
    CORS_EDGE,        /* the daemon's own answers in place of a sandbox's */
    CORS_AGENT,       /* the agent inside a sandbox */
    CORS_GATEWAY,     /* the MCP gateway inside a sandbox */
    CORS_INTERPRETER, /* the code interpreter inside a sandbox */
    CORS_SURFACES
};

/* The headers of every answer of the surface, for answers that are made elsewhere. Static. */
const struct http_header *cors_headers(enum cors_surface surface, size_t *n);

/* Has the exchange's answer carry them. Before the exchange is accepted. */
void cors_also(struct http_exchange *ex, enum cors_surface surface);

/* A browser asks whether it may send a request: OPTIONS with an origin and a method. */
bool cors_is_preflight(const struct http_request *req);

/* Accepts the exchange and answers 204 with all that the surface allows. */
void cors_preflight(struct http_exchange *ex, enum cors_surface surface);

#endif
