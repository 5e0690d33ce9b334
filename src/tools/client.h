/* client.h - an HTTP client of the daemon's API, for fibers.
 *
 * Owns:     the connections that lie idle, and each exchange from ask_open() to ask_close().
 * Needs:    a fiber; tools_options.dial.
 * Blocks:   the fiber. -ECANCELED when it was cancelled.
 * Threads:  the loop's.
 *
 * Requests of tools pass authentication, limits and figures like all others. The daemon closes a
 * connection without an answer only while it is idle, so it has taken no request then: a retry on a
 * new connection never does anything twice. (This process ends with the daemon.)
 */
#ifndef TOOLS_CLIENT_H
#define TOOLS_CLIENT_H

#include "lib/http/http.h"
#include "tools/call.h"

enum {
    CLIENT_IDLE_MAX = 16,
    CLIENT_HEADERS_MAX = 12,
    CLIENT_TOKEN_BYTES = 256,
    CLIENT_ANSWER_BYTES_MAX = 16 * 1024 * 1024,   /* of an answer of the API's */
    CLIENT_INTERNAL_BYTES_MAX = 64 * 1024 * 1024, /* a redacted text may be long */
};

struct ask_plan { /* borrowed until ask_open() has returned */
    const char *method;
    const char *target;
    const struct http_header *headers; /* besides host */
    size_t headers_n;
    struct str body;
    int64_t limit_ms; /* as ask_limit(), from the beginning; 0: none */
};

struct ask;

/* Sends it all, and waits for the answer's head. */
must_check int ask_open(struct tools *tools, const struct ask_plan *plan, struct ask **out,
                        struct err *err);
int ask_status(const struct ask *ask);
const char *ask_next(const struct ask *ask); /* X-Next-Token of an answer that is a page; "" */

/* 1 with the next piece, valid until the next call; 0 at the end. Unread bytes wait: a slow reader
 * slows the sender. */
must_check int ask_read(struct ask *ask, struct str *piece, struct err *err);

/* All of the rest; -EMSGSIZE when it is more than the buffer takes. */
must_check int ask_gather(struct ask *ask, struct buf *out, struct err *err);

/* Limits the time from now on, by our own clock: a fiber that cannot be cancelled must not wait for
 * a sandbox forever. After that every wait returns -ETIMEDOUT. 0: no limit. */
void ask_limit(struct ask *ask, int64_t ms);

/* May be called at any time: an unfinished answer is abandoned, and the server sees the client
 * leave. Accepts NULL. */
void ask_close(struct ask *ask);

static inline void ask_closep(struct ask **ask)
{
    ask_close(*ask);
}
#define scoped_ask scoped(ask_closep) struct ask

/* Closes what lies idle. */
void client_stop(struct tools *tools);

#endif
