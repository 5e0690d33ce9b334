/* fetch.h - one HTTP/1.1 request on a connected socket, and its whole answer in memory.
 *
 * Owns:     the socket, and the answer until `done` returns.
 * Needs:    a libuv loop, SIGPIPE ignored.
 * Blocks:   never.
 * Threads:  the loop's.
 *
 * There are three clients with a gathered answer, one for each way to wait. This one is for
 * programs on a loop (the daemon, the programs inside a jail), on a socket that somebody has
 * connected. tools/client.h is the same for a fiber, which waits in the middle of a function.
 * libcurl is for addresses on the network, with TLS and proxies: lib/web on a loop, and cli/call.h
 * (endpoint_perform()) for the command line, which may block.
 */
#ifndef HTTP_FETCH_H
#define HTTP_FETCH_H

#include <uv.h>

#include "lib/base/err.h"
#include "lib/http/http.h"

struct fetch;

struct fetch_request {
    struct str method, target;
    const struct http_header *headers; /* borrowed for the call; `host` is among them */
    size_t headers_n;
    struct str body; /* borrowed until `done` */
    size_t answer_bytes_max;
    uint64_t timeout_ms; /* 0: none */
};

struct fetch_answer {
    int error;  /* 0; -ENOBUFS: the answer is too long; -ETIMEDOUT; as upstream.h's on_end */
    int status; /* of HTTP; 0: no answer came. May be set beside an error. */
    struct str body;
};

/* Called once, from the loop, and not after fetch_cancel(). The answer is valid for the call. */
typedef void fetch_done(void *ctx, const struct fetch_answer *answer);

/* Takes the descriptor over, also on failure. */
must_check int fetch_start(uv_loop_t *loop, int fd, const struct fetch_request *request,
                           fetch_done *done, void *ctx, struct fetch **out, struct err *err);
void fetch_cancel(struct fetch *fetch); /* accepts NULL */

#endif
