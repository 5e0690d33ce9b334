/* forward.h - one request from a client to a server, and its answer back.
 *
 *      client ◄── http_exchange ──┤ forward ├── upstream ──► server
 *
 * Nothing is gathered: each side is given as much credit as the other can take, so a slow reader
 * stops the writer behind it.
 *
 * Owns:     the exchange from forward_accept() on, the upstream from forward_send() to
 *           on_upstream_end. Needs: an owner that embeds it. Blocks: never. Threads: the loop's.
 */
#ifndef HTTP_FORWARD_H
#define HTTP_FORWARD_H

#include "lib/http/http.h"
#include "lib/http/upstream.h"

struct forward_events {
    /* The answer has begun: the owner passes it on with forward_respond(). As upstream.h's. */
    void (*on_response)(void *ctx, int status, const struct http_header *headers, size_t n,
                        int64_t content_length);
    /* The answer's body, for an owner that changes it and writes the result to the exchange. NULL:
     * the body is passed on unchanged. Both or none are set; with them trailers are left out. */
    void (*on_body)(void *ctx, const void *data, size_t len);
    void (*on_body_end)(void *ctx);
    /* The upstream has ended and is the owner's. With an error, and nothing answered, the owner
     * answers or sends again; an answer that was cut off has been reset already. */
    void (*on_upstream_end)(void *ctx, struct upstream *up, int error);
    /* Both sides are over: the last event. */
    void (*on_over)(void *ctx);
};

struct forward {
    const struct forward_events *events;
    void *ctx;
    struct http_exchange *ex; /* NULL: over */
    struct upstream *up;      /* NULL: none yet, or over */
    bool body_taken;          /* part of the request's body was read: it cannot be sent again */
    bool request_ended;       /* the client has sent all */
    bool request_finished;    /* the server was told so */
    bool answered;            /* http_respond() was called */
    bool answer_ended;
    bool keeps; /* set by the owner: an upstream that ends does not end the answer, which goes on
                   from the next one (forward_continue()) */
    size_t request_credit; /* bytes the client may send and has not */
    size_t answer_credit;  /* bytes the server may send and has not */
};

void forward_accept(struct forward *c, struct http_exchange *ex,
                    const struct forward_events *events, void *ctx);

/* The request's own method, path, query and body, with these headers. */
must_check int forward_send(struct forward *c, struct upstream *up,
                            const struct http_header *headers, size_t n);
/* The same with another path and query. */
void forward_send_to(struct forward *c, struct upstream *up, struct str target,
                     const struct http_header *headers, size_t n);

/* For an owner that keeps the client's half open: asks for the rest of an answer that has begun.
 * Its head comes to on_response, which does not pass it on; forward_go_on() then takes the body.
 * The request has ended, and `body` is short. */
void forward_continue(struct forward *c, struct upstream *up, struct str method, struct str target,
                      const struct http_header *headers, size_t n, struct str body);
void forward_go_on(struct forward *c);

void forward_respond(struct forward *c, int status, const struct http_header *headers, size_t n,
                     int64_t content_length);

/* Whether an answer can still be given here. If so the caller gives it, whole, on c->ex. Otherwise
 * an answer that has begun is reset. */
bool forward_may_answer(struct forward *c);

/* Closes the upstream: for an owner that frees itself. */
void forward_fini(struct forward *c);

#endif
