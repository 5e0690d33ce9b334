#include "tools/text_forms.h"

#include <errno.h>
#include <string.h>

#include "lib/base/json.h"
#include "lib/base/str.h"
#include "tools/schema.h"
#include "tools/text_pairs.h"
#include "tools/tool.h"

static struct str text_of(const json_t *value)
{
    return (struct str){json_string_value(value), json_string_length(value)};
}

static bool has_type(const json_t *property, const char *type)
{
    const char *only = json_string_value(json_object_get(property, "type"));

    return only && strcmp(only, type) == 0;
}

static json_t *string_new(struct str text)
{
    return json_stringn(text.at ? text.at : "", text.len);
}

/* ---- scalars ---- */

/* NULL: the text is none. JSON's own form of a number, and true and false in any case. */
static json_t *scalar_of(const json_t *property, struct str text)
{
    if (has_type(property, "boolean")) {
        return str_ieq(text, STR("true"))    ? json_true()
               : str_ieq(text, STR("false")) ? json_false()
                                             : NULL;
    }
    if (!has_type(property, "integer") && !has_type(property, "number")) {
        return NULL;
    }
    json_t *number = text.at ? json_loadb(text.at, text.len, JSON_DECODE_ANY, NULL) : NULL;
    if (!json_is_number(number)) {
        json_decref(number);
        return NULL;
    }
    return number;
}

/* Text of a number or a boolean, where entries are texts. NULL: it is neither. */
static json_t *entry_text(const json_t *value)
{
    if (json_is_boolean(value)) {
        return json_string(json_is_true(value) ? "true" : "false");
    }
    if (!json_is_number(value)) {
        return NULL;
    }
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
    json_t *made = text ? json_string(text) : NULL;
    free(text);
    return made;
}

/* ---- lists ---- */

/* The separator of a list of commands or rules: the caller's own delimiter, else lines where there
 * are several. */
static struct str separator_of(const json_t *property, const json_t *input, struct str text)
{
    const json_t *own = json_object_get(property, "x-separator");
    struct str separator = own ? text_of(own) : STR(",");
    struct str asked = text_of(json_object_get(input, "delimiter"));

    if (!str_eq(separator, STR(";"))) {
        return separator;
    }
    if (asked.len > 0) {
        return str_eq(asked, STR("\\n")) ? STR("\n") : asked;
    }
    return str_find(text, '\n') < text.len ? STR("\n") : separator;
}

static size_t find(struct str text, struct str part)
{
    const char *at = text.len ? memmem(text.at, text.len, part.at, part.len) : NULL;

    return at ? (size_t)(at - text.at) : text.len;
}

/* Takes the first n bytes off *rest, with the separator behind them, and returns them trimmed. */
static struct str part_cut(struct str *rest, size_t n, size_t separator_len)
{
    struct str part = str_trim((struct str){rest->at, n});

    *rest = str_skip(*rest, n == rest->len ? n : n + separator_len);
    return part;
}

/* Takes the next part off *rest, trimmed. */
static struct str part_take(struct str *rest, struct str separator)
{
    return part_cut(rest, find(*rest, separator), separator.len);
}

/* Up to any of the characters that separate. */
static struct str part_take_any(struct str *rest)
{
    size_t n = 0;

    while (n < rest->len && !strchr(",;\n", rest->at[n])) {
        n++;
    }
    return part_cut(rest, n, 1);
}

/* Items that cannot contain them may be separated by commas, semicolons and lines. */
static json_t *list_split(const json_t *property, struct str text, struct str separator)
{
    const json_t *items = json_object_get(property, "items");
    bool any = json_object_get(items, "enum") || has_type(items, "integer");
    json_t *list = json_array();

    while (text.len) {
        struct str part = any ? part_take_any(&text) : part_take(&text, separator);
        json_t *item = part.len ? scalar_of(items, part) : NULL;

        if (part.len) {
            (void)json_array_append_new(list, item ? item : string_new(part));
        }
    }
    return list;
}

/* ---- objects ---- */

static void entries_as_texts(const json_t *property, json_t *object)
{
    if (!has_type(json_object_get(property, "additionalProperties"), "string")) {
        return;
    }
    json_each (object, it) {
        json_t *text = entry_text(json_object_iter_value(it));

        if (text) {
            (void)json_object_iter_set_new(object, it, text);
        }
    }
}

/* ---- a single property ---- */

