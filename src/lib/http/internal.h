/* internal.h - the interfaces inside http: exchange and protocol, protocol and connection, TLS.
 *
 * Three parts, each reached through a table so that a program links only what it names:
 *   exchange    what a handler holds; its operations are the protocol's
 *   protocol    HTTP/1.1 or HTTP/2: bytes in, exchanges out; knows no socket
 *   connection  the socket, TLS and the clock; knows no HTTP (conn.c; a fuzzer has its own)
 *
 * Calls go down (handler -> exchange -> protocol -> connection) at any time. Calls go up only from
 * the loop: a protocol that owes its handler a callback asks for http_conn_ops.wake() and makes it
 * in its resume(). So no object is freed while its caller still uses it.
 */
#ifndef HTTP_INTERNAL_H
#define HTTP_INTERNAL_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "lib/http/http.h"
#include "lib/http/note.h"

struct http_conn;
struct tls_context;

enum {
    HTTP_DRAIN_BYTES = 1024 * 1024, /* of a body without a reader, before the connection closes */
    HTTP_LINGER_BYTES = 64 * 1024 * 1024, /* read after the last answer, so that it is not reset */
    HTTP_LINGER_MS = 5000,                /* a closing connection that moves no byte for so long */
    HTTP_HALF_CLOSED_MS = 2000, /* a peer that sends no more and is sent nothing is gone */
};

/* ---- exchange ---- */

struct http_exchange_ops {
    void (*credit)(struct http_exchange *ex); /* ex->credit has grown */
    void (*respond)(struct http_exchange *ex, const struct http_header *headers, size_t n,
                    int64_t content_length); /* ex->status is set */
    /* `len` in all */
    void (*write)(struct http_exchange *ex, const struct str *parts, size_t n, size_t len);
    size_t (*pending)(const struct http_exchange *ex); /* bytes under way to the peer */
    /* NULL, or takes_pipe() is false: its bytes cannot come out of a pipe. */
    bool (*takes_pipe)(const struct http_exchange *ex);
    size_t (*splice)(struct http_exchange *ex, int pipe, size_t len);
    /* NULL: there are none. */
    void (*trailers)(struct http_exchange *ex, const struct http_header *headers, size_t n);
    void (*finish)(struct http_exchange *ex);
    void (*abort)(struct http_exchange *ex, int error);
};

struct http_exchange {
    const struct http_exchange_ops *ops;
    const struct http_handler *handler; /* NULL until http_accept() */
    void *ctx;
    void (*release)(void *ctx); /* http_charge(); NULL: nothing was taken for it */
    void *release_ctx;
    struct http_request request;
    const struct http_header *also; /* for the response, besides its own */
    size_t also_n;
    size_t credit;
    int status;    /* of the response; 0 before http_respond() */
    bool answered; /* http_respond() was called, perhaps too late */
    bool finished; /* http_finish() was called */
    bool blocked;  /* the handler may be waiting for on_credit */
    bool over;     /* nothing but on_end(error) is to come: calls of the handler do nothing */
    int error;
    int64_t moved_ms;       /* when the peer last did its part: see http_exchange_stalled() */
    size_t moved_pending;   /* what was under way then */
    struct http_note *note; /* note.h; NULL: nobody watches */
    void (*noted)(struct http_note *note, const struct http_request *req,
                  const struct http_carried *carried);
    uint64_t bytes_in, bytes_out; /* of the bodies */
};

/* Marks it over, once. The protocol calls http_exchange_end() from its resume(). */
void http_exchange_fail(struct http_exchange *ex, int error);
void http_exchange_end(struct http_exchange *ex);

void http_exchange_body(struct http_exchange *ex, const char *data, size_t len);
void http_exchange_body_end(struct http_exchange *ex);

/* Calls on_credit when the handler was blocked and half of the window is free again. */
void http_exchange_unblock(struct http_exchange *ex);

