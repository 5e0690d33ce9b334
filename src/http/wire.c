#include "http/wire.h"

#include <assert.h>
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"

enum {
    OUT_BYTES_MAX =
        64 * 1024 * 1024,     /* far above any window: only an answer sent whole comes near */
    DIRECT_BYTES = 16 * 1024, /* from here on a write leaves without waiting for others */
    ERROR_REPORTED = 1,
};

struct wire_flight {
    uv_write_t req;
    struct wire *wire;
    struct buf data;
};

static void wire_task(struct hub_task *task);

static void wire_init(struct wire *w, const struct wire_events *events, uv_loop_t *loop)
{
    *w = (struct wire){.events = events, .hub = hub_get(loop), .task = {.run = wire_task}};
    buf_init(&w->out, OUT_BYTES_MAX);
}

int wire_family(int fd, struct err *err)
{
    int family = 0;
    int type = 0;
    socklen_t len = sizeof(family);

    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &len) < 0 ||
        getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) < 0) {
        return err_sys(err, "take over descriptor %d", fd);
    }
    if (type != SOCK_STREAM || (family != AF_UNIX && family != AF_INET && family != AF_INET6)) {
        return err_set(err, EPROTOTYPE, "descriptor %d is not a TCP or unix stream socket", fd);
    }
    return family;
}

static int wire_attach(struct wire *w, int family, int fd)
{
    if (family == AF_UNIX) {
        uv_pipe_init(w->hub->loop, &w->uv.pipe, 0);
        return uv_pipe_open(&w->uv.pipe, fd);
    }
    uv_tcp_init(w->hub->loop, &w->uv.tcp);
    return uv_tcp_open(&w->uv.tcp, fd);
}

/* Writes are gathered here already. A failure costs delay, not bytes. */
static void wire_nodelay(struct wire *w)
{
    if (w->uv.handle.type == UV_TCP) {
        (void)uv_tcp_nodelay(&w->uv.tcp, 1);
    }
}

int wire_open(struct wire *w, const struct wire_events *events, uv_loop_t *loop, int fd,
              struct err *err)
{
    scoped_fd own = fd;
    int family = wire_family(fd, err);

    if (family < 0) {
        return family;
    }
    wire_init(w, events, loop);
    int r = wire_attach(w, family, fd);
    /* A descriptor just checked is refused only when this loop watches it already: our own bug. */
    assert(r == 0);
    (void)move_fd(&own);
    wire_nodelay(w);
    return 0;
}

int wire_accept(struct wire *w, const struct wire_events *events, uv_stream_t *listener)
{
    wire_init(w, events, listener->loop);
    if (listener->type == UV_TCP) {
        uv_tcp_init(listener->loop, &w->uv.tcp);
    } else {
        uv_pipe_init(listener->loop, &w->uv.pipe, 0);
    }
    int r = uv_accept(listener, &w->uv.stream);
    if (r == 0) {
        wire_nodelay(w);
    }
    return r;
}

void wire_wake(struct wire *w)
{
    if (!w->closing) {
        hub_queue(w->hub, &w->task);
    }
}

static void wire_fail(struct wire *w, int error)
{
    if (w->error == 0) {
        w->error = error;
    }
    buf_fini(&w->out);
    wire_wake(w);
}

/* Offers what was gathered and then `data` to the kernel; returns how much of `data` it took. */
static size_t wire_try(struct wire *w, const void *data, size_t len)
{
    size_t queued = buf_len(&w->out);
    uv_buf_t parts[2] = {
        {.base = queued ? buf_at(&w->out) : NULL, .len = queued},
        {.base = (char *)(uintptr_t)data,
         .len = len}, /* libuv's type has no const; it only reads */
    };
    unsigned first = queued ? 0 : 1;
    unsigned n = (queued ? 1U : 0U) + (len ? 1U : 0U);
    int r = n ? uv_try_write(&w->uv.stream, parts + first, n) : 0;

    if (r == UV_EAGAIN) {
        return 0;
    }
    if (r < 0) {
        wire_fail(w, r);
        return len;
    }
    size_t done = (size_t)r;
    size_t of_queued = done < queued ? done : queued;
    buf_consume(&w->out, of_queued);
    return done - of_queued;
}

