/* json_text.h - what can be told of JSON before it is parsed. Pure.
 *
 * A value takes two bytes of text and some fifty of memory: a body within its limit of bytes may
 * still be a gigabyte of values, and seconds of the loop's time.
 */
#ifndef BASE_JSON_TEXT_H
#define BASE_JSON_TEXT_H

#include <stddef.h>

#include "lib/base/str.h"

enum { JSON_TEXT_VALUES_MAX = 1000 * 1000 }; /* of one text from outside */

/* How many values it has at the most, by the commas and brackets outside of its strings. What is no
 * JSON is left to the parser. */
size_t json_text_values(struct str text);

#endif
