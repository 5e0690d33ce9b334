/* tools_child.h - atoll-tools, the program with the catalogue of tools: started, supervised, asked.
 *
 * Owns:     the process, both of its sockets, and the HTTP server of the internal one.
 * Needs:    the API; a handler for the requests that atoll-tools makes.
 * Blocks:   never.
 * Threads:  the loop's.
 *
 * When the process ends it is started again, with growing pauses. Requests wait in its socket while
 * it starts; those that come while it waits to be started are answered 503.
 */
#ifndef DAEMON_TOOLS_CHILD_H
#define DAEMON_TOOLS_CHILD_H

#include <uv.h>

#include "lib/base/err.h"
#include "lib/http/http.h"
#include "serve/daemon/config.h"
#include "serve/daemon/paths.h"

struct api;
struct tools_child;

struct tools_child_options {
    uv_loop_t *loop;
    struct api *api;
    const struct config *config;
    const struct paths *paths;
    void (*on_request)(void *ctx, struct http_exchange *ex); /* by the internal socket */
    void *ctx;
};

must_check int tools_child_new(const struct tools_child_options *options, struct tools_child **out,
                               struct err *err);

/* True: the exchange is a tool's, and will be answered. */
bool tools_child_handle(struct tools_child *tools, struct http_exchange *ex);

/* Asks it to end: it cancels its calls, which clean up through the API. `done` comes once when it
 * has ended and nothing comes by the internal socket any more. */
void tools_child_stop(struct tools_child *tools, void (*done)(void *ctx), void *ctx);

/* After tools_child_stop(): it is to end at once. */
void tools_child_hurry(struct tools_child *tools);

/* After `done`, or of a start that failed. Accepts NULL. */
void tools_child_free(struct tools_child *tools);

#endif
