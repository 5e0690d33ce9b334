#include "inside/interpreter/json_read.h"

#include <stdlib.h>

#include "lib/base/utf8.h"

enum {
    READ_FLAGS = JSON_DECODE_ANY | JSON_ALLOW_NUL,
    ESCAPE_LEN = 6, /* \uXXXX */
};

static const char replacement_escape[ESCAPE_LEN] = {'\\', 'u', 'f', 'f', 'f', 'd'};

static int hex_digit(char c)
{
    c = char_lower(c);
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The code unit of an escape \uXXXX at the start, or -1. */
static int escape_unit(struct str s)
{
    int unit = 0;

    if (s.len < ESCAPE_LEN || s.at[0] != '\\' || s.at[1] != 'u') {
        return -1;
    }
    for (size_t i = 2; i < ESCAPE_LEN; i++) {
        int digit = hex_digit(s.at[i]);
        if (digit < 0) {
            return -1;
        }
        unit = unit * 16 + digit;
    }
    return unit;
}

static bool is_high(int unit)
{
    return unit >= 0xd800 && unit <= 0xdbff;
}

static bool is_low(int unit)
{
    return unit >= 0xdc00 && unit <= 0xdfff;
}

/* Rewrites in place every escape of half a surrogate pair: \ufffd is as long. */
static void halves_replace(char *text, size_t len)
{
    struct str rest = {text, len};

    while (rest.len) {
        int unit = escape_unit(rest);
        size_t step = rest.at[0] == '\\' && rest.len > 1 ? 2 : 1;

        if (is_high(unit) && is_low(escape_unit(str_skip(rest, ESCAPE_LEN)))) {
            step = 2 * (size_t)ESCAPE_LEN;
        } else if (is_high(unit) || is_low(unit)) {
            memcpy(text + (rest.at - text), replacement_escape, ESCAPE_LEN);
            step = ESCAPE_LEN;
        }
        rest = str_skip(rest, step);
    }
}

/* A copy that is valid UTF-8; NULL when there is no memory for it. */
static char *repaired(struct str text, size_t *len)
{
    char *copy = malloc(UTF8_REPLACEMENT_BYTES * text.len + 1);

    if (copy) {
        *len = utf8_repair(text, copy);
    }
    return copy;
}

json_t *json_read(struct str text)
{
    json_t *value = json_loadb(text.at ? text.at : "", text.len, READ_FLAGS, NULL);
    size_t len;

    if (value) {
        return value;
    }
    char *copy = repaired(text, &len);
    if (copy) {
        halves_replace(copy, len);
        value = json_loadb(copy, len, READ_FLAGS, NULL);
        free(copy);
    }
    return value;
}

json_t *json_repaired(struct str text)
{
    json_t *value = json_stringn(text.at ? text.at : "", text.len);
    size_t len;

    if (value) {
        return value;
    }
    char *copy = repaired(text, &len);
    if (copy) {
        value = json_stringn(copy, len);
        free(copy);
    }
    return value;
}

const char *json_text(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));

    return text ? text : "";
}
