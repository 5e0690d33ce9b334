#include "gateway/message.h"

#include <errno.h>
#include <stdarg.h>

enum message_kind message_kind(const json_t *message)
{
    const json_t *id = json_object_get(message, "id");
    const json_t *method = json_object_get(message, "method");

    if (json_is_string(method)) {
        return !id                                         ? MESSAGE_NOTIFICATION
               : json_is_string(id) || json_is_integer(id) ? MESSAGE_REQUEST
                                                           : MESSAGE_NONE;
    }
    return !method && (json_object_get(message, "result") || json_object_get(message, "error"))
               ? MESSAGE_RESPONSE
               : MESSAGE_NONE;
}

static json_t *message_new(void)
{
    return json_pack("{s:s}", "jsonrpc", "2.0");
}

json_t *message_notification(const char *method, json_t *params)
{
    json_t *message = message_new();

    (void)json_object_set_new(message, "method", json_string(method));
    if (params) {
        (void)json_object_set_new(message, "params", params);
    }
    return message;
}

json_t *message_request(int64_t id, const char *method, json_t *params)
{
    json_t *message = message_notification(method, params);

    (void)json_object_set_new(message, "id", json_integer(id));
    return message;
}

static json_t *answer_new(json_t *id)
{
    json_t *message = message_new();

    (void)json_object_set_new(message, "id", id ? json_incref(id) : json_null());
    return message;
}

json_t *message_result(json_t *id, json_t *result)
{
    json_t *message = answer_new(id);

    (void)json_object_set_new(message, "result", result);
    return message;
}

json_t *message_error(json_t *id, int code, const char *fmt, ...)
{
    va_list ap;
    json_t *message = answer_new(id);

    va_start(ap, fmt);
    json_t *text = json_vsprintf(fmt, ap);
    va_end(ap);
    if (!text) { /* what was put in is no UTF-8 */
        text = json_string("the reason cannot be shown: it is no UTF-8");
    }
    (void)json_object_set_new(message, "error",
                              json_pack("{s:i, s:o}", "code", code, "message", text));
    return message;
}

static int on_dump(const char *bytes, size_t len, void *out)
{
    return buf_append(out, bytes, len);
}

int message_write(struct buf *out, const json_t *message)
{
    return json_dump_callback(message, on_dump, out, JSON_COMPACT) < 0 ? -ENOBUFS : 0;
}

const char *message_text(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));

    return text ? text : "";
}
