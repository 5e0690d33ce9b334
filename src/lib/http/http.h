/* http.h - one request and its response, over HTTP/1.1 or HTTP/2.
 *
 * http1.c (llhttp) and http2.c (nghttp2) both speak this, so a handler or the proxy never knows
 * which it has. Bodies stream in both directions and are never gathered: each side gives the other
 * credit in bytes, and a side with no credit stops reading its socket. Memory per exchange is thus
 * bounded by HTTP_WINDOW_BYTES each way, whatever the size of the upload.
 *
 * Life of an exchange, all on the loop's thread:
 *   server's on_request(ctx, ex)           the head is complete; http_request(ex) describes it
 *   http_accept(ex, handler, ctx)          exactly once, inside on_request
 *   http_credit(ex, n)                     the handler takes n more bytes of body (starts at 0)
 *   handler.on_body ... on_body_end        never more than the credit given
 *   http_respond(ex, ...)                  once; may come before the request's body has ended
 *   http_write(ex, ...) ... http_finish(ex)
 *   handler.on_end(ctx, error)             exactly once; after it `ex` and its request are dead
 *
 * on_end comes with 0 when both directions ended well, and with -errno when the peer went away
 * (-ECONNRESET), a limit was passed (-EMSGSIZE), a timeout fired (-ETIMEDOUT) or http_abort() was
 * called (its error), a body was malformed (-EPROTO). It is never called inside http_write,
 * http_finish, http_credit or http_abort, but from the loop afterwards: a handler may touch its own
 * state after those calls. http_finish() before the body has ended gives up the rest of it: the
 * connection drops it, or closes.
 *
 * Tunnels: a request whose `upgrade` is set may be answered with status 101, by a handler that says
 * so in `tunnels`. From then on on_body and http_write carry raw bytes, http_finish closes our
 * sending half, on_body_end is the peer's.
 */
#ifndef HTTP_HTTP_H
#define HTTP_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/buf.h"
#include "lib/base/compiler.h"
#include "lib/base/str.h"

enum {
    HTTP_WINDOW_BYTES = 256 * 1024,    /* bytes under way in one direction of one exchange */
    HTTP_HEADER_BYTES_MAX = 32 * 1024, /* neither llhttp nor nghttp2 bounds this for us */
    HTTP_HEADERS_MAX = 128,
    HTTP_TARGET_BYTES_MAX = 16 * 1024,
    HTTP_PARTS_MAX = 8, /* of one write */
};

struct http_header {
    struct str name; /* lower case */
    struct str value;
};

struct http_request {
    struct str method;    /* "GET" */
    struct str scheme;    /* "http" or "https" */
    struct str authority; /* Host or :authority, as sent */
    struct str path;      /* up to '?', still percent-encoded; begins with '/', or is "*" */
    struct str query;     /* after '?', empty when there is none */
    struct str peer;      /* "127.0.0.1"; empty for a unix socket */
    const struct http_header *headers;
    size_t headers_n;
    int64_t content_length; /* -1: unknown; 0: there is no body */
    bool upgrade;           /* asks for a tunnel: Connection: upgrade, with an Upgrade header */
    bool secure;            /* came over TLS */
    bool multiplexed;       /* its connection carries others at the same time: HTTP/2 */
    void *connection_tag;   /* what http_server_adopt() was given; NULL for an accepted one */
};

struct http_exchange; /* the connection's half; opaque */

/* The callbacks of the handler's half. Each may be NULL, except on_end. */
struct http_handler {
    bool tunnels;    /* it may answer with 101: on_body_end waits until it has answered otherwise */
    bool needs_peer; /* a peer that closes its sending half is gone: what is written is not lost */
    void (*on_body)(void *ctx, const void *data, size_t len);
    void (*on_body_end)(void *ctx);
    void (*on_credit)(void *ctx); /* http_writable() has become positive again */
    void (*on_end)(void *ctx, int error);
};

/* Valid until on_end. */
const struct http_request *http_request(const struct http_exchange *ex);

void http_accept(struct http_exchange *ex, const struct http_handler *handler, void *ctx);
void http_credit(struct http_exchange *ex, size_t bytes);