static int json_parse(struct str text, json_t **out, struct err *err)
{
    json_error_t where;

    *out = json_loadb(text.at, text.len, JSON_REJECT_DUPLICATES, &where);
    return *out ? 0 : err_set(err, EINVAL, "is no valid JSON: %s", where.text);
}

/* *out NULL: the text stays as it is. */
static int value_of(const json_t *property, const json_t *input, struct str text, json_t **out,
                    struct err *err)
{
    bool is_list = has_type(property, "array"), is_object = has_type(property, "object");

    *out = NULL;
    if ((is_list && text.len && text.at[0] == '[') ||
        (is_object && text.len && text.at[0] == '{')) {
        return json_parse(text, out, err);
    }
    if (is_list) {
        *out = list_split(property, text, separator_of(property, input, text));
        return 0;
    }
    if (is_object) {
        return text_pairs(text, out, err);
    }
    *out = scalar_of(property, text);
    return 0;
}

static bool counts_as_missing(const json_t *schema, const char *name, const json_t *property)
{
    bool may_be_empty = has_type(property, "string") && !json_object_get(property, "minLength") &&
                        !json_object_get(property, "enum");

    return !may_be_empty && !schema_requires(schema, name) && json_object_get(property, "type");
}

static int property_take(const json_t *schema, const char *name, const json_t *property,
                         json_t *input, struct err *err)
{
    const json_t *given = json_object_get(input, name);
    struct str text = str_trim(text_of(given));
    json_t *value;

    if (!json_is_string(given)) {
        return 0;
    }
    if (text.len == 0 && counts_as_missing(schema, name, property)) {
        (void)json_object_del(input, name);
        return 0;
    }
    int r = value_of(property, input, text, &value, err);
    if (r < 0) {
        return err_wrap(err, "%s", name);
    }
    if (value) {
        (void)json_object_set_new(input, name, value);
    }
    return 0;
}

/* ---- names ---- */

static bool is_given(const json_t *input, const char *name)
{
    const json_t *value = json_object_get(input, name);

    return value && !json_is_null(value);
}

/* Moves a value that came by another name. An object that came by both names is merged. */
static int rename_take(const json_t *schema, const char *name, const json_t *property,
                       const char *other, json_t *input, struct err *err)
{
    int r = 0;

    if (is_given(input, other) && !is_given(input, name)) {
        (void)json_object_set(input, name, json_object_get(input, other));
    } else if (is_given(input, other) && has_type(property, "object")) {
        r = property_take(schema, other, property, input, err);
        r = r < 0 ? r : property_take(schema, name, property, input, err);
        (void)json_object_update_missing(json_object_get(input, name),
                                         json_object_get(input, other));
    }
    (void)json_object_del(input, other);
    return r;
}

static int names_take(const json_t *schema, const char *name, const json_t *property, json_t *input,
                      struct err *err)
{
    const json_t *others = json_object_get(property, "x-names");
    const json_t *values = json_object_get(property, "x-values");
    int r = 0;

    for (size_t i = 0; r == 0 && i < json_array_size(others); i++) {
        r = rename_take(schema, name, property, json_string_value(json_array_get(others, i)), input,
                        err);
    }
    const char *given = json_string_of(input, name);
    json_t *same = given ? json_object_get(values, given) : NULL;
    if (same) {
        (void)json_object_set(input, name, same);
    }
    return r;
}

int text_forms_take(const json_t *schema, json_t *input, struct err *err)
{
    const json_t *properties = json_object_get(schema, "properties");
    const json_t *unused = json_object_get(schema, "x-unused");
    int r = 0;

    for (size_t i = 0; i < json_array_size(unused); i++) {
        (void)json_object_del(input, json_string_value(json_array_get(unused, i)));
    }
    json_each (properties, it) {
        r = r < 0 ? r
                  : names_take(schema, json_object_iter_key(it), json_object_iter_value(it), input,
                               err);
    }
    json_each (properties, it) {
        const char *name = json_object_iter_key(it);
        const json_t *property = json_object_iter_value(it);

        r = r < 0 ? r : property_take(schema, name, property, input, err);
        entries_as_texts(property, json_object_get(input, name));
    }
    return r;
}

int input_take(const json_t *schema, json_t *input, struct err *err)
{
    int r = text_forms_take(schema, input, err);

    return r < 0 ? r : schema_check(schema, input, err);
}
