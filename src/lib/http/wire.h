/* wire.h - one connected stream socket on the loop: what lib/http/server.h and lib/http/upstream.h
 * share.
 *
 * Owns:     the socket and what waits to be written to it.
 * Needs:    a libuv loop; an owner that embeds it and handles its events.
 * Blocks:   never.
 * Threads:  the loop's.
 *
 * Writes of one turn of the loop are gathered and leave in one system call; a large one leaves at
 * once, from the caller's memory, and only what the kernel did not take is copied. Reads go into
 * the hub's buffer and are lent to the owner for the time of the event.
 *
 * The socket may be shared with a jail (lib/base/foreign.h): every read and write says itself that
 * it does not wait, and a socket that was handed over is closed on another thread.
 *
 * Events come from the loop only, never from inside a wire_*() call. The memory of a wire may go
 * when `closed` has been called, not earlier.
 */
#ifndef HTTP_WIRE_H
#define HTTP_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#include "lib/base/buf.h"
#include "lib/base/err.h"
#include "lib/http/hub.h"

struct wire;

struct wire_events {
    void (*data)(struct wire *wire, const char *data, size_t len);
    void (*end)(struct wire *wire, int error); /* 0: the peer sends no more; else it is dead */
    void (*run)(struct wire *wire);            /* wire_wake() was called */
    void (*written)(struct wire *wire);        /* wire_pending() may have shrunk */
    void (*closed)(struct wire *wire);
};

struct wire {
    uv_poll_t poll;
    int fd;
    int watched; /* what the loop waits for: UV_READABLE, UV_WRITABLE */
    struct hub *hub;
    const struct wire_events *events;
    struct hub_task task;
    struct buf out;        /* gathered, not taken by the kernel yet */
    size_t read_limit;     /* of the next read; 0: not reading */
    int error;             /* the first that a write met; 1 once it has been reported */
    bool is_tcp;           /* else it is a unix socket */
    bool is_own;           /* nobody else can have a copy of the descriptor */
    bool full;             /* the socket: more is written when it has room */
    bool shut, shut_asked; /* our sending half */
    bool eof, closing;
};

/* Takes the descriptor over, also on failure. After a failure the wire holds nothing. */
must_check int wire_open(struct wire *wire, const struct wire_events *events, uv_loop_t *loop,
                         int fd, struct err *err);

/* Takes the next connection of a listener. After a failure the wire holds nothing. */
must_check int wire_accept(struct wire *wire, const struct wire_events *events,
                           uv_stream_t *listener);

/* AF_UNIX or AF_INET(6) of a stream socket, or an error that says what else it is. */
must_check int wire_family(int fd, struct err *err);

void wire_write(struct wire *wire, const void *data, size_t len);
size_t wire_pending(const struct wire *wire);

/* Wants at most `limit` bytes per event; 0 stops reading. */
void wire_read(struct wire *wire, size_t limit);

void wire_wake(struct wire *wire);

/* Closes the sending half when all is written. */
void wire_shutdown(struct wire *wire);

/* reset: the peer of a TCP connection gets RST, so that it cannot take this for an orderly end. */
void wire_close(struct wire *wire, bool reset);

#endif
