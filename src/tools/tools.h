/* tools.h - the catalogue of tools: for workflow builders, for one-call users, for agents.
 *
 *      POST /tools/{name} ─┐
 *      POST /mcp ──────────┼─► who asks ─► schema ─► a fiber: tool_NAME() ─► answer
 *      /api/code/execute ──┘                           │
 *                                                      └─► the daemon's API, with the key of
 *                                                          who asks
 *
 * Owns:     the calls under way, MCP's sessions.
 * Needs:    the daemon's API by its internal socket; `authenticate`.
 * Blocks:   never.
 * Threads:  the loop's.
 */
#ifndef TOOLS_TOOLS_H
#define TOOLS_TOOLS_H

#include <uv.h>

#include "lib/base/err.h"
#include "lib/http/http.h"

enum {
    TOOLS_BODY_BYTES_MAX = 48 * 1024 * 1024, /* a file of REMOTE_FILE_BYTES_MAX fits, in base64 */
};

struct tools;

struct tools_options {
    uv_loop_t *loop;
    const char *domain;    /* for the addresses of ports; NULL: the client's own words for us */
    int64_t sandbox_s_max; /* the most that the operator lets a sandbox live */
    int64_t code_s_max;    /* and a piece of code run, which has a sandbox of its own */
    /* Finds the caller: the team's id and the text of the key. -EACCES with the sentence of a
     * 401. */
    int (*authenticate)(void *ctx, const struct http_request *req, const char **team_id,
                        struct str *key, struct err *err);
    /* A connection to the daemon's internal socket: a descriptor that does not block, or -errno. */
    int (*dial)(void *ctx, struct err *err);
    void *ctx;
};

must_check int tools_new(const struct tools_options *options, struct tools **out, struct err *err);

/* Cancels the calls under way; `done` is called once when all have cleaned up, perhaps at once. The
 * daemon must still answer: cleaning up asks the API. */
void tools_stop(struct tools *tools, void (*done)(void *ctx), void *ctx);

/* Accepts NULL. Calls that are still under way cannot reach the API any more, and end with the
 * process. */
void tools_free(struct tools *tools);

/* True: the exchange is a tool's, and will be answered. */
bool tools_handle(struct tools *tools, struct http_exchange *ex);

#endif
