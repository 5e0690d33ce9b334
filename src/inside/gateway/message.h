/* message.h - small help with JSON-RPC messages (lib/mcp/jsonrpc.h), for both sides of the gateway.
 */
#ifndef GATEWAY_MESSAGE_H
#define GATEWAY_MESSAGE_H

#include <jansson.h>
#include <stdint.h>

#include "lib/base/buf.h"
#include "lib/base/compiler.h"
#include "lib/base/json.h"
#include "lib/mcp/jsonrpc.h"

enum {
    MESSAGE_BYTES_MAX = 16 * 1024 * 1024,
    MESSAGE_NO_RESOURCE = -32002, /* MCP's own, of the revisions with sessions */
};

json_t *message_request(int64_t id, const char *method, json_t *params); /* takes the parameters */
json_t *message_error(json_t *id, int code, const char *fmt, ...) printf_like(3, 4);

/* Appends it as one line without its end. */
must_check int message_write(struct buf *out, const json_t *message);

#endif
