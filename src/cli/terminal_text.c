#include "cli/terminal_text.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/alloc.h"

/* Marks that turn the direction of writing around: U+200E, U+200F, U+202A to U+202E, U+2066 to
 * U+2069. */
static bool turns(const unsigned char *at)
{
    bool first = at[0] == 0xe2 && at[1] == 0x80 &&
                 (at[2] == 0x8e || at[2] == 0x8f || (at[2] >= 0xaa && at[2] <= 0xae));

    return first || (at[0] == 0xe2 && at[1] == 0x81 && at[2] >= 0xa6 && at[2] <= 0xa9);
}

size_t terminal_control_len(const char *text)
{
    const unsigned char *at = (const unsigned char *)text;

    if ((at[0] && at[0] < ' ') || at[0] == 0x7f) {
        return 1;
    }
    if (at[0] == 0xc2 && at[1] >= 0x80 && at[1] <= 0x9f) {
        return 2;
    }
    return turns(at) ? 3 : 0;
}

void terminal_text_clean(char *text)
{
    for (char *at = text; *at; at++) {
        size_t n = *at == '\n' || *at == '\t' ? 0 : terminal_control_len(at);

        (void)memset(at, '?', n);
        at += n > 0 ? n - 1 : 0;
    }
}

static void string_clean(json_t *value)
{
    char *text = xstrdup(json_string_value(value));

    if (text) {
        terminal_text_clean(text);
        (void)json_string_set(value, text);
    }
    free(text);
}

/* Names of fields are compared, and printed by entry_put() alone. jansson bounds the depth. */
json_t *terminal_json_clean(json_t *value)
{
    const char *name;
    json_t *item;
    size_t i;

    if (json_is_string(value)) {
        string_clean(value);
    }
    json_array_foreach (value, i, item) {
        (void)terminal_json_clean(item);
    }
    json_object_foreach (value, name, item) {
        (void)terminal_json_clean(item);
    }
    return value;
}
