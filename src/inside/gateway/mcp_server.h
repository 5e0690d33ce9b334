/* mcp_server.h - one MCP server: its process, its tools, prompts and resources, the open questions.
 *
 * Owns:     the process, the lists of what it offers, a question until its answer.
 * Needs:    a plan and a place, which outlive it.
 * Blocks:   never.
 * Threads:  the loop's.
 *
 * The server speaks MCP over its standard input and output, a message per line. It is the same
 * process for all clients of the gateway. A server that ends after it was up is started again by
 * the next question; open questions are answered with an error. We offer a server nothing (no
 * roots, no sampling): every request of it except ping is refused.
 */
#ifndef GATEWAY_MCP_SERVER_H
#define GATEWAY_MCP_SERVER_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "inside/gateway/install.h"
#include "inside/gateway/plan.h"
#include "lib/base/str.h"

enum mcp_server_list {
    MCP_SERVER_TOOLS,
    MCP_SERVER_PROMPTS,
    MCP_SERVER_RESOURCES,
    MCP_SERVER_TEMPLATES, /* of addresses of resources */
    MCP_SERVER_LISTS,
};

struct mcp_server;

struct mcp_server_events {
    void (*on_up)(void *ctx, struct mcp_server *server); /* the first time */
    /* It never was up. `said` is the end of what it wrote. */
    void (*on_failed)(void *ctx, struct mcp_server *server, const char *why, struct str said);
    void (*on_changed)(void *ctx, struct mcp_server *server, enum mcp_server_list list);
    void (*on_notification)(void *ctx, struct mcp_server *server, const char *method,
                            json_t *params);
};

/* The asker. A question is answered once: with a JSON-RPC message that has a result or an error. */
struct mcp_server_asker {
    void (*on_answer)(void *ctx, json_t *message);
    void (*on_progress)(void *ctx, json_t *params); /* may be NULL */
};

struct mcp_server *mcp_server_new(const struct place *place, const struct plan *plan,
                                  const struct mcp_server_events *events, void *ctx);
void mcp_server_start(
    struct mcp_server *server); /* once; on_up or on_failed follows, or comes inside */
void mcp_server_free(struct mcp_server *server); /* questions that are left are answered inside */

/* The parameters are stolen. *id is the question's, for mcp_server_cancel(), set before an answer
 * comes; that may be inside, when the server cannot be started. */
void mcp_server_ask(struct mcp_server *server, const char *method, json_t *params,
                    const struct mcp_server_asker *asker, void *ctx, int64_t *id);
void mcp_server_cancel(struct mcp_server *server, int64_t id, const char *reason);

const struct plan *mcp_server_plan(const struct mcp_server *server);
json_t *mcp_server_items(const struct mcp_server *server, enum mcp_server_list list); /* borrowed */
bool mcp_server_is_installing(const struct mcp_server *server);
bool mcp_server_can(const struct mcp_server *server, const char *capability);
bool mcp_server_can_subscribe(const struct mcp_server *server);
const char *mcp_server_instructions(const struct mcp_server *server); /* "": none */
struct str mcp_server_said(const struct mcp_server *server);          /* last, on standard error */

#endif
