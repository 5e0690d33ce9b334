#include "lib/http/sock.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/alloc.h"
#include "lib/base/busy.h"
#include "lib/base/fd.h"
#include "lib/base/foreign.h"

enum {
    OUT_BYTES_MAX =
        64 * 1024 * 1024,     /* far above any window: only an answer sent whole comes near */
    DIRECT_BYTES = 16 * 1024, /* from here on a write leaves without waiting for others */
    READS_PER_TURN = 8,       /* of one socket, before others have their turn */
    ERROR_REPORTED = 1,
};

static void sock_task(struct loop_task *task);

int sock_family(int fd, struct err *err)
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

/* ---- opening ---- */

static void sock_init(struct sock *w, const struct sock_events *events, uv_loop_t *loop, int fd,
                      int family)
{
    const int on = 1;

    *w = (struct sock){.fd = fd,
                       .is_tcp = family != AF_UNIX,
                       .events = events,
                       .context = loop_context_get(loop),
                       .task = {.run = sock_task}};
    buf_init(&w->out, OUT_BYTES_MAX);
    /* The socket was checked before: libuv refuses it only when this loop watches it already, which
     * is our bug. */
    int r = uv_poll_init(loop, &w->poll, fd);
    assert(r == 0);
    if (w->is_tcp) { /* writes are gathered here already */
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    }
}

int sock_open(struct sock *w, const struct sock_events *events, uv_loop_t *loop, int fd,
              struct err *err)
{
    scoped_foreign own = fd;
    int family = sock_family(fd, err);

    if (family < 0) {
        return family;
    }
    sock_init(w, events, loop, move_fd(&own), family);
    return 0;
}

union stream {
    uv_handle_t handle;
    uv_stream_t stream;
    uv_tcp_t tcp;
    uv_pipe_t pipe;
};

static void on_taken(uv_handle_t *handle)
{
    free(container_of(handle, union stream, handle));
}

/* libuv gives a connection to a stream of its own, which does not let go of it: ours is a copy. */
static int connection_take(uv_stream_t *listener)
{
    union stream *taken = xnew(union stream);
    uv_os_fd_t fd = -1;

    if (listener->type == UV_TCP) {
        uv_tcp_init(listener->loop, &taken->tcp);
    } else {
        uv_pipe_init(listener->loop, &taken->pipe, 0);
    }
    int r = uv_accept(listener, &taken->stream);
    r = r < 0 ? r : uv_fileno(&taken->handle, &fd);
    int copy = r < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
    r = r < 0 ? r : copy < 0 ? -errno : copy;
    uv_close(&taken->handle, on_taken);
    return r;
}

int sock_accept(struct sock *w, const struct sock_events *events, uv_stream_t *listener)
{
    int fd = connection_take(listener);

    if (fd < 0) {
        return fd;
    }
    sock_init(w, events, listener->loop, fd, listener->type == UV_TCP ? AF_INET : AF_UNIX);
    w->is_own = true;
    return 0;
}

/* ---- what the loop watches ---- */

static void on_poll(uv_poll_t *poll, int status, int events);

static void sock_watch(struct sock *w, int events)
{
    if (events == w->watched || w->closing) {
        return;
    }
    w->watched = events;
    if (events == 0) {
        (void)uv_poll_stop(&w->poll);
    } else {
        (void)uv_poll_start(&w->poll, events, on_poll);
    }
}

void sock_wake(struct sock *w)
{
    if (!w->closing) {
        loop_task_queue(w->context, &w->task);
    }
}

/* ---- writing ---- */

static void sock_fail(struct sock *w, int error)
{
    if (w->error == 0) {
        w->error = error;
    }
    buf_fini(&w->out);
    sock_wake(w);
}

static bool is_full(int error)
{
    return error == EAGAIN || error == EINTR || error == ENOBUFS;
}

/* Offers what was gathered and then the parts to the kernel; returns how many bytes of the parts it
 * took, or -1 when the socket is dead. The flags are of the call: those of the file may be somebody
 * else's to change (lib/base/foreign.h). */
