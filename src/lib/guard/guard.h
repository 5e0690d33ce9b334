/* guard.h - finds secrets in text, and removes them.
 *
 * A secret is found as itself; and, when it has GUARD_ENCODED_CHARS_MIN characters or more, also in
 * base64 of either alphabet wherever in a longer text it stands, in base64 that is broken into
 * lines, and percent-encoded, whichever of its characters are. All secrets are looked for at once
 * (Aho and Corasick), in time linear in the text, however they overlap or contain each other.
 *
 * Owns:     its secrets, which are wiped when it goes. Blocks: a large text takes a while: not for
 *           the loop's thread. Threads: any; a guard that is ready may be shared.
 */
#ifndef GUARD_GUARD_H
#define GUARD_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/buf.h"
#include "lib/base/compiler.h"
#include "lib/base/err.h"
#include "lib/base/str.h"

enum {
    GUARD_ENCODED_CHARS_MIN = 12,           /* a shorter one is looked for as itself alone */
    GUARD_SECRETS_BYTES_MAX = 224 * 1024,   /* of all together; each byte takes nine states */
    GUARD_TEXT_BYTES_MAX = 4 * 1024 * 1024, /* of one text; a stream has no such limit */
    GUARD_SHOWN_BYTES = 3,    /* of a secret's beginning that a stream does not wait for */
    GUARD_WORD_BYTES_MIN = 6, /* of a value's: a shorter word alone is no secret */
};

#define GUARD_MARK "[REDACTED]"

struct guard;

struct guard *guard_new(void);
void guard_free(struct guard *guard); /* NULL is fine */

/* -ENOSPC with a sentence past GUARD_SECRETS_BYTES_MAX. An empty one is none, and the same one
 * twice is one. This is cheap; guard_ready() does the work. */
must_check int guard_add(struct guard *guard, struct str secret, struct err *err);

/* The same with a number that says later which one was found. If two secrets have the same text,
 * the first one's number is given. */
must_check int guard_add_tagged(struct guard *guard, struct str secret, uint16_t tag,
                                struct err *err);

/* A value that goes into a header, "Bearer KEY": as a whole, and each of its words, since an echo
 * may have the second one alone. The name of a scheme is none. */
must_check int guard_add_value(struct guard *guard, struct str value, struct err *err);
must_check int guard_add_value_tagged(struct guard *guard, struct str value, uint16_t tag,
                                      struct err *err);

/* After the last guard_add(), once. Blocks for a fraction of a second when there are many. */
void guard_ready(struct guard *guard);

/* The text with GUARD_MARK in the place of each run of bytes that belong to secrets, appended to
 * `out`; *count of them. -ENOBUFS when out is full, -EMSGSIZE past GUARD_TEXT_BYTES_MAX. */
must_check int guard_redact(const struct guard *guard, struct str text, struct buf *out,
                            size_t *count);

/* The same, and tells the tag of each secret that was found; some twice. */
typedef void guard_tag_found(void *ctx, uint16_t tag);
must_check int guard_redact_tagged(const struct guard *guard, struct str text, struct buf *out,
                                   size_t *count, guard_tag_found *each, void *ctx);

/* The first place with a secret: 1 and where in the text, and the secret's tag; 0: there is none.
 */
must_check int guard_find(const struct guard *guard, struct str text, struct str *place,
                          uint16_t *tag);

/* The same for a text that comes in pieces. Text that may be the beginning of a secret is held back
 * until more has come. The first GUARD_SHOWN_BYTES of a longer secret may have been passed on
 * before. */
struct guard_stream;

struct guard_stream *guard_stream_new(const struct guard *guard);
void guard_stream_free(struct guard_stream *stream); /* NULL is fine */
must_check int guard_stream_put(struct guard_stream *stream, struct str data, struct buf *out);
must_check int guard_stream_end(struct guard_stream *stream, struct buf *out);
size_t guard_stream_count(const struct guard_stream *stream);

#endif
