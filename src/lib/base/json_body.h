/* json_body.h - the body of a request as one JSON object. Pure. */
#ifndef BASE_JSON_BODY_H
#define BASE_JSON_BODY_H

#include <jansson.h>
#include <stdbool.h>

#include "lib/base/compiler.h"
#include "lib/base/err.h"
#include "lib/base/str.h"

/* The whole text is one JSON object: no duplicate keys, no invalid UTF-8, no NUL, nothing behind
 * it. An empty text is an empty object when `optional`. The caller owns *out. */
must_check int body_parse(struct str text, bool optional, json_t **out, struct err *err);

#endif
