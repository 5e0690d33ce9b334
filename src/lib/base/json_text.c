#include "lib/base/json_text.h"

/* How long the string is that begins behind its first quote, with the last one. */
static size_t string_len(struct str text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.at[i] == '\\') {
            i++;
        } else if (text.at[i] == '"') {
            return i + 1;
        }
    }
    return text.len;
}

size_t json_text_values(struct str text)
{
    size_t n = 1;

    for (size_t i = 0; i < text.len; i++) {
        char c = text.at[i];

        if (c == '"') {
            i += string_len(str_skip(text, i + 1));
        }
        n += c == ',' || c == '[' || c == '{';
    }
    return n;
}
