/* json_text.h - limits that are checked before JSON is parsed. Pure.
 *
 * A value takes two bytes of text and some fifty of memory: a body within its limit of bytes may
 * still be a gigabyte of values, and seconds of the loop's time.
 */
#ifndef BASE_JSON_TEXT_H
#define BASE_JSON_TEXT_H

#include <stddef.h>

#include "lib/base/str.h"

enum { JSON_TEXT_VALUES_MAX = 1000 * 1000 }; /* of one text from outside */

/* The largest number of values that the text can have, by the commas and brackets outside of its
 * strings. The parser refuses text that is no JSON. */
size_t json_text_values(struct str text);

#endif
