/* fuzz_conn.h - a whole connection through a real protocol, on a transport made of memory.
 *
 * The first byte of the input says how the rest is cut into reads and how fast the peer takes what
 * is written to it. Behind the protocol are the handlers of tests/unit/http_app.c: echoes, tunnels,
 * answers that come early, late, or never. At the end every exchange must have ended exactly once.
 */
#ifndef TESTS_FUZZ_CONN_H
#define TESTS_FUZZ_CONN_H

#include <stdlib.h>
#include <string.h>

#include "http_app.h"
#include "lib/http/internal.h"

enum {
    FUZZ_TURNS_MAX =
        10000, /* of the loop: input is short, so a turn that changes nothing is a bug */
};

struct fuzz_conn {
    struct http_conn base;
    struct app app;
    size_t pending;
    size_t taken_per_turn;
    bool awake, closed, reset, shut;
    unsigned ended;
};

static struct fuzz_conn *fuzz_of(struct http_conn *base)
{
    return container_of(base, struct fuzz_conn, base);
}

static void fuzz_write(struct http_conn *base, const void *data, size_t len)
{
    static char sink[4096];
    const char *at = data;

    for (size_t n; len > 0; at += n, len -= n) {
        n = len < sizeof(sink) ? len : sizeof(sink);
        memcpy(sink, at, n); /* every byte must be there to read */
        fuzz_of(base)->pending += n;
    }
    fuzz_of(base)->awake = true;
}

static void fuzz_write_parts(struct http_conn *base, const struct str *parts, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        fuzz_write(base, parts[i].at, parts[i].len);
    }
}

static size_t fuzz_pending(const struct http_conn *base)
{
    return ((const struct fuzz_conn *)base)->pending;
}

static void fuzz_wake(struct http_conn *base)
{
    fuzz_of(base)->awake = true;
}

static void fuzz_shutdown(struct http_conn *base)
{
    fuzz_of(base)->shut = true;
}

static void fuzz_close(struct http_conn *base, enum http_close how)
{
    fuzz_of(base)->closed = true;
    fuzz_of(base)->reset = how == HTTP_CLOSE_RESET;
    fuzz_of(base)->awake = true;
}

static void fuzz_request(struct http_conn *base, struct http_exchange *ex)
{
    app_request(&fuzz_of(base)->app, ex);
}

static void fuzz_ended(struct http_conn *base)
{
    fuzz_of(base)->ended++;
}

static const struct http_conn_ops fuzz_ops = {
    .write = fuzz_write,
    .write_parts = fuzz_write_parts,
    .pending = fuzz_pending,
    .wake = fuzz_wake,
    .shutdown = fuzz_shutdown,
    .close = fuzz_close,
    .request = fuzz_request,
    .ended = fuzz_ended,
};

/* One turn of the loop: what was asked for is called, the peer takes some of what waits. */
static void fuzz_turn(struct fuzz_conn *conn, const struct http_protocol *protocol, void *state)
{
    conn->awake = false;
    protocol->resume(state);
    conn->pending -= conn->pending < conn->taken_per_turn ? conn->pending : conn->taken_per_turn;
    protocol->written(state);
}

static void fuzz_settle(struct fuzz_conn *conn, const struct http_protocol *protocol, void *state)
{
    int turns = 0;

    while (conn->awake || (conn->pending > 0 && !conn->reset)) {
        fuzz_turn(conn, protocol, state);
        if (++turns > FUZZ_TURNS_MAX) {
            if (conn->pending == 0) {
                abort(); /* awake for nothing */
            }
            return; /* a download without end: the peer leaves */
        }
    }
}

static void fuzz_feed(struct fuzz_conn *conn, const struct http_protocol *protocol, void *state,
                      const char *data, size_t len, size_t piece)
{
    while (len > 0 && !conn->closed) {
        size_t n = protocol->want(state);
        n = n < piece ? n : piece;
        n = n < len ? n : len;
        if (n == 0) {
            fuzz_settle(conn, protocol, state);
            app_release(&conn->app);
            fuzz_settle(conn, protocol, state);
            if (protocol->want(state) == 0) {
                return; /* the handler takes no more: a real peer would have to wait */
            }
            continue;
        }
        char *copy = malloc(n); /* so that reading beyond it is seen */
        if (!copy) {
            abort();
        }
        memcpy(copy, data, n);
        protocol->input(state, copy, n);
        free(copy);
        data += n;
        len -= n;
        fuzz_turn(conn, protocol, state);
    }
}

static void fuzz_connection(const struct http_protocol *protocol, const uint8_t *data, size_t size)
{
    static uv_loop_t loop;
    static bool ready;

    if (!ready) {
        ready = uv_loop_init(&loop) == 0;
    }
    if (size == 0) {
        return;
    }
    struct fuzz_conn *conn = calloc(1, sizeof(*conn));
    if (!conn) {
        abort();
    }
    size_t piece = (size_t)1 << (data[0] & 15);
    conn->taken_per_turn = data[0] & 16 ? SIZE_MAX : 4096;
    conn->base.ops = &fuzz_ops;
    conn->base.loop = &loop;
    conn->base.stopping = data[0] & 32;
    void *state = protocol->open(&conn->base);
    fuzz_feed(conn, protocol, state, (const char *)data + 1, size - 1, piece);
    if (!conn->closed && (data[0] & 64)) {
        protocol->eof(state);
    }
    fuzz_settle(conn, protocol, state);
    app_release(&conn->app);
    fuzz_settle(conn, protocol, state);
    if (!conn->closed && (data[0] & 128)) {
        protocol->sweep(state, INT64_MAX / 2, 1);
        protocol->expire(state);
        fuzz_settle(conn, protocol, state);
    }
    protocol->gone(state, -1);
    if (conn->ended != conn->app.requests) {
        abort();
    }
    free(conn);
}

#endif
