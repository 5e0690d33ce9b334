#include "lib/http/connector.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>

#include "lib/base/alloc.h"
#include "lib/base/fd.h"

struct connector {
    uv_poll_t poll;
    uv_timer_t timer;
    unsigned handles; /* not closed yet */
    int fd;
    int error; /* of a connection that failed at once: the timer reports it */
    connector_done *done;
    void *ctx;
};

static void on_closed(uv_handle_t *handle)
{
    struct connector *connector = handle->data;

    if (--connector->handles == 0) {
        fd_closep(&connector->fd);
        free(connector);
    }
}

void connector_cancel(struct connector *connector)
{
    if (!connector) {
        return;
    }
    if (connector->handles > 1) {
        uv_close((uv_handle_t *)&connector->poll, on_closed);
    }
    uv_close((uv_handle_t *)&connector->timer, on_closed);
}

static void finish(struct connector *connector, int error)
{
    connector_done *done = connector->done;
    void *ctx = connector->ctx;
    int result = error;

    if (error == 0) {
        (void)uv_poll_stop(&connector->poll); /* another handle may poll the descriptor now */
        result = move_fd(&connector->fd);
    }
    connector_cancel(connector);
    done(ctx, result);
}

static void on_timer(uv_timer_t *timer)
{
    const struct connector *connector = timer->data;

    finish(timer->data, connector->error < 0 ? connector->error : -ETIMEDOUT);
}

/* libuv reports every error of a polled socket as a bad descriptor; the socket has the true one. */
static int socket_error(int fd, int status)
{
    int error = 0;
    socklen_t len = sizeof(error);

    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0) {
        return -errno;
    }
    return error ? -error : status;
}

static void on_ready(uv_poll_t *poll, int status, int events)
{
    struct connector *connector = poll->data;

    (void)events;
    finish(connector, socket_error(connector->fd, status));
}

static int begin(struct connector *connector, uv_loop_t *loop, const struct sockaddr *to)
{
    socklen_t len =
        to->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);

    connector->fd = socket(to->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (connector->fd < 0 || (connect(connector->fd, to, len) < 0 && errno != EINPROGRESS)) {
        return -errno;
    }
    return uv_poll_init(loop, &connector->poll, connector->fd);
}

struct connector *connector_start(uv_loop_t *loop, const struct sockaddr *to, uint64_t timeout_ms,
                                  connector_done *done, void *ctx)
{
    struct connector *connector = xnew(struct connector);

    *connector = (struct connector){.fd = -1, .handles = 1, .done = done, .ctx = ctx};
    (void)uv_timer_init(loop, &connector->timer);
    connector->timer.data = connector->poll.data = connector;
    connector->error = begin(connector, loop, to);
    if (connector->error < 0) {
        (void)uv_timer_start(&connector->timer, on_timer, 0, 0);
        return connector;
    }
    connector->poll.data = connector;
    connector->handles = 2;
    (void)uv_poll_start(&connector->poll, UV_WRITABLE, on_ready);
    if (timeout_ms) {
        (void)uv_timer_start(&connector->timer, on_timer, timeout_ms, 0);
    }
    return connector;
}
