/* schema.h - values checked against the JSON Schemas of the catalogue.
 *
 * Pure. These words of JSON Schema 2020-12 are supported: type (one or several), properties,
 * required, additionalProperties (false, true or a schema), items, enum, const, default, minimum,
 * maximum, minLength, maxLength, minItems, maxItems, anyOf; and words that only describe: title,
 * description, examples, format, and the x- words of text_forms.h. schema_supported() refuses any
 * other word, so no declaration can promise a check that is not made.
 */
#ifndef TOOLS_SCHEMA_H
#define TOOLS_SCHEMA_H

#include <jansson.h>

#include "lib/base/compiler.h"
#include "lib/base/err.h"

/* 0, with the defaults of missing properties filled into *value; or -EINVAL and a sentence that
 * begins with the path of what is wrong: "commands[2]: must be a string". All faults are reported,
 * as far as they fit into the sentence. */
must_check int schema_check(const json_t *schema, json_t *value, struct err *err);

must_check int schema_supported(const json_t *schema, struct err *err);

#endif
