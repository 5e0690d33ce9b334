/* refusal.h - HTTP answers that both MCP servers give: refusals, and the heads of event streams.
 *
 * Owns: nothing. Blocks: never. Threads: the loop's.
 */
#ifndef MCP_REFUSAL_H
#define MCP_REFUSAL_H

#include <jansson.h>

#include "lib/http/http.h"
#include "lib/mcp/jsonrpc.h"
#include "lib/mcp/version.h"

struct mcp_refusal {
    int status; /* of HTTP */
    int code;   /* of JSON-RPC */
    const char *sentence;
};

/* Refuses an exchange that was not accepted: its body is not read. */
void mcp_refuse(struct http_exchange *ex, int status, int code, const char *sentence);

/* The answer to a message in a revision that is not spoken here. */
json_t *mcp_version_error(json_t *id, struct str requested);

/* Begins the answer as a stream of events. session_id NULL: the answer names no session. */
void mcp_stream_begin(struct http_exchange *ex, const char *session_id);

/* Writes an empty comment, so that no proxy takes the stream for dead. Leaves it out when the
 * client does not read. */
void mcp_stream_keep_alive(struct http_exchange *ex);

/* A row of a server's table of methods. */
struct mcp_method {
    const char *name;
    bool in_sessions, in_stateless; /* the revisions that have it */
};

bool mcp_method_is(const struct mcp_method *method, const char *name, enum mcp_version version);
json_t *mcp_method_error(const struct jsonrpc_message *message); /* there is no such method */

#endif
