#include "lib/base/json.h"

#include <string.h>

#include "lib/base/utf8.h"

json_t *json_sentence(const char *text)
{
    char clean[UTF8_REPLACEMENT_BYTES * JSON_SENTENCE_BYTES_MAX + 1];
    const struct str given = {text, strnlen(text, JSON_SENTENCE_BYTES_MAX)};

    return json_stringn(clean, utf8_repair(given, clean));
}
