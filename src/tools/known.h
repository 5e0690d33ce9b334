/* known.h - all that a team keeps secret, to be looked for in a text.
 *
 *   - its stored secrets, the sealed keys of its API shells, the keys that tools gave to sandboxes
 *   - its own API keys: the one of this call, and any text with the looks and the hash of one
 *   - what has the looks of a widespread service's key (lib/guard/formats.h)
 *
 * Owns:     copies of what is looked for, which are wiped when it goes.
 * Needs:    the store, the secrets, the shells, the API.
 * Blocks:   the fiber; the search runs on a thread of the pool, so that neither many secrets nor a
 *           large text keep the loop.
 * Threads:  the loop's.
 */
#ifndef TOOLS_KNOWN_H
#define TOOLS_KNOWN_H

#include <jansson.h>

#include "tools/call.h"

struct known;

enum {
    KNOWN_OUT_BYTES_MAX = 48 * 1024 * 1024, /* marks may be longer than what they stand for */
    KNOWN_KINDS_MAX = 16 * 1024,            /* different things that can be told apart */
};

/* Those of the team; of the keys given to sandboxes only that one's, unless sandbox_id is NULL.
 * Stored ones shorter than `least` characters are left out. What cannot be opened is an error: it
 * may be there. */
must_check int known_new(struct tool_call *call, const char *sandbox_id, size_t least,
                         struct known **out, struct err *err);
void known_free(struct known *known); /* NULL is fine */

/* One more; `what` says what it is: "a secret that was passed". */
must_check int known_add(struct known *known, struct str value, const char *what, struct err *err);

size_t known_count(const struct known *known);

/* The text with marks in the place of each, appended to `out`; *count of them, and the kinds of
 * what was found, an array of texts that is the caller's. Once. */
must_check int known_redact(struct tool_call *call, struct known *known, struct str text,
                            struct buf *out, size_t *count, json_t **kinds, struct err *err);

/* 1: the text holds one: the line of the first, and what it is, borrowed. 0: it holds none. Once.
 */
must_check int known_find(struct tool_call *call, struct known *known, struct str text,
                          size_t *line, const char **what, struct err *err);

#endif
