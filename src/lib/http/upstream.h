/* upstream.h - the client's half of HTTP, on a connected socket that somebody else made.
 *
 * The edge uses it towards services in a jail, the daemon towards the agent, the egress towards
 * the world. HTTP/1.1: one exchange at a time per connection; after on_end with 0 and
 * upstream_reusable(), the next may be sent. HTTP/2 (http2_client.h): a stream of a connection that
 * others share, good for one exchange.
 *
 * Owns:     the connection. Needs: a libuv loop, SIGPIPE ignored. Blocks: never.
 * Threads:  the loop's.
 *
 * on_end comes with 0 when the response has ended, also when the service did not wait for the whole
 * request; with -ECONNRESET when the service closed before that (a body that is cut off never looks
 * whole), -EPROTO when it does not speak HTTP/1.1 or the body written was not as long as announced.
 *
 * Credit works as in http.h: what the service sends waits for upstream_credit(); what is written to
 * it keeps to upstream_writable().
 */
#ifndef HTTP_UPSTREAM_H
#define HTTP_UPSTREAM_H

#include <uv.h>

#include "lib/base/err.h"
#include "lib/http/http.h"

struct upstream;

struct upstream_handler {
    /* 1xx other than 101 are not reported. Headers are valid during the call only; hop-by-hop ones
     * are still there. After status 101 both directions carry raw bytes. */
    void (*on_response)(void *ctx, int status, const struct http_header *headers, size_t n,
                        int64_t content_length);
    void (*on_body)(void *ctx, const void *data, size_t len);
    /* Trailers, before on_body_end; HTTP/2 only. NULL: not wanted. */
    void (*on_trailers)(void *ctx, const struct http_header *headers, size_t n);
    void (*on_body_end)(void *ctx);
    void (*on_credit)(void *ctx);         /* upstream_writable() has become positive again */
    void (*on_end)(void *ctx, int error); /* once per upstream_send(); never inside another call */
};

/* Takes the descriptor over, also on failure. */
must_check int upstream_new(uv_loop_t *loop, int fd, struct upstream **out, struct err *err);

/* HTTP/1.1 on a connection (lib/http/client_conn.h), which it owns from here on. */
struct client_conn;
struct upstream *upstream_on(struct client_conn *conn);

/* Sends a request's head. `target` is path and query as they are sent. content_length -1: chunked;
 * 0: no body. The framing headers among `headers` are left out and written anew; `host` must be
 * among them. For an upgrade, pass the headers connection and upgrade and set `tunnel`. */
void upstream_send(struct upstream *up, struct str method, struct str target,
                   const struct http_header *headers, size_t n, int64_t content_length, bool tunnel,
                   const struct upstream_handler *handler, void *ctx);
void upstream_write(struct upstream *up, const void *data, size_t len);
size_t upstream_writable(const struct upstream *up);

/* Writes as much of the body as there is room for, and finishes the request behind its last byte.
 * Returns the rest, for on_credit. */
struct str upstream_write_some(struct upstream *up, struct str body);
void upstream_finish(struct upstream *up);
void upstream_credit(struct upstream *up, size_t bytes);

/* While held, nothing is read and the service's end is not noticed; bytes that were read before may
 * still be delivered. False: it cannot be held, because others share its connection. */
bool upstream_hold(struct upstream *up, bool held);

/* After a good on_end: the service keeps the connection open and owes nothing. */
bool upstream_reusable(const struct upstream *up);

/* While it is idle: calls gone (once) when the service closes it. NULL undoes that. */
void upstream_idle(struct upstream *up, void (*gone)(void *ctx), void *ctx);

/* Closes at any time; an exchange under way gets no on_end. Accepts NULL. */
void upstream_close(struct upstream *up);

#endif
