/* Schemas and values from arbitrary bytes: the first line is a schema, the rest a value. A schema
 * that is supported checks any value without harm; the value is also an input of every tool, where
 * what was taken once is taken again, unchanged. */
#include <stdint.h>
#include <stdlib.h>

#include "serve/api/fields.h"
#include "tools/schema.h"
#include "tools/tool.h"

enum { TOOLS_MAX = 128 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool ok)
{
    if (!ok) {
        abort();
    }
}

static bool takes(const json_t *schema, json_t *value)
{
    struct err err = {0};

    if (schema_check(schema, value, &err) < 0) {
        check(err.code != 0 && err.msg[0] != '\0');
        return false;
    }
    return true;
}

static void check_schema(struct str text, const json_t *value)
{
    scoped_json *schema = json_loadb(text.at, text.len, 0, NULL);
    scoped_json *copy = json_deep_copy(value);
    struct err err = {0};

    if (!schema) {
        return;
    }
    if (schema_supported(schema, &err) < 0) {
        check(err.code != 0 && err.msg[0] != '\0');
    } else {
        (void)takes(schema, copy);
    }
}

static void check_tool(size_t i, const json_t *value)
{
    static json_t *schemas[TOOLS_MAX];
    scoped_json *input = json_deep_copy(value);

    if (!schemas[i]) {
        schemas[i] = json_loads(tools_catalogue[i].input, 0, NULL);
    }
    const json_t *schema = schemas[i];
    if (takes(schema, input)) {
        scoped_json *once = json_deep_copy(input);
        check(json_is_object(input) && takes(schema, input) && json_equal(once, input));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str all = {(const char *)data, size};
    size_t line = str_find(all, '\n');
    struct str rest = str_skip(all, line + 1);
    scoped_json *value = json_loadb(rest.at ? rest.at : "", rest.len, JSON_DECODE_ANY, NULL);

    if (!value) {
        return 0;
    }
    check_schema((struct str){all.at, line}, value);
    for (size_t i = 0; i < tools_catalogue_n && i < TOOLS_MAX; i++) {
        check_tool(i, value);
    }
    return 0;
}
