#include "cli/tool_input.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/buf.h"
#include "lib/base/fd.h"
#include "lib/base/small_file.h"
#include "lib/base/utf8.h"
#include "tools/tool.h"

enum { NAME_BYTES = 128 };

/* ---- files ---- */

/* "-" is stdin. */
static int file_read(const char *path, struct buf *out, struct err *err)
{
    scoped_fd opened = -1;
    int fd = STDIN_FILENO;

    if (strcmp(path, "-") != 0) {
        opened = open(path, O_RDONLY | O_CLOEXEC);
        fd = opened;
    }
    if (fd < 0) {
        return err_sys(err, "open %s", path);
    }
    int r = small_file_append(fd, out);
    return r < 0 ? err_code(err, r == -ENOBUFS ? EMSGSIZE : -r, "read %s", path) : 0;
}

/* ---- values ---- */

static bool wants(const json_t *property, const char *type)
{
    const json_t *types = json_object_get(property, "type");
    const json_t *branches = json_object_get(property, "anyOf");

    if (json_is_string(types)) {
        return strcmp(json_string_value(types), type) == 0;
    }
    for (size_t i = 0; i < json_array_size(types); i++) {
        if (strcmp(json_string_value(json_array_get(types, i)), type) == 0) {
            return true;
        }
    }
    for (size_t i = 0; i < json_array_size(branches); i++) {
        if (wants(json_array_get(branches, i), type)) {
            return true;
        }
    }
    return false;
}

static json_t *json_of(struct str text)
{
    return json_loadb(text.at ? text.at : "", text.len, JSON_DECODE_ANY, NULL);
}

static json_t *string_of(struct str text)
{
    return json_stringn(text.at ? text.at : "", text.len);
}

/* A text, if the field takes texts or the value is not JSON. */
static json_t *value_of(const json_t *property, struct str text)
{
    json_t *parsed = wants(property, "string") ? NULL : json_of(text);

    return parsed ? parsed : string_of(text);
}

/* A single value is the whole list: JSON, or a text that the server splits. If there are several
 * values, each is an item. */
static void list_take(json_t *input, const char *name, const json_t *property, struct str text)
{
    const json_t *items = json_object_get(property, "items");
    const json_t *before = json_object_get(input, name);
    json_t *whole = json_of(text);

    if (json_is_array(whole) || !before) {
        json_t *word = json_is_array(whole) ? json_incref(whole) : string_of(text);
        (void)json_object_set_new(input, name, word);
    } else if (json_is_string(before)) {
        struct str first = {json_string_value(before), json_string_length(before)};
        (void)json_object_set_new(input, name,
                                  json_pack("[oo]", value_of(items, first), value_of(items, text)));
    } else {
        (void)json_array_append_new(json_object_get(input, name), value_of(items, text));
    }
    json_decref(whole);
}

static int entry_take(json_t *input, const json_t *schema, const char *name, const char *entry,
                      struct str text, struct err *err)
{
    const json_t *property = schema_property(schema, name);
    json_t *object = json_object_get(input, name);

    if (object && !json_is_object(object)) {
        return err_set(err, EINVAL, "%s is given as a value and as an object", name);
    }
    if (!object) {
        object = json_object();
        (void)json_object_set_new(input, name, object);
    }
    (void)json_object_set_new(object, entry,
                              value_of(json_object_get(property, "additionalProperties"), text));
    return 0;
}

static int field_take(json_t *input, const json_t *schema, char *name, struct str text,
                      struct err *err)
{
    const json_t *property = schema_property(schema, name);
    char *dot = strchr(name, '.');

    if (!property && dot) {
        *dot = '\0';
        return entry_take(input, schema, name, dot + 1, text, err);
    }
    if (wants(property, "array") && !wants(property, "string")) {
        list_take(input, name, property, text);
    } else {
        (void)json_object_set_new(input, name, value_of(property, text));
    }
    return 0;
}

/* ---- words ---- */

static int whole_take(json_t *input, const char *path, struct err *err)
{
    scoped_buf(text, TOOL_INPUT_BYTES_MAX);

    int r = file_read(path, &text, err);
    if (r < 0) {
        return r;
    }
    json_t *whole = json_of(buf_str(&text));
    r = json_is_object(whole) && json_object_update(input, whole) == 0
            ? 0
            : err_set(err, EINVAL, "%s does not contain a JSON object", path);
    json_decref(whole);
    return r;
}

static int json_take(json_t *input, const char *name, struct str text, struct err *err)
{
    json_t *value = json_of(text);

    if (!value) {
        return err_set(err, EINVAL, "%s: the text after := is not JSON", name);
    }
    (void)json_object_set_new(input, name, value);
    return 0;
}

int tool_input_take(json_t *input, const json_t *schema, const char *word, struct err *err)
{
    size_t equals = str_find(str_of(word), '=');
    bool is_json = equals > 0 && word[equals - 1] == ':';
    struct str value = str_skip(str_of(word), equals + 1);
    char name[NAME_BYTES];
    scoped_buf(text, TOOL_INPUT_BYTES_MAX);

    if (word[0] == '@') {
        return whole_take(input, word + 1, err);
    }
    if (equals == strlen(word) || equals == 0 ||
        !str_copy(name, sizeof(name), (struct str){word, equals - is_json})) {
        return err_set(err, EINVAL, "'%.64s' is not FIELD=VALUE", word);
    }
    if (value.len > 1 && value.at[0] == '@') {
        int r = file_read(value.at + 1, &text, err);
        if (r < 0) {
            return r;
        }
        value = buf_str(&text);
    }
    if (!utf8_valid(value)) {
        return err_set(err, EINVAL, "%s: is not UTF-8; give it as base64", name);
    }
    return is_json ? json_take(input, name, value, err)
                   : field_take(input, schema, name, value, err);
}
