#include "serve/api/fields.h"

#include <errno.h>

int field_refuse(struct err *err, const char *name, const char *what)
{
    return err_set(err, EINVAL, "validation error: %s must be %s", name, what);
}

/* NULL when absent or null: both mean that the client did not say. */
static const json_t *field_get(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);

    return json_is_null(value) ? NULL : value;
}

int field_bool(const json_t *object, const char *name, bool *out, struct err *err)
{
    const json_t *value = field_get(object, name);

    if (!value) {
        return 0;
    }
    if (!json_is_boolean(value)) {
        return field_refuse(err, name, "true or false");
    }
    *out = json_is_true(value);
    return 0;
}

int field_int(const json_t *object, const char *name, struct int_range range, int64_t *out,
              struct err *err)
{
    const json_t *value = field_get(object, name);

    if (!value) {
        return 0;
    }
    if (!json_is_integer(value)) {
        return field_refuse(err, name, "an integer");
    }
    int64_t number = json_integer_value(value);
    if (number < range.min || number > range.max) {
        return err_set(err, EINVAL, "validation error: %s must be between %lld and %lld", name,
                       (long long)range.min, (long long)range.max);
    }
    *out = number;
    return 0;
}

int field_string(const json_t *object, const char *name, const char **out, struct err *err)
{
    const json_t *value = field_get(object, name);

    if (!value) {
        return 0;
    }
    if (!json_is_string(value)) {
        return field_refuse(err, name, "a string");
    }
    *out = json_string_value(value);
    return 0;
}

int field_object(const json_t *object, const char *name, const json_t **out, struct err *err)
{
    const json_t *value = field_get(object, name);

    if (!value) {
        return 0;
    }
    if (!json_is_object(value)) {
        return field_refuse(err, name, "an object");
    }
    *out = value;
    return 0;
}

int field_array(const json_t *object, const char *name, const json_t **out, struct err *err)
{
    const json_t *value = field_get(object, name);

    if (!value) {
        return 0;
    }
    if (!json_is_array(value)) {
        return field_refuse(err, name, "an array");
    }
    *out = value;
    return 0;
}

int field_string_map(const json_t *object, const char *name, size_t entries, size_t bytes,
                     const json_t **out, struct err *err)
{
    const json_t *map = NULL;
    size_t total = 0;
    int r = field_object(object, name, &map, err);

    if (r < 0 || !map) {
        return r;
    }
    if (json_object_size(map) > entries) {
        return err_set(err, EINVAL, "validation error: %s has %zu entries, at most %zu may be",
                       name, json_object_size(map), entries);
    }
    json_each (map, it) {
        const json_t *value = json_object_iter_value(it);

        if (!json_is_string(value)) {
            return err_set(err, EINVAL, "validation error: %s.%s must be a string", name,
                           json_object_iter_key(it));
        }
        total += strlen(json_object_iter_key(it)) + json_string_length(value);
    }
    if (total > bytes) {
        return err_set(err, EINVAL, "validation error: %s has %zu bytes, at most %zu may be", name,
                       total, bytes);
    }
    *out = map;
    return 0;
}
