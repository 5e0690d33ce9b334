/* jsonrpc.h - reads and writes JSON-RPC 2.0 messages as MCP uses them. Pure. */
#ifndef MCP_JSONRPC_H
#define MCP_JSONRPC_H

#include <jansson.h>

#include "lib/base/compiler.h"
#include "lib/base/err.h"
#include "lib/base/str.h"

enum {
    JSONRPC_PARSE_ERROR = -32700,
    JSONRPC_INVALID_REQUEST = -32600,
    JSONRPC_METHOD_NOT_FOUND = -32601,
    JSONRPC_INVALID_PARAMS = -32602,
    JSONRPC_INTERNAL_ERROR = -32603,

    JSONRPC_METHOD_BYTES_MAX = 128,
    JSONRPC_ID_BYTES_MAX = 256,
};

enum jsonrpc_kind { JSONRPC_REQUEST, JSONRPC_NOTIFICATION, JSONRPC_RESPONSE };

struct jsonrpc_message { /* borrows from the JSON it was read from */
    enum jsonrpc_kind kind;
    json_t *id;         /* a string or an integer; NULL: a notification */
    const char *method; /* NULL: a response */
    json_t *params;     /* an object; NULL: there are none */
};

/* -EINVAL with a sentence that tells where it stops being JSON, or that it has more than
 * JSON_TEXT_VALUES_MAX values. *out is the caller's. */
must_check int jsonrpc_parse(struct str text, json_t **out, struct err *err);

/* -EINVAL with the name of the member that is wrong. A valid id is set even then. */
must_check int jsonrpc_read(json_t *json, struct jsonrpc_message *out, struct err *err);

/* Each is the caller's; result, data and params are taken over. id NULL: it could not be read. */
json_t *jsonrpc_result(json_t *id, json_t *result);
json_t *jsonrpc_error(json_t *id, int code, const char *message, json_t *data);
json_t *jsonrpc_notification(const char *method, json_t *params);

#endif
