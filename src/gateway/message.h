/* message.h - JSON-RPC 2.0, as MCP uses it. Parameters that are handed in are stolen. */
#ifndef GATEWAY_MESSAGE_H
#define GATEWAY_MESSAGE_H

#include <jansson.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/compiler.h"

enum {
    MESSAGE_BYTES_MAX = 16 * 1024 * 1024,

    MESSAGE_PARSE_ERROR = -32700,
    MESSAGE_INVALID = -32600,
    MESSAGE_NO_METHOD = -32601,
    MESSAGE_BAD_PARAMS = -32602,
    MESSAGE_INTERNAL = -32603,
    MESSAGE_NO_RESOURCE = -32002,
};

enum message_kind { MESSAGE_NONE, MESSAGE_REQUEST, MESSAGE_NOTIFICATION, MESSAGE_RESPONSE };

enum message_kind message_kind(const json_t *message);

json_t *message_request(int64_t id, const char *method, json_t *params);
json_t *message_notification(const char *method, json_t *params);
json_t *message_result(json_t *id, json_t *result); /* the id is shared */
json_t *message_error(json_t *id, int code, const char *fmt, ...) printf_like(3, 4);

/* Appends it as one line without its end. */
must_check int message_write(struct buf *out, const json_t *message);

/* The member's text, or "" when there is none or it is no string. Borrowed. */
const char *message_text(const json_t *object, const char *name);

#endif
