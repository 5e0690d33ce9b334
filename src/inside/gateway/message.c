#include "inside/gateway/message.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

json_t *message_request(int64_t id, const char *method, json_t *params)
{
    json_t *message = jsonrpc_notification(method, params);

    (void)json_object_set_new(message, "id", json_integer(id));
    return message;
}

json_t *message_error(json_t *id, int code, const char *fmt, ...)
{
    char sentence[JSON_SENTENCE_BYTES_MAX];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(sentence, sizeof(sentence), fmt, ap);
    va_end(ap);
    return jsonrpc_error(id, code, sentence, NULL);
}

static int on_dump(const char *bytes, size_t len, void *out)
{
    return buf_append(out, bytes, len);
}

int message_write(struct buf *out, const json_t *message)
{
    return json_dump_callback(message, on_dump, out, JSON_COMPACT) < 0 ? -ENOBUFS : 0;
}
