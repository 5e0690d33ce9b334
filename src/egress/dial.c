#include "egress/dial.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/fd.h"

struct dial {
    dial_done *done; /* NULL: nobody waits any more */
    void *ctx;
    int fd;
    int error; /* of a dial that failed at once */
    uv_poll_t poll;
    uv_timer_t timer;
    unsigned handles;
};

static void on_closed(uv_handle_t *handle)
{
    struct dial *dial = handle->data;

    if (--dial->handles == 0) {
        fd_closep(&dial->fd);
        free(dial);
    }
}

static void dial_close(struct dial *dial)
{
    dial->done = NULL;
    uv_close((uv_handle_t *)&dial->timer, on_closed);
    if (dial->handles > 1) {
        uv_close((uv_handle_t *)&dial->poll, on_closed);
    }
}

void dial_cancel(struct dial *dial)
{
    if (dial) {
        dial_close(dial);
    }
}

static void dial_end(struct dial *dial, int error)
{
    dial_done *done = dial->done;
    void *ctx = dial->ctx;
    int result = error < 0 ? error : -1;

    if (error == 0) {
        (void)uv_poll_stop(&dial->poll); /* libuv lets go of the descriptor before others take it */
        result = move_fd(&dial->fd);
    }
    dial_close(dial);
    done(ctx, result);
}

static void on_ready(uv_poll_t *poll, int status, int events)
{
    struct dial *dial = poll->data;
    int error = 0;
    socklen_t len = sizeof(error);

    (void)events;
    if (status == 0 && getsockopt(dial->fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0) {
        error = errno;
    }
    dial_end(dial, status < 0 ? status : -error);
}

static void on_timer(uv_timer_t *timer)
{
    struct dial *dial = timer->data;

    dial_end(dial, dial->error < 0 ? dial->error : -ETIMEDOUT);
}

static int connect_begin(struct dial *dial, const struct endpoint *to)
{
    struct sockaddr_storage address;

    endpoint_to_sockaddr(to, &address);
    socklen_t len =
        address.ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    dial->fd = socket(address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (dial->fd < 0 ||
        (connect(dial->fd, (struct sockaddr *)&address, len) < 0 && errno != EINPROGRESS)) {
        return -errno;
    }
    return 0;
}

struct dial *dial_start(struct egress *egress, const struct endpoint *to, dial_done *done,
                        void *ctx)
{
    const struct endpoint *mapped = map_find(egress, to);
    struct dial *dial = xnew(struct dial);

    *dial = (struct dial){.done = done, .ctx = ctx, .handles = 1};
    (void)uv_timer_init(egress->loop, &dial->timer);
    dial->timer.data = dial;
    dial->error = connect_begin(dial, mapped ? mapped : to);
    if (dial->error == 0 && uv_poll_init(egress->loop, &dial->poll, dial->fd) == 0) {
        dial->poll.data = dial;
        dial->handles = 2;
        (void)uv_poll_start(&dial->poll, UV_WRITABLE, on_ready);
    }
    (void)uv_timer_start(&dial->timer, on_timer, dial->error ? 0 : EGRESS_CONNECT_TIMEOUT_MS, 0);
    return dial;
}
