/* said.h - text received from another side, made safe for an error, an event or a log line.
 *
 * Once a secret has been sent to a server, every byte that the server sends may be that secret: a
 * redirect keeps the query, a header repeats a header. So the bytes are searched as a whole first,
 * and cut afterwards: a key that was cut before the search would no longer be found.
 *
 *      err_set(err, EPERM, "the API redirects to %s", guard_said(guard, location, &(struct
 * said){}))
 *
 * tools/check-redaction.py refuses any other text in the sentences of files that handle secrets,
 * unless it is marked ours().
 *
 * Pure.
 */
#ifndef GUARD_SAID_H
#define GUARD_SAID_H

#include "lib/guard/guard.h"

enum { GUARD_SAID_BYTES = 112 };

struct said {
    char text[GUARD_SAID_BYTES];
};

/* The text without the guard's secrets, printable, cut with "..." when it is longer than fits.
 * `guard` is ready and never NULL: a path on which nothing is secret has an empty one. Returns
 * out->text. */
const char *guard_said(const struct guard *guard, struct str text, struct said *out);

#endif
