/* gateway.h - many MCP servers as one, over Streamable HTTP at /mcp.
 *
 * Owns:     the servers, the sessions, the open posts.
 * Needs:    plans that outlive it; an HTTP server that hands requests to gateway_request().
 * Blocks:   never.
 * Threads:  the loop's.
 */
#ifndef GATEWAY_GATEWAY_H
#define GATEWAY_GATEWAY_H

#include "inside/gateway/install.h"
#include "inside/gateway/plan.h"
#include "lib/base/str.h"
#include "lib/http/http.h"

struct gateway;

struct gateway_options {
    struct place place;
    const struct plans *plans;
    const char *token; /* the bearer token of every request */
    /* Either on_up or on_failed is called, once, perhaps inside gateway_start(). */
    void (*on_up)(void *ctx);
    void (*on_failed)(void *ctx, const char *why, struct str said);
    void *ctx;
};

struct gateway *gateway_new(const struct gateway_options *options);
void gateway_start(struct gateway *gateway); /* every server */
void gateway_free(struct gateway *gateway);

void gateway_request(void *gateway, struct http_exchange *ex);

/* The servers that are not up yet, "a, b", and the last output of the first of them: for the report
 * after a timeout. */
struct str gateway_missing(const struct gateway *gateway, char *names, size_t size);

#endif
