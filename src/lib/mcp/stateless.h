/* stateless.h - checks requests and completes results of the revisions without sessions. Pure. */
#ifndef MCP_STATELESS_H
#define MCP_STATELESS_H

#include <jansson.h>
#include <stdint.h>

#include "lib/base/err.h"
#include "lib/base/str.h"
#include "lib/http/http.h"
#include "lib/mcp/jsonrpc.h"
#include "lib/mcp/version.h"

#define MCP_META                                                                                   \
    "io.modelcontextprotocol/" /* begins the members of _meta that are the protocol's */

enum {
    MCP_HEADER_MISMATCH = -32020,
    MCP_UNSUPPORTED_VERSION = -32022,
    STATELESS_HEADER_BYTES_MAX = 64 * 1024,
};

/* Finds the revision of a message, from the header or from its metadata; without either it is one
 * with sessions. False: *asked is not spoken here. */
bool stateless_version(struct str header, const json_t *message, enum mcp_version *out,
                       struct str *asked);

/* Checks that a request is complete and that its headers agree with it: a proxy before the server
 * may have read the headers only. 0, or JSON-RPC's code with the sentence. */
must_check int stateless_check(const struct jsonrpc_message *request,
                               const struct http_request *head, struct err *err);

/* Completes a result. server: {"name", "version"}, taken over. ttl_ms: how long a client may cache
 * it; -1: it must not be cached. */
void stateless_result(json_t *result, json_t *server, int64_t ttl_ms);

#endif