/* `owed`: the peer has bytes to send that there is credit for. Bytes under way are owed as well. */
bool http_exchange_stalled(struct http_exchange *ex, bool owed, int64_t now_ms, uint32_t stall_ms);

/* ---- connection ---- */

enum http_phase {
    HTTP_PHASE_UNUSED,      /* nothing has come, and nothing needs to */
    HTTP_PHASE_HEAD,        /* a head, or the connection's first byte, is awaited */
    HTTP_PHASE_IDLE,        /* between requests */
    HTTP_PHASE_BUSY,        /* exchanges under way: each has its own clock */
    HTTP_PHASE_HALF_CLOSED, /* the peer sends no more but waits for an answer, or so it seems */
    HTTP_PHASE_CLOSING,
};

enum http_close {
    HTTP_CLOSE_FLUSH, /* write what is pending, then close without losing it */
    HTTP_CLOSE_RESET,
};

struct http_conn_ops {
    void (*write)(struct http_conn *conn, const void *data, size_t len);
    void (*write_parts)(struct http_conn *conn, const struct str *parts, size_t n);
    size_t (*pending)(const struct http_conn *conn);
    bool (*takes_pipe)(const struct http_conn *conn); /* NULL: never */
    size_t (*splice)(struct http_conn *conn, int pipe, size_t len);
    void (*wake)(struct http_conn *conn);     /* resume() soon, from the loop */
    void (*shutdown)(struct http_conn *conn); /* our sending half, when all is written */
    void (*close)(struct http_conn *conn, enum http_close how);
    void (*request)(struct http_conn *conn, struct http_exchange *ex); /* to the server's user */
    void (*ended)(struct http_conn *conn);                             /* one exchange less */
};

struct http_conn {
    const struct http_conn_ops *ops;
    uv_loop_t *loop;
    void *tag;
    bool secure;
    bool stopping; /* the server is: answer what is under way, take nothing new */
    char peer[INET6_ADDRSTRLEN];
    enum http_phase phase;
    int64_t since_ms; /* when the phase began or, in those that wait for movement, last moved */
};

static inline void http_conn_phase(struct http_conn *conn, enum http_phase phase)
{
    if (conn->phase != phase) {
        conn->phase = phase;
        conn->since_ms = (int64_t)uv_now(conn->loop);
    }
}

/* ---- protocol ---- */

struct http_protocol {
    void *(*open)(struct http_conn *conn);
    size_t (*want)(const void *protocol); /* bytes it can take now; 0 stops the reading */
    void (*input)(void *protocol, const char *data, size_t len);
    void (*eof)(void *protocol);
    void (*resume)(void *protocol);
    void (*written)(void *protocol); /* pending() may have shrunk */
    void (*sweep)(void *protocol, int64_t now_ms, uint32_t stall_ms); /* 0: nothing ever stalls */
    void (*expire)(void *protocol);          /* the phase has lasted too long */
    void (*stop)(void *protocol);            /* conn->stopping has been set */
    void (*gone)(void *protocol, int error); /* the connection is dead: ends exchanges, frees */
};

extern const struct http_protocol http1_protocol;

/* ---- TLS ---- */

struct tls_session;

struct tls_ops {
    struct tls_session *(*open)(struct tls_context *tls,
                                void (*send)(void *ctx, const void *data, size_t len), void *ctx);
    void (*free)(struct tls_session *session);

    /* Gives ciphertext to read from; it is valid until hold(), which copies the unread rest. */
    void (*feed)(struct tls_session *session, const char *data, size_t len);
    int (*hold)(struct tls_session *session);

    /* Plaintext: its length, 0 at the peer's orderly end, -EAGAIN when more is needed, -EPROTO. */
    long (*read)(struct tls_session *session, char *out, size_t size);
    int (*write)(struct tls_session *session, const void *data, size_t len);
    void (*shutdown)(struct tls_session *session);
    bool (*is_http2)(const struct tls_session *session);
};

/* The public context begins with this. */
struct tls_context {
    const struct tls_ops *ops;
};

#endif