static ssize_t sock_try(struct sock *w, const struct str *parts, size_t n)
{
    size_t queued = buf_len(&w->out);
    struct iovec iov[1 + SOCK_PARTS_MAX];
    struct msghdr msg = {.msg_iov = iov};

    if (queued > 0) {
        iov[msg.msg_iovlen++] = (struct iovec){buf_at(&w->out), queued};
    }
    for (size_t i = 0; i < n; i++) {
        iov[msg.msg_iovlen++] =
            (struct iovec){(char *)(uintptr_t)parts[i].at, parts[i].len}; /* only read */
    }
    ssize_t sent = sendmsg(w->fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && is_full(errno)) {
        return 0;
    }
    if (sent < 0) {
        sock_fail(w, -errno);
        return -1;
    }
    size_t of_queued = (size_t)sent < queued ? (size_t)sent : queued;
    buf_consume(&w->out, of_queued);
    return sent - (ssize_t)of_queued;
}

static void sock_await_room(struct sock *w)
{
    w->full = true;
    sock_watch(w, w->watched | UV_WRITABLE);
}

/* Keeps what lies behind the first `done` bytes of the parts. */
static int sock_gather(struct sock *w, const struct str *parts, size_t n, size_t done)
{
    int r = 0;

    if (!w->out.data) {
        loop_context_lend(w->context, &w->out);
    }
    for (size_t i = 0; i < n && r == 0; i++) {
        size_t skip = done < parts[i].len ? done : parts[i].len;
        if (skip < parts[i].len) {
            r = buf_append(&w->out, parts[i].at + skip, parts[i].len - skip);
        }
        done -= skip;
    }
    return r;
}

void sock_write_parts(struct sock *w, const struct str *parts, size_t n)
{
    size_t len = 0;
    ssize_t done = 0;

    assert(n <= SOCK_PARTS_MAX);
    if (w->error || w->closing || w->shut_asked) {
        return;
    }
    for (size_t i = 0; i < n; i++) {
        len += parts[i].len;
    }
    bool direct = !w->full && buf_len(&w->out) + len >= DIRECT_BYTES;
    if (direct) {
        done = sock_try(w, parts, n);
    }
    if (done >= 0 && (size_t)done < len && sock_gather(w, parts, n, (size_t)done) < 0) {
        sock_fail(w, -ENOBUFS);
    } else if (direct && done >= 0 && (size_t)done < len) {
        sock_await_room(w);
    }
    sock_wake(w);
}

void sock_write(struct sock *w, const void *data, size_t len)
{
    sock_write_parts(w, &(struct str){data, len}, 1);
}

/* True when nothing is gathered any more. */
static bool sock_catch_up(struct sock *w)
{
    if (!w->full && buf_len(&w->out) > 0) {
        (void)sock_try(w, NULL, 0);
    }
    if (!w->full && buf_len(&w->out) > 0) {
        sock_await_room(w);
    }
    return !w->full && !w->error;
}

size_t sock_splice(struct sock *w, int pipe, size_t len)
{
    size_t done = 0;

    if (w->error || w->closing || w->shut_asked || !sock_catch_up(w)) {
        return 0;
    }
    while (done < len) {
        ssize_t n = splice(pipe, NULL, w->fd, NULL, len - done, SPLICE_F_NONBLOCK);
        if (n > 0) {
            done += (size_t)n;
        } else if (n < 0 && is_full(errno)) {
            sock_await_room(w);
            break;
        } else {
            sock_fail(w, n < 0 ? -errno : -EPIPE);
            break;
        }
    }
    return done;
}

size_t sock_pending(const struct sock *w)
{
    return buf_len(&w->out);
}

static void sock_report(struct sock *w)
{
    if (w->error < 0 && !w->closing) {
        int error = w->error;
        w->error = ERROR_REPORTED;
        w->events->end(w, error);
    }
}

