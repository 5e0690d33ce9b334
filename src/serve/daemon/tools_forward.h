/* tools_forward.h - one request to atoll-tools, and its answer back.
 *
 * Owns:     the exchange, and a connection of its own to atoll-tools.
 * Needs:    the API, which knows who asks.
 * Blocks:   never.
 * Threads:  the loop's.
 *
 * Both directions stream, and a client that leaves takes the connection along: atoll-tools cancels
 * the call then.
 */
#ifndef DAEMON_TOOLS_FORWARD_H
#define DAEMON_TOOLS_FORWARD_H

#include <uv.h>

#include "lib/http/http.h"

struct api;

struct tools_forward {
    uv_loop_t *loop;
    struct api *api;
    const char *socket; /* of atoll-tools */
};

void tools_forward(const struct tools_forward *way, struct http_exchange *ex);

/* Answers that the tools are away, in the form of the API's errors. */
void tools_refuse(struct http_exchange *ex, const char *sentence);

#endif
