#include "inside/gateway/names.h"

#include <string.h>

#include "lib/base/json.h"

void names_add(json_t *out, const json_t *items, const char *prefix)
{
    json_t *item;
    size_t i;

    json_array_foreach (items, i, item) {
        json_t *copy = json_copy(item);
        const char *name = json_string_of(item, "name");
        (void)json_object_set_new(copy, "name", json_sprintf("%s-%s", prefix, name ? name : ""));
        (void)json_array_append_new(out, copy);
    }
}

const char *names_own(const char *name, const char *prefix)
{
    size_t len = strlen(prefix);

    return strncmp(name, prefix, len) == 0 && name[len] == '-' ? name + len + 1 : NULL;
}

bool names_has(const json_t *items, const char *key, const char *value)
{
    const json_t *item;
    size_t i;

    json_array_foreach (items, i, item) {
        const char *text = json_string_of(item, key);
        if (text && strcmp(text, value) == 0) {
            return true;
        }
    }
    return false;
}

/* As a shell's pattern with one kind of star: on a mismatch the last star takes one more byte. */
bool names_match(const char *pattern, const char *address)
{
    const char *after_star = NULL, *star_end = NULL;

    while (*address) {
        const char *close = *pattern == '{' ? strchr(pattern, '}') : NULL;
        if (close) {
            after_star = pattern = close + 1;
            star_end = address;
        } else if (*pattern == *address) {
            pattern++;
            address++;
        } else if (after_star) {
            pattern = after_star;
            address = ++star_end;
        } else {
            return false;
        }
    }
    while (*pattern == '{' && strchr(pattern, '}')) {
        pattern = strchr(pattern, '}') + 1;
    }
    return *pattern == '\0';
}
