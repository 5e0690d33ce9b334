#include "inside/gateway/catalogue.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/alloc.h"
#include "lib/base/buf.h"
#include "lib/base/str.h"

enum {
    TEXT_BYTES_MAX = 256 * 1024, /* of one argument or variable with its fields filled in */
    NAMES_BYTES_MAX = 4096,      /* of the list of a server's fields */
};

int catalogue_read(const char *path, struct catalogue *out, struct err *err)
{
    json_error_t where;
    json_t *servers = json_load_file(path, JSON_REJECT_DUPLICATES, &where);

    if (!json_is_object(servers)) {
        int r = err_set(err, EINVAL, "read the catalogue %s: %s", path,
                        servers ? "it is no object" : where.text);
        json_decref(servers);
        return r;
    }
    out->servers = servers;
    return 0;
}

void catalogue_fini(struct catalogue *catalogue)
{
    json_decref(catalogue->servers);
    catalogue->servers = NULL;
}

const json_t *catalogue_find(const struct catalogue *catalogue, const char *name)
{
    return json_object_get(catalogue->servers, name);
}

/* ---- fields ---- */

static bool is_strings(const json_t *value)
{
    const json_t *item;
    size_t i;

    json_array_foreach (value, i, item) {
        if (!json_is_string(item)) {
            return false;
        }
    }
    return json_is_array(value);
}

static bool is_string(const json_t *value)
{
    return json_is_string(value);
}

static bool is_integer(const json_t *value)
{
    return json_is_integer(value);
}

static bool is_number(const json_t *value)
{
    return json_is_number(value);
}

static bool is_boolean(const json_t *value)
{
    return json_is_boolean(value);
}

static const struct {
    struct str type;
    const char *is; /* for the sentence */
    bool (*holds)(const json_t *value);
} types[] = {
    {STR("string"), "a string", is_string},
    {STR("strings"), "an array of strings", is_strings},
    {STR("integer"), "an integer", is_integer},
    {STR("number"), "a number", is_number},
    {STR("boolean"), "true or false", is_boolean},
};

/* The value counts as not given. */
static bool is_absent(const json_t *value)
{
    return !value || json_is_null(value) ||
           (json_is_string(value) && json_string_length(value) == 0) ||
           (json_is_array(value) && json_array_size(value) == 0);
}

static int field_check(const char *server, const char *field, struct str type, const json_t *value,
                       struct err *err)
{
    bool optional = str_ends(type, STR("?"));

    type.len -= optional;
    if (is_absent(value)) {
        return optional ? 0 : err_set(err, EINVAL, "%s.%s is needed", server, field);
    }
    for (size_t i = 0; i < countof(types); i++) {
        if (str_eq(type, types[i].type)) {
            return types[i].holds(value)
                       ? 0
                       : err_set(err, EINVAL, "%s.%s must be %s", server, field, types[i].is);
        }
    }
    return err_set(err, EINVAL, "the catalogue gives %s.%s no type that there is", server, field);
}

/* "host port ssl": all that a server takes. Spaces, because the longest list only just fits. */
static int names_append(struct buf *out, json_t *known)
{
    int r = 0;

    for (void *at = json_object_iter(known); at && r == 0; at = json_object_iter_next(known, at)) {
        r = buf_printf(out, "%s%s", buf_len(out) ? " " : "", json_object_iter_key(at));
    }
    return r;
}

/* A field that names a source is a sign that the caller took the catalogue's name for a server of
 * their own. */
static int refuse_field(const char *name, const char *field, json_t *known, struct err *err)
{
    static const char *const sources[] = {"npm", "pypi", "command"};
    scoped_buf(names, NAMES_BYTES_MAX);

    for (size_t i = 0; i < countof(sources); i++) {
        if (strcmp(field, sources[i]) == 0) {
            return err_set(err, EINVAL,
                           "%s is a name of the catalogue and takes no %s: give a server of your "
                           "own another name",
                           name, field);
        }
    }
    if (json_object_size(known) == 0) {
        return err_set(err, EINVAL, "%s has no field %.40s, and no other", name, field);
    }
    int r = names_append(&names, known);
    return r < 0 ? err_set(err, -r, "%s has no field %.40s", name, field)
                 : err_set(err, EINVAL, "%s has no field %.40s, but: %.*s", name, field,
                           (int)buf_len(&names), buf_at(&names));
}

