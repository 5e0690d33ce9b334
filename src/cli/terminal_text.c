#include "cli/terminal_text.h"

#include <stdbool.h>
#include <stdlib.h>

#include "lib/base/alloc.h"

void terminal_text_clean(char *text)
{
    for (unsigned char *at = (unsigned char *)text; *at; at++) {
        bool ascii = (*at < ' ' && *at != '\n' && *at != '\t') || *at == 0x7f;
        bool beyond = at[0] == 0xc2 && at[1] >= 0x80 && at[1] <= 0x9f;

        if (ascii || beyond) {
            at[0] = '?';
            at[beyond] = '?';
        }
    }
}

static void string_clean(json_t *value)
{
    char *text = xstrdup(json_string_value(value));

    terminal_text_clean(text);
    (void)json_string_set(value, text);
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
