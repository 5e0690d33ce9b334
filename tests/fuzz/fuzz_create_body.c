/* Bodies of creates from arbitrary bytes: parsed and checked in both versions. What is taken must
 * keep what create_body.h promises; what is refused must come with a sentence. */
#include <stdint.h>
#include <stdlib.h>

#include "serve/api/create_body.h"
#include "serve/api/fields.h"
#include "serve/sandbox/sandbox.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool ok)
{
    if (!ok) {
        abort();
    }
}

static void check_map(const json_t *map, size_t entries)
{
    check(!map || json_object_size(map) <= entries);
    json_each (map, it) {
        check(json_is_string(json_object_iter_value(it)));
    }
}

static void check_create(const json_t *body, enum create_version version)
{
    scoped_create_body create = {0};
    struct err err = {0};

    if (create_body_parse(body, version, SANDBOX_TIMEOUT_S_MAX, &create, &err) < 0) {
        check(err.code != 0 && err.msg[0] != '\0' && !create.options);
        return;
    }
    check(create.template_name && json_is_object(create.options));
    check(create.timeout_ms >= 1000 && create.timeout_ms <= SANDBOX_TIMEOUT_S_MAX * 1000LL);
    check(version == CREATE_V1 || create.secure);
    check_map(create.metadata, CREATE_METADATA_ENTRIES_MAX);
    check_map(create.env_vars, CREATE_ENV_ENTRIES_MAX);
    char *text = json_dumps(create.options, JSON_COMPACT); /* what the store is given */
    check(text != NULL);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    scoped_json *body = NULL;
    struct err err = {0};

    if (body_parse((struct str){(const char *)data, size}, false, &body, &err) < 0) {
        check(err.code != 0 && err.msg[0] != '\0');
        return 0;
    }
    check_create(body, CREATE_V1);
    check_create(body, CREATE_V2);
    return 0;
}
