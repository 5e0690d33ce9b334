#include "inside/interpreter/result.h"

#include "inside/interpreter/json_read.h"
#include "lib/base/clock.h"
#include "lib/base/compiler.h"

static const struct {
    const char *mime;
    const char *name;
} formats[] = {
    {"text/plain", "text"},        {"text/html", "html"},
    {"text/markdown", "markdown"}, {"image/svg+xml", "svg"},
    {"image/png", "png"},          {"image/jpeg", "jpeg"},
    {"application/pdf", "pdf"},    {"text/latex", "latex"},
    {"application/json", "json"},  {"application/javascript", "javascript"},
    {"e2b/data", "data"},          {"e2b/chart", "chart"},
};

/* The representation of a string is shown without its quotes. */
static json_t *text_unquoted(json_t *value)
{
    const char *text = json_string_value(value);
    size_t len = json_string_length(value);

    if (len >= 2 && (text[0] == '\'' || text[0] == '"') && text[len - 1] == text[0]) {
        return json_stringn(text + 1, len - 2);
    }
    return json_incref(value);
}

/* Some kernels give a text as a list of its lines. */
static json_t *lines_joined(json_t *value)
{
    json_t *whole = json_string("");
    const json_t *line;
    size_t i;

    json_array_foreach (value, i, line) {
        json_t *longer = json_sprintf("%s%s", json_string_value(whole),
                                      json_is_string(line) ? json_string_value(line) : "");
        json_decref(whole);
        whole = longer;
    }
    return whole;
}

static json_t *format_value(const char *name, json_t *value)
{
    bool is_text =
        strcmp(name, "json") != 0 && strcmp(name, "data") != 0 && strcmp(name, "chart") != 0;

    if (strcmp(name, "text") == 0 && json_is_string(value)) {
        return text_unquoted(value);
    }
    return is_text && json_is_array(value) ? lines_joined(value) : json_incref(value);
}

json_t *result_make(json_t *bundle, bool is_main)
{
    json_t *result = json_pack("{s:s}", "type", "result");

    for (size_t i = 0; i < countof(formats); i++) {
        json_t *value = json_object_get(bundle, formats[i].mime);
        if (value && !json_is_null(value)) {
            (void)json_object_set_new(result, formats[i].name,
                                      format_value(formats[i].name, value));
        }
        (void)json_object_del(bundle, formats[i].mime);
    }
    if (json_object_size(bundle) > 0) {
        (void)json_object_set(result, "extra", bundle);
    }
    (void)json_object_set_new(result, "is_main_result", json_boolean(is_main));
    return result;
}

json_t *text_make(bool is_error, struct str text, const char *stamp)
{
    char now[CLOCK_STAMP_BYTES];

    if (!stamp) {
        clock_stamp(clock_wall_ms(), now);
        stamp = now;
    }
    return json_pack("{s:s, s:o, s:s}", "type", is_error ? "stderr" : "stdout", "text",
                     json_repaired(text), "timestamp", stamp);
}

json_t *error_make(struct str name, struct str value, struct str traceback)
{
    return json_pack("{s:s, s:o, s:o, s:o}", "type", "error", "name", json_repaired(name), "value",
                     json_repaired(value), "traceback", json_repaired(traceback));
}