int catalogue_check(const json_t *entry, const char *name, json_t *fields, struct err *err)
{
    json_t *known = json_object_get(entry, "fields");
    int r = 0;

    for (void *at = json_object_iter(fields); at && r == 0;
         at = json_object_iter_next(fields, at)) {
        if (!json_object_get(known, json_object_iter_key(at))) {
            r = refuse_field(name, json_object_iter_key(at), known, err);
        }
    }
    for (void *at = json_object_iter(known); at && r == 0; at = json_object_iter_next(known, at)) {
        const char *field = json_object_iter_key(at);
        r = field_check(name, field, str_of(json_string_value(json_object_iter_value(at))),
                        json_object_get(fields, field), err);
    }
    return r;
}

/* ---- filling in ---- */

static int value_append(struct buf *out, const json_t *value)
{
    const json_t *item;
    size_t i;
    int r = 0;

    if (json_is_string(value)) {
        return buf_append(out, json_string_value(value), json_string_length(value));
    }
    if (json_is_integer(value)) {
        return buf_printf(out, "%lld", (long long)json_integer_value(value));
    }
    if (json_is_real(value)) {
        return buf_printf(out, "%g", json_real_value(value));
    }
    if (json_is_boolean(value)) {
        return buf_printf(out, "%s", json_is_true(value) ? "true" : "false");
    }
    json_array_foreach (value, i, item) {
        r = r == 0 && i > 0 ? buf_append(out, ",", 1) : r;
        r = r == 0 ? value_append(out, item) : r;
    }
    return r;
}

/* The field that a "{name}" at the start of text names: its length with the braces, or 0. */
static size_t place_len(struct str text, char *name, size_t size)
{
    size_t end = str_find(text, '}');

    if (!str_starts(text, STR("{")) || end == text.len || end < 2 ||
        !str_copy(name, size, (struct str){text.at + 1, end - 1})) {
        return 0;
    }
    return end + 1;
}

/* NULL when it names a field that is absent. */
static json_t *text_fill(struct str text, const json_t *fields)
{
    char name[64];
    scoped_buf(out, TEXT_BYTES_MAX);
    int r = 0;

    while (text.len && r == 0) {
        size_t len = place_len(text, name, sizeof(name));
        const json_t *value = len ? json_object_get(fields, name) : NULL;
        if (len && is_absent(value)) {
            return NULL;
        }
        r = len ? value_append(&out, value) : buf_append(&out, text.at, 1);
        text = str_skip(text, len ? len : 1);
    }
    return r < 0 ? NULL : json_stringn(buf_at(&out) ? buf_at(&out) : "", buf_len(&out));
}

/* The several strings that a lone "{name}" stands for, or NULL. */
static json_t *several(const json_t *arg, const json_t *fields)
{
    char name[64];
    struct str text = {json_string_value(arg), json_string_length(arg)};

    if (text.len == 0 || place_len(text, name, sizeof(name)) != text.len) {
        return NULL;
    }
    json_t *value = json_object_get(fields, name);
    return json_is_array(value) ? value : NULL;
}

static void group_fill(json_t *out, const json_t *group, const json_t *fields)
{
    json_auto_t *filled = json_array();
    const json_t *arg;
    size_t i;

    json_array_foreach (group, i, arg) {
        json_t *text = text_fill(str_of(json_string_value(arg)), fields);
        if (!text) {
            return;
        }
        (void)json_array_append_new(filled, text);
    }
    (void)json_array_extend(out, filled);
}

json_t *catalogue_args(const json_t *entry, const json_t *fields)
{
    json_t *out = json_array();
    json_t *arg;
    size_t i;

    json_array_foreach (json_object_get(entry, "args"), i, arg) {
        json_t *values = json_is_string(arg) ? several(arg, fields) : NULL;
        if (values) {
            (void)json_array_extend(out, values);
        } else if (json_is_array(arg)) {
            group_fill(out, arg, fields);
        } else {
            json_t *text = text_fill(str_of(json_string_value(arg)), fields);
            if (text) {
                (void)json_array_append_new(out, text);
            }
        }
    }
    return out;
}

json_t *catalogue_env(const json_t *entry, const json_t *fields)
{
    json_t *out = json_object();
    json_t *env = json_object_get(entry, "env");

    for (void *at = json_object_iter(env); at; at = json_object_iter_next(env, at)) {
        const char *text = json_string_value(json_object_iter_value(at));
        json_t *filled = text_fill(str_of(text), fields);
        if (filled) {
            (void)json_object_set_new(out, json_object_iter_key(at), filled);
        }
    }
    return out;
}
