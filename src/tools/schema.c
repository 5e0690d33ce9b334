/* schema.c - one walk over schema and value side by side. */
#include "tools/schema.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/json.h"
#include "lib/base/utf8.h"
#include "tools/nearest.h"
#include "tools/tool.h"

#define INTEGER_EXACT_MAX 0x1p53 /* a double is exact up to here */

enum {
    PATH_BYTES = 128,
    TYPES_BYTES = 96,
    SHOWN_BYTES = 48, /* of a value that is quoted in a sentence */
};

/* Where the walk is, and what it has found. Without faults it only tells whether a value fits: that
 * is how anyOf tries its branches, and then nothing is filled in. */
struct walk {
    struct err *faults;
    size_t found;
    size_t used; /* of faults->msg */
    char path[PATH_BYTES];
    size_t path_len;
};

static bool check(struct walk *walk, const json_t *schema, json_t *value);

/* ---- faults ---- */

static bool fault(struct walk *walk, const char *fmt, ...) printf_like(2, 3);
static bool fault(struct walk *walk, const char *fmt, ...)
{
    char text[sizeof(walk->faults->msg)];
    va_list ap;

    walk->found++;
    if (!walk->faults) {
        return false;
    }
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    size_t room = sizeof(walk->faults->msg) - walk->used;
    int n = snprintf(walk->faults->msg + walk->used, room, "%s%s%s%s", walk->used ? "; " : "",
                     walk->path, walk->path_len ? ": " : "", text);
    if ((size_t)n >= room) {
        memcpy(walk->faults->msg + sizeof(walk->faults->msg) - 4, "...", 4);
        walk->used = sizeof(walk->faults->msg) - 1;
    } else {
        walk->used += (size_t)n;
    }
    return false;
}

/* Further faults are not reported: the sentence is full, or one fault was enough. A value may have
 * millions of items. */
static bool is_told(const struct walk *walk)
{
    return walk->faults ? walk->used == sizeof(walk->faults->msg) - 1 : walk->found > 0;
}

static void path_push(struct walk *walk, const char *fmt, ...) printf_like(2, 3);
static void path_push(struct walk *walk, const char *fmt, ...)
{
    size_t room = sizeof(walk->path) - walk->path_len;
    va_list ap;

    va_start(ap, fmt);
    int n = vsnprintf(walk->path + walk->path_len, room, fmt, ap);
    va_end(ap);
    walk->path_len += (size_t)n < room ? (size_t)n : room - 1;
}

static void path_pop(struct walk *walk, size_t len)
{
    walk->path_len = len;
    walk->path[len] = '\0';
}

static void push_name(struct walk *walk, const char *name)
{
    path_push(walk, "%s%.*s", walk->path_len ? "." : "", SHOWN_BYTES, name);
}

/* ---- types ---- */

static bool is_whole(const json_t *value)
{
    double real = json_real_value(value);

    return json_is_real(value) && floor(real) == real && fabs(real) <= INTEGER_EXACT_MAX;
}

static bool is_of_type(const json_t *value, const char *type)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return strcmp(type, "object") == 0;
    case JSON_ARRAY:
        return strcmp(type, "array") == 0;
    case JSON_STRING:
        return strcmp(type, "string") == 0;
    case JSON_INTEGER:
        return strcmp(type, "integer") == 0 || strcmp(type, "number") == 0;
    case JSON_REAL:
        return strcmp(type, "number") == 0 || (strcmp(type, "integer") == 0 && is_whole(value));
    case JSON_TRUE:
    case JSON_FALSE:
        return strcmp(type, "boolean") == 0;
    case JSON_NULL:
        return strcmp(type, "null") == 0;
    }
    return false;
}

/* The types of a schema: a name, or a list of names. */
static const char *type_at(const json_t *types, size_t i)
{
    return json_string_value(json_is_array(types) ? json_array_get(types, i) : types);
}

static size_t types_count(const json_t *types)
{
    return json_is_array(types) ? json_array_size(types) : types ? 1 : 0;
}

static bool has_type(const json_t *schema, const json_t *value)
{
    const json_t *types = json_object_get(schema, "type");

    for (size_t i = 0; i < types_count(types); i++) {
        if (is_of_type(value, type_at(types, i))) {
            return true;
        }
    }
    return !types;
}

/* "a string", "an integer or null". */
static void types_append(const json_t *schema, char out[TYPES_BYTES])
{
    const json_t *types = json_object_get(schema, "type");

    for (size_t i = 0; i < types_count(types); i++) {
        const char *type = type_at(types, i);
        size_t len = strlen(out);
        const char *article = strcmp(type, "null") == 0 ? ""
                              : strchr("aio", type[0])  ? "an "
                                                        : "a ";

        (void)snprintf(out + len, TYPES_BYTES - len, "%s%s%s", len ? " or " : "", article, type);
    }
}

