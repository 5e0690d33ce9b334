#include "lib/mcp/jsonrpc.h"

#include <errno.h>

#include "lib/base/json.h"
#include "lib/base/json_text.h"

int jsonrpc_parse(struct str text, json_t **out, struct err *err)
{
    json_error_t why;

    if (json_text_values(text) > JSON_TEXT_VALUES_MAX) {
        return err_set(err, EINVAL, "the message has more than %d values", JSON_TEXT_VALUES_MAX);
    }
    json_t *json = json_loadb(text.at ? text.at : "", text.len, JSON_REJECT_DUPLICATES, &why);

    if (!json) {
        return err_set(err, EINVAL, "not valid JSON: %s (line %d, column %d)", why.text, why.line,
                       why.column);
    }
    *out = json;
    return 0;
}

static bool is_id(const json_t *id)
{
    return json_is_integer(id) ||
           (json_is_string(id) && json_string_length(id) <= JSONRPC_ID_BYTES_MAX);
}

static int read_call(const json_t *json, struct jsonrpc_message *out, struct err *err)
{
    const json_t *method = json_object_get(json, "method");
    json_t *params = json_object_get(json, "params");

    if (!json_is_string(method) || json_string_length(method) == 0 ||
        json_string_length(method) > JSONRPC_METHOD_BYTES_MAX) {
        return err_set(err, EINVAL, "method: must be a string of 1 to %d bytes",
                       JSONRPC_METHOD_BYTES_MAX);
    }
    if (params && !json_is_object(params)) {
        return err_set(err, EINVAL, "params: must be an object");
    }
    out->kind = out->id ? JSONRPC_REQUEST : JSONRPC_NOTIFICATION;
    out->method = json_string_value(method);
    out->params = params;
    return 0;
}

int jsonrpc_read(json_t *json, struct jsonrpc_message *out, struct err *err)
{
    json_t *id = json_object_get(json, "id");
    const char *version = json_string_value(json_object_get(json, "jsonrpc"));

    *out = (struct jsonrpc_message){.id = is_id(id) ? id : NULL};
    if (!json_is_object(json)) {
        return err_set(err, EINVAL, "a message must be a JSON object");
    }
    if (!version || strcmp(version, "2.0") != 0) {
        return err_set(err, EINVAL, "jsonrpc: must be \"2.0\"");
    }
    if (id && !out->id) {
        return err_set(err, EINVAL, "id: must be an integer or a string of at most %d bytes",
                       JSONRPC_ID_BYTES_MAX);
    }
    if (json_object_get(json, "method")) {
        return read_call(json, out, err);
    }
    if (!id || !json_object_get(json, "result") == !json_object_get(json, "error")) {
        return err_set(err, EINVAL,
                       "method: is missing, and an answer has an id and either result or error");
    }
    out->kind = JSONRPC_RESPONSE;
    return 0;
}

static json_t *message_new(void)
{
    json_t *message = json_object();

    (void)json_object_set_new(message, "jsonrpc", json_string("2.0"));
    return message;
}

json_t *jsonrpc_result(json_t *id, json_t *result)
{
    json_t *message = message_new();

    (void)json_object_set(message, "id", id);
    (void)json_object_set_new(message, "result", result);
    return message;
}

json_t *jsonrpc_error(json_t *id, int code, const char *message, json_t *data)
{
    json_t *answer = message_new(), *error = json_object();

    (void)json_object_set_new(answer, "id", id ? json_incref(id) : json_null());
    (void)json_object_set_new(error, "code", json_integer(code));
    (void)json_object_set_new(error, "message", json_sentence(message));
    if (data) {
        (void)json_object_set_new(error, "data", data);
    }
    (void)json_object_set_new(answer, "error", error);
    return answer;
}

json_t *jsonrpc_notification(const char *method, json_t *params)
{
    json_t *message = message_new();

    (void)json_object_set_new(message, "method", json_string(method));
    if (params) {
        (void)json_object_set_new(message, "params", params);
    }
    return message;
}
