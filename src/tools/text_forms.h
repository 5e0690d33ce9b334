/* text_forms.h - input values that workflow builders send as text.
 *
 * Pure. A builder's form has text fields only, so lists, objects, numbers and booleans arrive as
 * texts. Each is turned into the type that the schema asks for:
 *
 *   array     JSON text, or items separated by the property's "x-separator" (default ","); where
 *             that is ";" a text of several lines has an item in each
 *   object    JSON text, or NAME=VALUE pairs (text_pairs.h)
 *   integer, number, boolean   their text
 *   any       an empty text counts as not given, where the property is optional and may not be
 * empty
 *
 * Values of an object whose entries are texts may be numbers and booleans. A property that takes a
 * string is never changed. A text field named "delimiter" in the input replaces the separator ";".
 * A property may have other names, "x-names", and its values too, "x-values": a value that comes by
 * another name is moved; if the input has both names, the property's own counts. Names in
 * "x-unused" of the whole schema are accepted and dropped: they ask for something that is done in
 * any case.
 */
#ifndef TOOLS_TEXT_FORMS_H
#define TOOLS_TEXT_FORMS_H

#include <jansson.h>

#include "lib/base/compiler.h"
#include "lib/base/err.h"

/* Changes the properties of `input`, an object, in place. -EINVAL with a sentence when a text has
 * none of the forms; what else is wrong is for schema_check() to say. */
must_check int text_forms_take(const json_t *schema, json_t *input, struct err *err);

/* text_forms_take(), and then schema_check(): how every input of a tool is taken. */
must_check int input_take(const json_t *schema, json_t *input, struct err *err);

#endif
