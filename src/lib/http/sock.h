/* sock.h - one connected stream socket on the loop, used by lib/http/server.h and
 * lib/http/upstream.h.
 *
 * Owns:     the socket and what waits to be written to it.
 * Needs:    a libuv loop; an owner that embeds it and handles its events.
 * Blocks:   never.
 * Threads:  the loop's.
 *
 * Writes of one turn of the loop are gathered and leave in one system call; a large one leaves at
 * once, from the caller's memory, and only what the kernel did not take is copied. The memory for
 * that goes from one socket of the loop to the next. Reads go into the loop context's buffer; the
 * bytes are valid during the event only.
 *
 * The socket may be shared with a jail (lib/base/foreign.h): every read and write says itself that
 * it does not wait, and a socket that was handed over is closed on another thread.
 *
 * Events come from the loop only, never from inside a sock_*() call. The memory of a sock may go
 * when `closed` has been called, not earlier.
 */
#ifndef HTTP_SOCK_H
#define HTTP_SOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#include "lib/base/buf.h"
#include "lib/base/err.h"
#include "lib/base/str.h"
#include "lib/http/loop_context.h"

enum {
    SOCK_PARTS_MAX = 16,
};

struct sock;

struct sock_events {
    void (*data)(struct sock *sock, const char *data, size_t len);
    void (*end)(struct sock *sock, int error); /* 0: the peer sends no more; else it is dead */
    void (*run)(struct sock *sock);            /* sock_wake() was called */
    void (*written)(struct sock *sock);        /* sock_pending() may have shrunk */
    void (*closed)(struct sock *sock);
};

struct sock {
    uv_poll_t poll;
    int fd;
    int watched; /* what the loop waits for: UV_READABLE, UV_WRITABLE */
    struct loop_context *context;
    const struct sock_events *events;
    struct loop_task task;
    struct buf out;        /* gathered, not taken by the kernel yet */
    size_t read_limit;     /* of the next read; 0: not reading */
    int error;             /* of the first write that failed; 1 once it has been reported */
    bool is_tcp;           /* else it is a unix socket */
    bool is_own;           /* nobody else can have a copy of the descriptor */
    bool full;             /* the socket: more is written when it has room */
    bool shut, shut_asked; /* our sending half */
    bool eof, closing;
};

/* Takes the descriptor over, also on failure. After a failure the socket holds nothing. */
must_check int sock_open(struct sock *sock, const struct sock_events *events, uv_loop_t *loop,
                         int fd, struct err *err);

/* Takes the next connection of a listener. After a failure the socket holds nothing. */
must_check int sock_accept(struct sock *sock, const struct sock_events *events,
                           uv_stream_t *listener);

/* AF_UNIX or AF_INET(6) of a stream socket, or an error that says what the descriptor is
 * instead. */
must_check int sock_family(int fd, struct err *err);

void sock_write(struct sock *sock, const void *data, size_t len);
/* The same for bytes that lie in several places, at most SOCK_PARTS_MAX: they leave together. */
void sock_write_parts(struct sock *sock, const struct str *parts, size_t n);
size_t sock_pending(const struct sock *sock);

/* Moves up to `len` bytes that lie in a pipe, behind all that was written, without a copy. Returns
 * how many the kernel took; after fewer than `len`, `written` is called when there is room again.
 * Of a socket that only this program can have: its O_NONBLOCK decides whether this waits. */
size_t sock_splice(struct sock *sock, int pipe, size_t len);

/* Wants at most `limit` bytes per event; 0 stops reading. */
void sock_read(struct sock *sock, size_t limit);

void sock_wake(struct sock *sock);

/* Closes the sending half when all is written. */
void sock_shutdown(struct sock *sock);

/* reset: the peer of a TCP connection gets RST, so that it cannot take this for an orderly end. */
void sock_close(struct sock *sock, bool reset);

#endif
