/* text_pairs.h - NAME=VALUE pairs in one text, as people write them into a form.
 *
 * Pure. Pairs are separated by commas or lines: A=1,B=2. Where a semicolon stands before a name and
 * its "=", or at the end, semicolons and lines separate, and commas belong to the values:
 * A=1,2;B=3. A value in quotes, '...' or "...", may hold all of them; \" \' \\ \n \t are read in
 * it.
 */
#ifndef TOOLS_TEXT_PAIRS_H
#define TOOLS_TEXT_PAIRS_H

#include <jansson.h>

#include "lib/base/compiler.h"
#include "lib/base/err.h"
#include "lib/base/str.h"

/* *out becomes an object of texts. -EINVAL with a sentence when a part is no pair. */
must_check int text_pairs(struct str text, json_t **out, struct err *err);

#endif
