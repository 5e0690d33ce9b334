/* json.h - helpers for jansson's values. Pure. */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <jansson.h>
#include <stdint.h>

#include "lib/base/compiler.h"

enum { JSON_SENTENCE_BYTES_MAX = 1024 };

static inline void json_unref(json_t **json)
{
    json_decref(*json);
    *json = NULL;
}
#define scoped_json scoped(json_unref) json_t

/* jansson walks only what it may change; this walks what is const, and changes nothing. */
static inline json_t *json_unconst(const json_t *json)
{
    return (json_t *)(uintptr_t)json;
}
#define json_each(object, it)                                                                      \
    for (void *it = json_object_iter(json_unconst(object)); it;                                    \
         it = json_object_iter_next(json_unconst(object), it))

/* The member's text, or NULL when there is none or it is no string; or "" then. Borrowed. */
static inline const char *json_string_of(const json_t *object, const char *name)
{
    return json_string_value(json_object_get(object, name));
}

static inline const char *json_text_of(const json_t *object, const char *name)
{
    const char *text = json_string_of(object, name);

    return text ? text : "";
}

/* A sentence as JSON, the caller's; what is longer than JSON_SENTENCE_BYTES_MAX is left out. It may
 * quote received bytes, cut anywhere: bytes that are no UTF-8 are shown as U+FFFD, since JSON
 * allows only UTF-8. */
json_t *json_sentence(const char *text);

#endif
