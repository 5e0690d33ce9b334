/* server.h - listening sockets and the connections they bring, HTTP/1.1 and HTTP/2 alike.
 *
 * Owns:     its listeners, its connections, their exchanges.
 * Needs:    a libuv loop; a handler of requests. TLS and HTTP/2 are handed in as tables, so that a
 *           program that wants neither does not link them. SIGPIPE must be ignored: libuv writes
 *           to sockets that their peer may have closed.
 * Blocks:   never.
 * Threads:  the loop's.
 *
 * Timeouts: a head must be complete in header_timeout_ms from its first byte (or from the
 * connection's start); between requests a connection may idle for idle_timeout_ms; a body or a
 * response that moves no byte while its peer owes some is ended after stall_timeout_ms (0: never).
 * A stream that waits for us (an idle WebSocket, a quiet command) is never ended by the server, nor
 * is an adopted connection before its first byte where adopted_may_wait says so.
 *
 * Room: when connections_max are open, the connection that has served no request for longest is
 * closed, or else one that was opened a second ago or more and has sent no request. Only when all
 * are busy is a new one answered 503. At most a quarter of all may have sent no request yet, not
 * counting those of the last second. Adopted connections are never closed to make room.
 */
#ifndef HTTP_SERVER_H
#define HTTP_SERVER_H

#include <stdint.h>
#include <uv.h>

#include "lib/base/err.h"
#include "lib/http/http.h"

struct http_server;
struct http_protocol; /* lib/http/internal.h; the one instance for others to name is below */
struct tls_context;   /* lib/http/tls.h */

extern const struct http_protocol http2_protocol; /* in http2.c: link it only when it is wanted */

struct http_server_options {
    uv_loop_t *loop;
    void (*on_request)(void *ctx, struct http_exchange *ex);
    void *ctx;
    const struct http_protocol *http2;    /* &http2_protocol, or NULL for HTTP/1.1 alone */
    uint32_t connections_max;             /* 0: 10,000; see below for one more */
    uint32_t header_timeout_ms;           /* 0: 10 s */
    bool adopted_may_wait;                /* those adopted wait for their first byte without end */
    uint32_t idle_timeout_ms;             /* 0: 75 s */
    uint32_t stall_timeout_ms;            /* 0: never */
    void (*closed)(void *ctx, void *tag); /* an adopted connection has closed; may be NULL */
};

must_check int http_server_new(const struct http_server_options *options, struct http_server **out,
                               struct err *err);

/* "127.0.0.1:3000", "[::1]:3000", "0.0.0.0:3000". Port 0 takes a free one; http_server_port()
 * tells it. tls NULL: plain HTTP, with h2c by prior knowledge when http2 is set. */
must_check int http_server_listen(struct http_server *server, const char *address,
                                  struct tls_context *tls, struct err *err);
int http_server_port(const struct http_server *server);

/* Whether the port is free at this moment: opens it and closes it again. */
must_check int http_address_check(const char *address, struct err *err);

/* A socket that listens there, for http_server_listen_fd(): a process that is about to give up the
 * privilege that a low port needs opens it first. Returns it, or -errno. */
must_check int http_address_open(const char *address, struct err *err);

/* Takes over a connected stream socket, or (http_server_listen_fd) a listening one, also on
 * failure. The requests of an adopted connection carry `tag`. */
must_check int http_server_adopt(struct http_server *server, int fd, void *tag, struct err *err);
must_check int http_server_listen_fd(struct http_server *server, int fd, struct tls_context *tls,
                                     struct err *err);

/* As http_server_adopt(), for a connection whose first bytes have been read already, and which may
 * speak TLS. The context must live until `closed` of the options has been called with the tag.
 * *out may be reset until then. */
struct http_conn;
must_check int http_server_adopt_begun(struct http_server *server, int fd, struct str first,
                                       struct tls_context *tls, void *tag, struct http_conn **out,
                                       struct err *err);
void http_conn_reset(struct http_conn *conn);

/* Resets the adopted connections. */
void http_server_drop_adopted(struct http_server *server);

/* Stops listening, lets running exchanges end, closes idle connections; calls done when none is
 * left, or after grace_ms, when the rest are reset. */
void http_server_stop(struct http_server *server, uint32_t grace_ms, void (*done)(void *ctx),
                      void *ctx);

/* Resets the connections that a stop is waiting for, without the grace. */
void http_server_hurry(struct http_server *server);

/* Call it after `done`, or when no connection was ever taken. Frees once libuv has closed its
 * handles. */
void http_server_free(struct http_server *server);

/* Connections that were closed for others: after a request, or before the first. */
enum http_evicted { HTTP_EVICTED_IDLE, HTTP_EVICTED_FRESH, HTTP_EVICTED_KINDS };

struct http_server_figures {
    uint64_t connections; /* open now */
    uint64_t exchanges;   /* under way now */
    uint64_t requests;    /* since the start */
    uint64_t silent;      /* open connections that have sent no whole request yet */
    uint64_t refused;     /* connections that there was no room for, since the start */
    uint64_t evicted[HTTP_EVICTED_KINDS]; /* closed to make room, since the start */
};
struct http_server_figures http_server_figures(const struct http_server *server);

#endif
