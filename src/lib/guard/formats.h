/* formats.h - keys that are known by their looks: those of widespread services begin with letters
 * of their own.
 *
 * A key is found where it stands by itself: as it is, in base64 that encodes it with what stands
 * around it, and percent-encoded as a whole. Words that only look like one are left alone: those of
 * few different characters, and those that say that they are an example.
 *
 * Pure. Blocks: a large text takes a while: not for the loop's thread.
 */
#ifndef GUARD_FORMATS_H
#define GUARD_FORMATS_H

#include <stdbool.h>

#include "lib/base/str.h"

/* `place` lies in the text, `key` is what stands there in plain, and `kind` says what it is: "a
 * GitHub token". Kinds are one of a few texts, which live for ever. */
typedef void guard_format_found(void *ctx, struct str place, struct str key, const char *kind);

void guard_formats_each(struct str text, guard_format_found *each, void *ctx);

#define GUARD_KIND_API_KEY "an E2B API key"

#endif
