#include "cli/tame.h"

#include <stdbool.h>
#include <stdlib.h>

#include "lib/base/alloc.h"

void tame_text(char *text)
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

static void tame_string(json_t *value)
{
    char *text = xstrdup(json_string_value(value));

    tame_text(text);
    (void)json_string_set(value, text);
    free(text);
}

/* Names of fields are compared, and printed by entry_put() alone. jansson bounds the depth. */
json_t *tame_json(json_t *value)
{
    const char *name;
    json_t *item;
    size_t i;

    if (json_is_string(value)) {
        tame_string(value);
    }
    json_array_foreach (value, i, item) {
        (void)tame_json(item);
    }
    json_object_foreach (value, name, item) {
        (void)tame_json(item);
    }
    return value;
}
