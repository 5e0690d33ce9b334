/* quoted.h - JSON in C tests, with ' for quotes. */
#ifndef UNIT_QUOTED_H
#define UNIT_QUOTED_H

#include <jansson.h>

/* NULL: it is no JSON, or longer than these tests have. The caller's. */
static inline json_t *quoted_json(const char *text)
{
    char plain[4096];
    size_t i = 0;

    for (; text[i] && i < sizeof(plain) - 1; i++) {
        plain[i] = text[i] == '\'' ? '"' : text[i];
    }
    plain[i] = '\0';
    return json_loads(plain, JSON_DECODE_ANY, NULL);
}

#endif
