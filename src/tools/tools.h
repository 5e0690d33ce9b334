/* tools.h - the catalogue of tools: for workflow builders, for one-call users, for agents.
 *
 *      POST /tools/{name} ─┐
 *      POST /mcp ──────────┼─► who asks ─► schema ─► a fiber: tool_NAME() ─► answer
 *      /api/code/execute ──┘                           │
 *                                                      └─► the daemon's own API, with the key
 *                                                          of who asks
 *
 * Owns:     the calls under way, MCP's sessions.
 * Needs:    the API (who asks), the server's front door, the store, the secrets.
 * Blocks:   never.
 * Threads:  the loop's.
 */
#ifndef TOOLS_TOOLS_H
#define TOOLS_TOOLS_H

#include <uv.h>

#include "lib/base/err.h"
#include "lib/http/http.h"

enum {
    TOOLS_BODY_BYTES_MAX = 48 * 1024 * 1024, /* a file of BOX_FILE_BYTES_MAX fits, in base64 */
};

struct api;
struct secrets;
struct shells;
struct store;
struct tools;

struct tools_options {
    uv_loop_t *loop;
    struct api *api;
    struct store *store;
    struct secrets *secrets;
    struct shells *shells;
    const char *domain;    /* for the addresses of ports; NULL: the client's own words for us */
    int64_t sandbox_s_max; /* the most that the operator lets a sandbox live */
    int64_t code_s_max;    /* and a piece of code run, which has a sandbox of its own */
    /* A connection to our own front door: takes the descriptor over, also on failure. */
    int (*adopt)(void *ctx, int fd, struct err *err);
    void *ctx;
};

must_check int tools_new(const struct tools_options *options, struct tools **out, struct err *err);

/* Cancels what is under way; `done` comes once when all of it has cleaned up, perhaps at once. The
 * front door must still be open: cleaning up asks the API. */
void tools_stop(struct tools *tools, void (*done)(void *ctx), void *ctx);

/* Accepts NULL. Calls that are still under way find nobody to ask, and go with the process. */
void tools_free(struct tools *tools);

/* True: the exchange is a tool's, and will be answered. */
bool tools_handle(struct tools *tools, struct http_exchange *ex);

#endif
