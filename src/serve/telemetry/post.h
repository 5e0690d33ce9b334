/* post.h - HTTP POSTs to endpoints that others chose, by libcurl on the loop.
 *
 * Owns:     the connections, and the posts under way.
 * Needs:    a loop.
 * Blocks:   never; names are resolved on threads of libcurl's own.
 * Threads:  the loop's.
 *
 * An endpoint may be slow, endless or hostile. So: both timeouts are bounded, the answer's body is
 * read up to a limit and thrown away, redirects are not followed, no proxy and no protocol besides
 * HTTP is used; and unless `allow_local`, each address is checked when its socket is made: a name
 * that resolves to another address by then gains nothing.
 */
#ifndef TELEMETRY_POST_H
#define TELEMETRY_POST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "lib/base/compiler.h"
#include "lib/base/err.h"

enum {
    POST_CONNECT_TIMEOUT_MS = 5 * 1000,
    POST_TIMEOUT_MS = 15 * 1000, /* from the first step to the answer's last byte */
    POST_ANSWER_BYTES_MAX = 64 * 1024,
    POST_URL_BYTES_MAX = 2048,
    POST_HEADERS_MAX = 8,
    POST_IDLE_CONNECTIONS = 16,
};

struct poster;
struct post;

struct post_request { /* copied */
    const char *url;
    const char *headers[POST_HEADERS_MAX]; /* "name: value"; NULL ends the list */
    const char *body;
};

struct post_result {
    int status;        /* 0: there was no answer */
    const char *error; /* NULL: it was taken, with a status of 2xx */
    int64_t took_ms;
};

typedef void post_done(void *ctx, const struct post_result *result);

struct poster *poster_new(uv_loop_t *loop, bool allow_local);

/* Drops what is under way without a call. The loop must run once more. */
void poster_free(struct poster *poster);

/* `done` comes from the loop, once. */
struct post *post_send(struct poster *poster, const struct post_request *request, post_done *done,
                       void *ctx);
void post_cancel(struct post *post); /* done is not called */

/* Whether a URL is one that could be posted to: 0, or -EINVAL with the sentence. */
must_check int post_check_url(const char *url, bool allow_local, struct err *err);

#endif
