/* Messages of MCP clients from arbitrary bytes. What is taken must keep what jsonrpc.h promises,
 * and every answer to it can be written; what is refused must come with a sentence. */
#include <stdint.h>
#include <stdlib.h>

#include "lib/mcp/jsonrpc.h"
#include "serve/api/fields.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool ok)
{
    if (!ok) {
        abort();
    }
}

static void check_answer(json_t *answer)
{
    char *text = json_dumps(answer, JSON_COMPACT);

    check(text != NULL && strchr(text, '\n') == NULL); /* one line of stdio, one event */
    free(text);
    json_decref(answer);
}

static void check_message(json_t *json)
{
    struct jsonrpc_message message;
    struct err err = {0};

    if (jsonrpc_read(json, &message, &err) < 0) {
        check(err.code != 0 && err.msg[0] != '\0');
        check_answer(jsonrpc_error(message.id, JSONRPC_INVALID_REQUEST, err.msg, NULL));
        return;
    }
    check(!message.id || json_is_integer(message.id) || json_is_string(message.id));
    check((message.kind == JSONRPC_RESPONSE) == (message.method == NULL));
    check(message.kind != JSONRPC_REQUEST || message.id);
    check(!message.params || json_is_object(message.params));
    if (message.kind == JSONRPC_REQUEST) {
        check_answer(jsonrpc_result(message.id, json_object()));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    scoped_json *json = NULL;
    struct err err = {0};

    if (jsonrpc_parse((struct str){(const char *)data, size}, &json, &err) < 0) {
        check(err.code != 0 && err.msg[0] != '\0');
        return 0;
    }
    check_message(json);
    for (size_t i = 0; i < json_array_size(json); i++) {
        check_message(json_array_get(json, i));
    }
    return 0;
}