void wire_write(struct wire *w, const void *data, size_t len)
{
    size_t done = 0;

    if (w->error || w->closing || w->shut_asked) {
        return;
    }
    if (!w->flight && buf_len(&w->out) + len >= DIRECT_BYTES) {
        done = wire_try(w, data, len);
    }
    if (done < len && buf_append(&w->out, (const char *)data + done, len - done) < 0) {
        wire_fail(w, -ENOBUFS);
    }
    wire_wake(w);
}

size_t wire_pending(const struct wire *w)
{
    return buf_len(&w->out) + (w->flight ? uv_stream_get_write_queue_size(&w->uv.stream) : 0);
}

static void wire_flush(struct wire *w);

static void wire_report(struct wire *w)
{
    if (w->error < 0 && !w->closing) {
        int error = w->error;
        w->error = ERROR_REPORTED;
        w->events->end(w, error);
    }
}

static void flight_done(uv_write_t *req, int status)
{
    struct wire_flight *flight = container_of(req, struct wire_flight, req);
    struct wire *w = flight->wire;

    buf_fini(&flight->data);
    free(flight);
    w->flight = NULL;
    if (w->closing) {
        return;
    }
    if (status < 0) {
        wire_fail(w, status);
    }
    wire_flush(w);
    w->events->written(w);
    wire_report(w);
}

static void wire_fly(struct wire *w)
{
    struct wire_flight *flight = xnew(struct wire_flight);
    uv_buf_t part = {.base = buf_at(&w->out), .len = buf_len(&w->out)};

    flight->wire = w;
    flight->data = w->out;
    buf_init(&w->out, OUT_BYTES_MAX);
    w->flight = flight;
    int r = uv_write(&flight->req, &w->uv.stream, &part, 1, flight_done);
    if (r < 0) {
        w->flight = NULL;
        buf_fini(&flight->data);
        free(flight);
        wire_fail(w, r);
    }
}

static void wire_flush(struct wire *w)
{
    if (w->flight || w->error || w->closing) {
        return;
    }
    if (buf_len(&w->out) > 0) {
        (void)wire_try(w, NULL, 0);
    }
    if (buf_len(&w->out) > 0) {
        wire_fly(w);
        return;
    }
    buf_fini(&w->out); /* an idle connection keeps no buffer */
    if (w->shut_asked && !w->shut) {
        uv_os_fd_t fd;
        w->shut = true;
        if (uv_fileno(&w->uv.handle, &fd) == 0) {
            (void)shutdown(fd, SHUT_WR); /* fails only where the peer is gone already */
        }
    }
}

static void wire_task(struct hub_task *task)
{
    struct wire *w = container_of(task, struct wire, task);

    w->events->run(w);
    wire_flush(w);
    if (!w->closing) {
        w->events->written(w);
    }
    wire_report(w);
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *out)
{
    struct wire *w = container_of(handle, struct wire, uv.handle);

    (void)suggested;
    out->base = w->hub->read_bytes;
    out->len = w->read_limit < HUB_READ_BYTES ? w->read_limit : HUB_READ_BYTES;
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct wire *w = container_of(stream, struct wire, uv.stream);

    if (n > 0) {
        w->events->data(w, buf->base, (size_t)n);
    } else if (n < 0) {
        w->read_limit = 0;
        w->eof = true;
        uv_read_stop(stream);
        w->events->end(w, n == UV_EOF ? 0 : (int)n);
    }
}

void wire_read(struct wire *w, size_t limit)
{
    if (w->closing || w->eof) {
        return;
    }
    if (limit > 0 && w->read_limit == 0) {
        uv_read_start(&w->uv.stream, on_alloc, on_read);
    } else if (limit == 0 && w->read_limit > 0) {
        uv_read_stop(&w->uv.stream);
    }
    w->read_limit = limit;
}

void wire_shutdown(struct wire *w)
{
    w->shut_asked = true;
    wire_wake(w);
}

static void on_closed(uv_handle_t *handle)
{
    struct wire *w = container_of(handle, struct wire, uv.handle);

    hub_put(w->hub);
    w->events->closed(w);
}

void wire_close(struct wire *w, bool reset)
{
    if (w->closing) {
        return;
    }
    w->closing = true;
    hub_cancel(w->hub, &w->task);
    buf_fini(&w->out);
    if (reset && w->uv.handle.type == UV_TCP && uv_tcp_close_reset(&w->uv.tcp, on_closed) == 0) {
        return;
    }
    uv_close(&w->uv.handle, on_closed);
}
