#include "serve/egress/tls_pipe.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "lib/base/alloc.h"
#include "lib/base/fd.h"
#include "lib/http/client_conn.h"
#include "lib/http/tls_client.h"
#include "serve/egress/internal.h"

enum {
    PIPE_READ_BYTES = 64 * 1024,
    PIPE_PENDING_MAX = 64 * 1024, /* one side rests while the other has so much to write */
};

struct side {
    struct tls_pipe *pipe;
    struct side *other;
    struct client_conn *conn; /* NULL: closed */
    bool ended;               /* it sends no more */
};

struct tls_pipe {
    struct side far, near; /* the server; the user */
    int user_fd;           /* until it is handed out */
    tls_pipe_ready *ready; /* NULL: told, or nobody waits */
    void *ctx;
    uv_timer_t timer; /* runs once one side has ended */
    bool timer_open;
    bool closing;
};

static void on_timer_closed(uv_handle_t *handle);

static void pipe_close(struct tls_pipe *pipe, bool reset)
{
    if (pipe->closing) {
        return;
    }
    pipe->closing = true;
    pipe->ready = NULL;
    uv_close((uv_handle_t *)&pipe->timer, on_timer_closed);
    if (pipe->far.conn) {
        client_conn_close(pipe->far.conn, reset);
    }
    client_conn_close(pipe->near.conn, reset);
}

static void pipe_check(struct tls_pipe *pipe)
{
    if (!pipe->far.conn && !pipe->near.conn && !pipe->timer_open) {
        fd_closep(&pipe->user_fd);
        free(pipe);
    }
}

static void on_closed(void *ctx)
{
    struct side *side = ctx;

    side->conn = NULL;
    pipe_check(side->pipe);
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct tls_pipe *pipe = handle->data;

    pipe->timer_open = false;
    pipe_check(pipe);
}

static void on_silence(uv_timer_t *timer)
{
    pipe_close(timer->data, true);
}

/* A direction may stay silent without limit only while the other is open: there is no event when
 * the user has closed its end completely. */
static void patience(struct tls_pipe *pipe)
{
    if (pipe->far.ended || pipe->near.ended) {
        (void)uv_timer_start(&pipe->timer, on_silence, EGRESS_HALF_OPEN_MS, 0);
    }
}

static void on_data(void *ctx, const char *data, size_t len)
{
    struct side *side = ctx;

    if (side->pipe->closing) {
        return;
    }
    patience(side->pipe);
    client_conn_write(side->other->conn, data, len);
    if (client_conn_pending(side->other->conn) > PIPE_PENDING_MAX) {
        client_conn_read(side->conn, 0);
    }
}

/* Nothing more comes from either side: it closes once all that came is written. */
static void pipe_finish(struct tls_pipe *pipe)
{
    if (pipe->far.ended && pipe->near.ended && client_conn_pending(pipe->far.conn) == 0 &&
        client_conn_pending(pipe->near.conn) == 0) {
        pipe_close(pipe, false);
    }
}

static void on_end(void *ctx, int error)
{
    struct side *side = ctx;
    struct tls_pipe *pipe = side->pipe;

    side->ended = true;
    if (pipe->closing) {
        return;
    }
    if (error < 0) {
        pipe_close(pipe, true);
        return;
    }
    client_conn_shutdown(side->other->conn);
    patience(pipe);
    pipe_finish(pipe);
}

static void on_written(void *ctx)
{
    struct side *side = ctx;

    if (side->pipe->closing) {
        return;
    }
    if (!side->pipe->ready && !side->other->ended &&
        client_conn_pending(side->conn) <= PIPE_PENDING_MAX) {
        client_conn_read(side->other->conn, PIPE_READ_BYTES);
    }
    pipe_finish(side->pipe);
}

static void on_run(void *ctx)
{
    (void)ctx;
}

static const struct client_conn_events events = {
    .data = on_data, .end = on_end, .run = on_run, .written = on_written, .closed = on_closed};

static void on_secured(void *ctx, int error, const struct err *err)
{
    struct side *side = ctx;
    struct tls_pipe *pipe = side->pipe;
    tls_pipe_ready *ready = pipe->ready;
    void *to = pipe->ctx;

    if (!ready) {
        return; /* cancelled */
    }
    pipe->ready = NULL;
    if (error < 0) {
        pipe_close(pipe, true);
        ready(to, error, err);
        return;
    }
    client_conn_read(pipe->far.conn, PIPE_READ_BYTES);
    client_conn_read(pipe->near.conn, PIPE_READ_BYTES);
    ready(to, move_fd(&pipe->user_fd), err);
}

int tls_pipe_start(uv_loop_t *loop, int fd, struct tls_trust *trust, const char *name,
                   tls_pipe_ready *ready, void *ctx, struct tls_pipe **out, struct err *err)
{
    scoped_fd given = fd;
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0) {
        return err_set(err, errno, "no socket pair can be made");
    }
    struct tls_pipe *pipe = xnew(struct tls_pipe);
    *pipe = (struct tls_pipe){.user_fd = pair[1], .ready = ready, .ctx = ctx};
    pipe->far = (struct side){.pipe = pipe, .other = &pipe->near};
    pipe->near = (struct side){.pipe = pipe, .other = &pipe->far};
    int r = client_conn_open(loop, pair[0], &events, &pipe->near, &pipe->near.conn, err);
    if (r < 0) {
        fd_closep(&pipe->user_fd);
        free(pipe);
        return r;
    }
    (void)uv_timer_init(loop, &pipe->timer);
    pipe->timer.data = pipe;
    pipe->timer_open = true;
    r = client_conn_open(loop, move_fd(&given), &events, &pipe->far, &pipe->far.conn, err);
    if (r < 0) {
        pipe_close(pipe, true);
        return r;
    }
    tls_client_secure(pipe->far.conn, trust, name, TLS_OFFER_NONE, on_secured);
    *out = pipe;
    return 0;
}

void tls_pipe_cancel(struct tls_pipe *pipe)
{
    if (pipe) {
        pipe_close(pipe, true);
    }
}