/* ---- a single value ---- */

static void shown(const json_t *value, char out[SHOWN_BYTES])
{
    if (json_is_string(value)) {
        (void)snprintf(out, SHOWN_BYTES, "\"%s\"", json_string_value(value));
    } else if (json_is_integer(value)) {
        (void)snprintf(out, SHOWN_BYTES, "%lld", (long long)json_integer_value(value));
    } else if (json_is_real(value)) {
        (void)snprintf(out, SHOWN_BYTES, "%g", json_real_value(value));
    } else {
        (void)snprintf(out, SHOWN_BYTES, "%s",
                       json_is_true(value)    ? "true"
                       : json_is_false(value) ? "false"
                                              : "null");
    }
}

static bool check_enum(struct walk *walk, const json_t *schema, const json_t *value)
{
    const json_t *choices = json_object_get(schema, "enum");
    const json_t *only = json_object_get(schema, "const");
    struct nearest nearest = {.word = {json_string_value(value), json_string_length(value)}};
    char list[PATH_BYTES] = "", one[SHOWN_BYTES];

    if (only && !json_equal(only, value)) {
        shown(only, one);
        return fault(walk, "must be %s", one);
    }
    for (size_t i = 0; i < json_array_size(choices); i++) {
        const json_t *choice = json_array_get(choices, i);
        size_t len = strlen(list);

        if (json_equal(choice, value)) {
            return true;
        }
        shown(choice, one);
        (void)snprintf(list + len, sizeof(list) - len, "%s%s", len ? ", " : "", one);
        if (nearest.word.at && json_is_string(choice)) {
            nearest_offer(&nearest, json_string_value(choice));
        }
    }
    if (!choices) {
        return true;
    }
    return nearest.best ? fault(walk, "must be one of %s; did you mean \"%s\"?", list, nearest.best)
                        : fault(walk, "must be one of %s", list);
}

static bool check_number(struct walk *walk, const json_t *schema, const json_t *value)
{
    const json_t *min = json_object_get(schema, "minimum");
    const json_t *max = json_object_get(schema, "maximum");
    double number = json_number_value(value);

    if (min && number < json_number_value(min)) {
        return fault(walk, "must be at least %.15g", json_number_value(min));
    }
    if (max && number > json_number_value(max)) {
        return fault(walk, "must be at most %.15g", json_number_value(max));
    }
    return true;
}

static bool check_size(struct walk *walk, const json_t *schema, size_t size, const char *least,
                       const char *most, const char *what)
{
    const json_t *min = json_object_get(schema, least);
    const json_t *max = json_object_get(schema, most);

    if (min && size < (size_t)json_integer_value(min)) {
        return size == 0 ? fault(walk, "must not be empty")
                         : fault(walk, "must have at least %lld %s",
                                 (long long)json_integer_value(min), what);
    }
    if (max && size > (size_t)json_integer_value(max)) {
        return fault(walk, "must have at most %lld %s", (long long)json_integer_value(max), what);
    }
    return true;
}

/* 5.0 is an integer too, and becomes 5. NULL: the value stays as it is. */
static json_t *normalised(const json_t *schema, const json_t *value)
{
    return is_whole(value) && has_type(schema, value) &&
                   strcmp(type_at(json_object_get(schema, "type"), 0) ?: "", "integer") == 0
               ? json_integer((json_int_t)json_real_value(value))
               : NULL;
}

static bool check_items(struct walk *walk, const json_t *schema, json_t *value)
{
    const json_t *items = json_object_get(schema, "items");
    bool fits = check_size(walk, schema, json_array_size(value), "minItems", "maxItems", "items");

    for (size_t i = 0; items && i < json_array_size(value) && !is_told(walk); i++) {
        size_t len = walk->path_len;
        json_t *whole = normalised(items, json_array_get(value, i));

        if (whole && walk->faults) {
            (void)json_array_set(value, i, whole);
        }
        json_decref(whole);
        path_push(walk, "[%zu]", i);
        fits = check(walk, items, json_array_get(value, i)) && fits;
        path_pop(walk, len);
    }
    return fits;
}

/* ---- objects ---- */

bool schema_requires(const json_t *schema, const char *name)
{
    const json_t *required = json_object_get(schema, "required");

    for (size_t i = 0; i < json_array_size(required); i++) {
        if (strcmp(json_string_value(json_array_get(required, i)), name) == 0) {
            return true;
        }
    }
    return false;
}

const json_t *schema_property(const json_t *schema, const char *name)
{
    const json_t *properties = json_object_get(schema, "properties");

    json_each (properties, it) {
        const json_t *others = json_object_get(json_object_iter_value(it), "x-names");

        for (size_t i = 0; i < json_array_size(others); i++) {
            if (strcmp(json_string_value(json_array_get(others, i)), name) == 0) {
                return json_object_iter_value(it);
            }
        }
    }
    return json_object_get(properties, name);
}

