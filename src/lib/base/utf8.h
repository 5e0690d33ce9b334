/* utf8.h - file names and output are bytes; JSON and protobuf strings are UTF-8. In reports, each
 * wrong byte becomes one U+FFFD; the bytes themselves are never changed. */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stdbool.h>

#include "lib/base/buf.h"
#include "lib/base/str.h"

enum {
    UTF8_REPLACEMENT_BYTES = 3, /* a repaired text is at most this many times as long */
};

bool utf8_valid(struct str text);

/* How many characters a valid text has. */
size_t utf8_characters(struct str text);

/* Writes the repaired text with a NUL into out, which holds UTF8_REPLACEMENT_BYTES * len + 1. */
size_t utf8_repair(struct str text, char *out);

/* Bytes at the end that are the beginning of a sequence which the next piece may complete: 0 to 3.
 */
size_t utf8_unfinished(struct str text);

#endif
