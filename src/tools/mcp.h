/* mcp.h - the catalogue as a server of the Model Context Protocol, at /mcp.
 *
 *      POST ─► who asks ─► one message, or a batch ─┬─► answered at once: JSON
 *      GET ──► a stream of a session                └─► tools/call ─► a call ─► JSON, or events
 *      DELETE ► the end of a session                                    │
 *                                                    progress, the answer, a way to take it up
 * again
 *
 * Owns:     the sessions, the sandboxes that are tied to them, the answers that are not sent yet.
 * Needs:    the tools: authentication, and calls.
 * Blocks:   never.
 * Threads:  the loop's.
 *
 * docs/internals/mcp.md has the revisions that are spoken and what each changes.
 */
#ifndef TOOLS_MCP_H
#define TOOLS_MCP_H

#include "lib/http/http.h"

struct mcp;
struct tools;

struct mcp *mcp_new(struct tools *tools);

/* Whether pages of that origin may use MCP: those of this machine and of the operator's domain.
 * domain NULL: there is none. Pure. */
bool mcp_origin_allowed(struct str origin, const char *domain);

/* Takes every exchange whose path is /mcp. */
void mcp_handle(struct mcp *mcp, struct http_exchange *ex);

/* Ends the streams, so that the server can stop. Sessions are forgotten, and their sandboxes end
 * with their own timeouts: a daemon that stops leaves sandboxes running. */
void mcp_stop(struct mcp *mcp);

/* The loop must run once more, for libuv to close its timer. Accepts NULL. */
void mcp_free(struct mcp *mcp);

#endif