/* Builders send null for what was left empty; 5.0 is an integer too. */
static void settle(const json_t *schema, const char *name, const json_t *property, json_t *value)
{
    json_t *given = json_object_get(value, name);
    const json_t *standard = json_object_get(property, "default");

    if (json_is_null(given) && !has_type(property, given) && !json_object_get(property, "anyOf") &&
        !schema_requires(schema, name)) {
        (void)json_object_del(value, name);
        given = NULL;
    }
    if (!given && standard) {
        (void)json_object_set_new(value, name, json_deep_copy(standard));
    } else if (given) {
        json_t *whole = normalised(property, given);
        if (whole) {
            (void)json_object_set_new(value, name, whole);
        }
    }
}

static bool check_properties(struct walk *walk, const json_t *schema, json_t *value)
{
    const json_t *properties = json_object_get(schema, "properties");
    bool fits = true;

    json_each (properties, it) {
        const char *name = json_object_iter_key(it);
        const json_t *property = json_object_iter_value(it);
        size_t len = walk->path_len;

        if (walk->faults) {
            settle(schema, name, property, value);
        }
        json_t *given = json_object_get(value, name);
        push_name(walk, name);
        if (given) {
            fits = check(walk, property, given) && fits;
        } else if (schema_requires(schema, name)) {
            fits = fault(walk, "is required");
        }
        path_pop(walk, len);
    }
    return fits;
}

static bool fault_unknown(struct walk *walk, const json_t *properties, const char *name)
{
    struct nearest nearest = {.word = str_of(name)};

    json_each (properties, it) {
        nearest_offer(&nearest, json_object_iter_key(it));
    }
    return nearest.best ? fault(walk, "there is no such field; did you mean %s?", nearest.best)
                        : fault(walk, "there is no such field");
}

static bool check_others(struct walk *walk, const json_t *schema, json_t *value)
{
    const json_t *properties = json_object_get(schema, "properties");
    const json_t *others = json_object_get(schema, "additionalProperties");
    bool fits = true;

    if (!others || json_is_true(others)) {
        return true;
    }
    json_each (value, it) {
        const char *name = json_object_iter_key(it);
        size_t len = walk->path_len;

        if (is_told(walk)) {
            break;
        }
        if (json_object_get(properties, name)) {
            continue;
        }
        push_name(walk, name);
        fits = (json_is_false(others) ? fault_unknown(walk, properties, name)
                                      : check(walk, others, json_object_iter_value(it))) &&
               fits;
        path_pop(walk, len);
    }
    return fits;
}

/* ---- anyOf ---- */

static bool fits_branch(const json_t *branch, json_t *value)
{
    struct walk silent = {0};

    return check(&silent, branch, value);
}

/* A value that has the type of a single branch was meant for that branch: its faults are
 * reported. */
static bool check_any(struct walk *walk, const json_t *branches, json_t *value)
{
    const json_t *meant = NULL;
    size_t candidates = 0;
    char types[TYPES_BYTES] = "";

    for (size_t i = 0; i < json_array_size(branches); i++) {
        const json_t *branch = json_array_get(branches, i);

        if (fits_branch(branch, value)) {
            return !walk->faults || check(walk, branch, value);
        }
        if (has_type(branch, value)) {
            meant = branch;
            candidates++;
        }
        types_append(branch, types);
    }
    if (candidates == 1) {
        return check(walk, meant, value);
    }
    return candidates == 0 ? fault(walk, "must be %s", types)
                           : fault(walk, "has none of the forms that are allowed here");
}

/* ---- the walk ---- */

static bool check(struct walk *walk, const json_t *schema, json_t *value)
{
    const json_t *branches = json_object_get(schema, "anyOf");
    char types[TYPES_BYTES] = "";
    bool fits = true;

    if (!has_type(schema, value)) {
        types_append(schema, types);
        return fault(walk, "must be %s", types);
    }
    if (branches && !check_any(walk, branches, value)) {
        return false;
    }
    if (!check_enum(walk, schema, value)) {
        return false;
    }
    if (json_is_number(value)) {
        fits = check_number(walk, schema, value);
    } else if (json_is_string(value)) {
        size_t n =
            utf8_characters((struct str){json_string_value(value), json_string_length(value)});
        fits = check_size(walk, schema, n, "minLength", "maxLength", "characters");
    } else if (json_is_array(value)) {
        fits = check_items(walk, schema, value);
    } else if (json_is_object(value)) {
        fits = check_properties(walk, schema, value);
        fits = check_others(walk, schema, value) && fits;
    }
    return fits;
}

int schema_check(const json_t *schema, json_t *value, struct err *err)
{
    struct err faults = {.code = EINVAL};
    struct walk walk = {.faults = &faults};

    if (!check(&walk, schema, value)) {
        *err = faults;
        return -EINVAL;
    }
    return 0;
}
