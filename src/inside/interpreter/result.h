/* result.h - the lines of an answer to /execute: one JSON object each. */
#ifndef INTERPRETER_RESULT_H
#define INTERPRETER_RESULT_H

#include <jansson.h>
#include <stdbool.h>

#include "lib/base/str.h"

/* A MIME bundle as a result. Takes the known types out of the bundle; the rest becomes `extra`. The
 * caller owns what is returned. */
json_t *result_make(json_t *bundle, bool is_main);

/* stamp NULL: now. */
json_t *text_make(bool is_error, struct str text, const char *stamp);
json_t *error_make(struct str name, struct str value, struct str traceback);

#endif
