/* schema_words.c - whether schema.c knows every word of a schema, and each means something. */
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "lib/base/json.h"
#include "tools/schema.h"

enum { SCHEMA_DEPTH_MAX = 16 };

static int supported(const json_t *schema, unsigned depth, struct err *err);

static bool is_type(const json_t *type)
{
    static const char *const types[] = {"object", "array",   "string", "integer",
                                        "number", "boolean", "null"};

    for (size_t i = 0; json_is_string(type) && i < countof(types); i++) {
        if (strcmp(json_string_value(type), types[i]) == 0) {
            return true;
        }
    }
    return false;
}

static bool are_types(const json_t *types)
{
    bool good = json_array_size(types) > 0;

    for (size_t i = 0; i < json_array_size(types); i++) {
        good = good && is_type(json_array_get(types, i));
    }
    return good || is_type(types);
}

static bool is_text(const json_t *value)
{
    return json_is_string(value);
}

static bool is_number(const json_t *value)
{
    return json_is_number(value);
}

static bool is_size(const json_t *value)
{
    return json_is_integer(value) && json_integer_value(value) >= 0;
}

static bool is_list(const json_t *value)
{
    return json_array_size(value) > 0;
}

static bool is_names(const json_t *value)
{
    for (size_t i = 0; i < json_array_size(value); i++) {
        if (!json_is_string(json_array_get(value, i))) {
            return false;
        }
    }
    return json_is_array(value);
}

static bool is_any(const json_t *value)
{
    return value;
}

static const struct word {
    const char *name;
    bool (*good)(const json_t *value);
} words[] = {
    {"type", are_types},      {"required", is_names}, {"enum", is_list},
    {"const", is_any},        {"default", is_any},    {"minimum", is_number},
    {"maximum", is_number},   {"minLength", is_size}, {"maxLength", is_size},
    {"minItems", is_size},    {"maxItems", is_size},  {"title", is_text},
    {"description", is_text}, {"examples", is_list},  {"format", is_text},
    {"x-separator", is_text}, {"x-names", is_names},  {"x-values", is_any}, /* text_forms.h */
    {"x-unused", is_names},
};

static int supported_word(const char *name, const json_t *value, struct err *err)
{
    for (size_t i = 0; i < countof(words); i++) {
        if (strcmp(words[i].name, name) == 0) {
            return words[i].good(value) ? 0
                                        : err_set(err, EINVAL, "%s: has no meaning as it is", name);
        }
    }
    return err_set(err, EINVAL, "%s: is not a word that schemas here know", name);
}

static int supported_below(const char *name, const json_t *schema, unsigned depth, struct err *err)
{
    int r = supported(schema, depth + 1, err);

    return r < 0 ? err_wrap(err, "%s", name) : 0;
}

static int supported_each(const char *name, const json_t *many, unsigned depth, struct err *err)
{
    int r = 0;

    if (!json_is_object(many) && json_array_size(many) == 0) {
        return err_set(err, EINVAL, "%s: has no meaning as it is", name);
    }
    for (size_t i = 0; r == 0 && i < json_array_size(many); i++) {
        r = supported_below(name, json_array_get(many, i), depth, err);
    }
    json_each (many, it) {
        r = r == 0
                ? supported_below(json_object_iter_key(it), json_object_iter_value(it), depth, err)
                : r;
    }
    return r;
}

static int supported_entry(const char *name, const json_t *value, unsigned depth, struct err *err)
{
    if (strcmp(name, "properties") == 0 || strcmp(name, "anyOf") == 0) {
        return supported_each(name, value, depth, err);
    }
    if (strcmp(name, "items") == 0) {
        return supported_below(name, value, depth, err);
    }
    if (strcmp(name, "additionalProperties") == 0) {
        return json_is_boolean(value) ? 0 : supported_below(name, value, depth, err);
    }
    return supported_word(name, value, err);
}

/* A default must itself be valid. */
static int supported_default(const json_t *schema, struct err *err)
{
    const json_t *standard = json_object_get(schema, "default");

    if (!standard) {
        return 0;
    }
    scoped_json *copy = json_deep_copy(standard);
    int r = schema_check(schema, copy, err);
    return r < 0 ? err_wrap(err, "default") : 0;
}

static int supported(const json_t *schema, unsigned depth, struct err *err)
{
    if (!json_is_object(schema) || depth > SCHEMA_DEPTH_MAX) {
        return err_set(err, EINVAL, "a schema is an object, and nested at most %d deep",
                       SCHEMA_DEPTH_MAX);
    }
    int r = 0;
    json_each (schema, it) {
        r = r == 0
                ? supported_entry(json_object_iter_key(it), json_object_iter_value(it), depth, err)
                : r;
    }
    return r == 0 ? supported_default(schema, err) : r;
}

int schema_supported(const json_t *schema, struct err *err)
{
    return supported(schema, 0, err);
}