static void sock_flush(struct sock *w)
{
    if (w->full || w->error || w->closing) {
        return;
    }
    if (buf_len(&w->out) > 0) {
        (void)sock_try(w, NULL, 0);
    }
    if (buf_len(&w->out) > 0) {
        sock_await_room(w);
        return;
    }
    loop_context_return(w->context, &w->out); /* an idle connection keeps no buffer */
    if (w->shut_asked && !w->shut) {
        w->shut = true;
        (void)shutdown(w->fd, SHUT_WR); /* fails only where the peer is gone already */
    }
}

static void on_writable(struct sock *w)
{
    w->full = false;
    sock_watch(w, w->watched & ~UV_WRITABLE);
    sock_flush(w);
    if (!w->closing) {
        w->events->written(w);
    }
    sock_report(w);
}

static void sock_task(struct loop_task *task)
{
    struct sock *w = container_of(task, struct sock, task);

    w->events->run(w);
    sock_flush(w);
    if (!w->closing) {
        w->events->written(w);
    }
    sock_report(w);
}

/* ---- reading ---- */

static void sock_ended(struct sock *w, int error)
{
    w->read_limit = 0;
    w->eof = true;
    sock_watch(w, w->watched & ~UV_READABLE);
    w->events->end(w, error);
}

/* False when there is no more to read now. */
static bool sock_receive(struct sock *w)
{
    size_t size = w->read_limit < LOOP_READ_BYTES ? w->read_limit : LOOP_READ_BYTES;
    ssize_t n = recv(w->fd, w->context->read_bytes, size, MSG_DONTWAIT);

    if (n > 0) {
        w->events->data(w, w->context->read_bytes, (size_t)n);
        return (size_t)n == size;
    }
    if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        sock_ended(w, n == 0 ? 0 : -errno);
    }
    return false;
}

/* True when there may be more to read now. */
static bool sock_drain(struct sock *w)
{
    bool more = true;

    for (int i = 0; i < READS_PER_TURN && more && w->read_limit > 0 && !w->closing; i++) {
        more = sock_receive(w);
    }
    return more;
}

/* A socket whose owner wants nothing for the moment is no longer watched: between a request and its
 * answer usually nothing arrives, and no system call is needed then. */
static void on_readable(struct sock *w)
{
    (void)sock_drain(w);
    if (w->read_limit == 0) {
        sock_watch(w, w->watched & ~UV_READABLE);
    }
}

void sock_read(struct sock *w, size_t limit)
{
    if (w->closing || w->eof) {
        return;
    }
    w->read_limit = limit;
    if (limit > 0) {
        sock_watch(w, w->watched | UV_READABLE);
    }
}

/* libuv has stopped the watch. The error shows when the socket is read or written. A socket that
 * shows none, as a jail can make of one that it shares, would keep the loop busy: it is given up.
 */
static void on_trouble(struct sock *w)
{
    w->watched = 0;
    if (w->full) {
        on_writable(w);
    }
    bool more = sock_drain(w);
    if (w->closing) {
        return;
    }
    if (!w->eof && (w->full || (w->read_limit > 0 && !more))) {
        sock_watch(w, 0);
        sock_ended(w, -EPROTO);
    } else if (w->read_limit > 0) {
        sock_watch(w, UV_READABLE);
    }
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct sock *w = container_of(poll, struct sock, poll);

    busy("data of a connection");
    if (status < 0) {
        on_trouble(w);
        return;
    }
    if (events & UV_WRITABLE) {
        on_writable(w);
    }
    if (events & UV_READABLE && !w->closing) {
        on_readable(w);
    }
}

/* ---- the end ---- */

void sock_shutdown(struct sock *w)
{
    w->shut_asked = true;
    sock_wake(w);
}

static void on_closed(uv_handle_t *handle)
{
    struct sock *w = container_of(handle, struct sock, poll);

    loop_context_put(w->context);
    w->events->closed(w);
}

void sock_close(struct sock *w, bool reset)
{
    if (w->closing) {
        return;
    }
    w->closing = true;
    loop_task_cancel(w->context, &w->task);
    buf_fini(&w->out);
    uv_close((uv_handle_t *)&w->poll, on_closed);
    if (w->is_own) {
        foreign_close_now(move_fd(&w->fd), reset);
    } else {
        foreign_close(&w->fd, reset);
    }
}
