#include "lib/mcp/refusal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/mcp/stateless.h"

void mcp_refuse(struct http_exchange *ex, int status, int code, const char *sentence)
{
    json_t *message = jsonrpc_error(NULL, code, sentence, NULL);
    char *text = json_dumps(message, JSON_COMPACT);

    http_answer(ex, status, "application/json", text, text ? strlen(text) : 0);
    free(text);
    json_decref(message);
}

json_t *mcp_version_error(json_t *id, struct str requested)
{
    return jsonrpc_error(id, MCP_UNSUPPORTED_VERSION,
                         "this revision of the protocol is not supported",
                         version_error_data(requested));
}

void mcp_stream_begin(struct http_exchange *ex, const char *session_id)
{
    const struct http_header headers[] = {
        {STR("content-type"), STR("text/event-stream")},
        {STR("cache-control"), STR("no-cache, no-transform")},
        {STR("x-accel-buffering"), STR("no")}, /* for proxies that would gather it */
        {STR("mcp-session-id"), str_of(session_id)},
    };

    http_respond(ex, 200, headers, countof(headers) - !session_id, -1);
}

void mcp_stream_keep_alive(struct http_exchange *ex)
{
    static const char comment[] = ":\n\n";

    if (http_writable(ex) >= strlen(comment)) {
        http_write(ex, comment, strlen(comment));
    }
}

bool mcp_method_is(const struct mcp_method *method, const char *name, enum mcp_version version)
{
    return strcmp(method->name, name) == 0 &&
           (version_is_stateless(version) ? method->in_stateless : method->in_sessions);
}

json_t *mcp_method_error(const struct jsonrpc_message *message)
{
    char sentence[JSONRPC_METHOD_BYTES_MAX + 32];

    (void)snprintf(sentence, sizeof(sentence), "there is no method '%s'", message->method);
    return jsonrpc_error(message->id, JSONRPC_METHOD_NOT_FOUND, sentence, NULL);
}
