/* formats.h - finds keys by their format: those of widespread services begin with known letters.
 *
 * A key is found where it stands by itself: as it is, in base64 that encodes it with what stands
 * around it, and percent-encoded as a whole. Words that only look like a key are left alone: those
 * of few different characters, and those that call themselves an example.
 *
 * Pure. Blocks: a large text takes a while: not for the loop's thread.
 */
#ifndef GUARD_FORMATS_H
#define GUARD_FORMATS_H

#include <stdbool.h>

#include "lib/base/str.h"

/* `place` is in the text, `key` is its decoded content, and `kind` names it: "a GitHub token".
 * Kinds are static texts. */
typedef void guard_format_found(void *ctx, struct str place, struct str key, const char *kind);

void guard_formats_each(struct str text, guard_format_found *each, void *ctx);

#define GUARD_KIND_API_KEY "an E2B API key"

#endif
