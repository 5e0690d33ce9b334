/* json_read.h - JSON as kernels write it.
 *
 * Kernels put whatever a program printed into their messages: bytes that are no UTF-8, halves of
 * surrogate pairs. Each becomes U+FFFD instead of making the message unreadable.
 */
#ifndef INTERPRETER_JSON_READ_H
#define INTERPRETER_JSON_READ_H

#include <jansson.h>

#include "lib/base/str.h"

/* NULL when the text is not JSON even then. The caller owns the reference. */
json_t *json_read(struct str text);

/* A new string of bytes that may be no UTF-8. */
json_t *json_repaired(struct str text);

/* The member's text, or "" when there is none or it is no string. Borrowed. */
const char *json_text(const json_t *object, const char *name);

#endif