/* Calls `release` once when the exchange has ended, after on_end, to give back a resource that was
 * taken for it. Inside on_request; a second call replaces the first, whose release is called at
 * once. */
void http_charge(struct http_exchange *ex, void (*release)(void *ctx), void *ctx);

/* content_length -1: unknown, so chunked on HTTP/1.1. Header names are sent as given; `date` and
 * the framing headers (content-length, transfer-encoding, connection, keep-alive) are the
 * connection's own: those given are left out. */
void http_respond(struct http_exchange *ex, int status, const struct http_header *headers, size_t n,
                  int64_t content_length);

/* Headers that are added to the exchange's answer, whichever code answers (CORS, for example).
 * Before http_accept(); borrowed until the answer, so best static. */
void http_also(struct http_exchange *ex, const struct http_header *headers, size_t n);

/* Copies. A stream must not exceed http_writable(); a small complete answer need not ask. */
void http_write(struct http_exchange *ex, const void *data, size_t len);
/* The same for bytes that lie in several places, at most HTTP_PARTS_MAX. */
void http_write_parts(struct http_exchange *ex, const struct str *parts, size_t n);
size_t http_writable(const struct http_exchange *ex);
/* Writes as much as the peer takes now, and returns how much that was. The rest is for on_credit.
 */
size_t http_write_some(struct http_exchange *ex, const void *data, size_t len);
/* Whether the body can come out of a pipe, once it has been answered: the peer is sent the bytes as
 * they are, with a length that it was told before. */
bool http_takes_pipe(const struct http_exchange *ex);
/* Moves up to `len` bytes that lie in the pipe, without a copy, and returns how many; when it is
 * fewer, the rest is for on_credit. */
size_t http_splice(struct http_exchange *ex, int pipe, size_t len);
/* Before http_finish(): fields that follow the body. HTTP/1.1 leaves them out. Copies. */
void http_trailers(struct http_exchange *ex, const struct http_header *headers, size_t n);
void http_finish(struct http_exchange *ex);

/* Ends the exchange without a proper end: the connection is reset (RST, RST_STREAM), so that a
 * client cannot take the part it has for the whole. */
void http_abort(struct http_exchange *ex, int error);

/* ---- conveniences over the above ---- */

/* The value of a header, or a str with at == NULL. */
struct str http_header_get(const struct http_request *req, const char *name);

/* Whether the value of an Accept header has a type, "text/event-stream", by name or by a wildcard.
 */
bool http_accepts(struct str accept, const char *type);

/* The value of a query parameter, percent-decoded into *out. 1 found, 0 not there, -EINVAL. */
must_check int http_query_get(struct str query, const char *name, struct buf *out);

/* A whole answer in one call. `type` may be NULL when len is 0. */
void http_reply(struct http_exchange *ex, int status, const char *type, const void *body,
                size_t len);

/* As http_reply(), with more headers. */
void http_reply_with(struct http_exchange *ex, int status, const struct http_header *headers,
                     size_t n, const char *type, const void *body, size_t len);

/* Accepts the exchange and gathers its body, at most max bytes; then calls done once with the whole
 * body, or with the error: -EMSGSIZE when it was longer, -ECONNRESET when the client left. After an
 * error other than -EMSGSIZE no answer can be sent. `done` answers now or later; when the client
 * leaves before the answer, `gone` (may be NULL) is called once instead of nothing, and the
 * exchange is dead. The body is valid until `done` returns. A body whose announced length is too
 * long is told inside this call; with max 0 any body is. */
void http_gather(struct http_exchange *ex, size_t max,
                 void (*done)(void *ctx, struct http_exchange *ex, int error, struct str body),
                 void (*gone)(void *ctx), void *ctx);

/* As http_gather(), for an answer that takes long: a client that closes its sending half is gone.
 */
void http_gather_watched(struct http_exchange *ex, size_t max,
                         void (*done)(void *ctx, struct http_exchange *ex, int error,
                                      struct str body),
                         void (*gone)(void *ctx), void *ctx);

/* Answers a request that has no use for its body: accepts, drops the body, replies. */
void http_answer(struct http_exchange *ex, int status, const char *type, const void *body,
                 size_t len);

const char *http_reason(int status);

#endif
