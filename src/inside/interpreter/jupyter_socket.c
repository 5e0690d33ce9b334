#include "inside/interpreter/jupyter_socket.h"

#include <errno.h>
#include <stdlib.h>
#include <zmq.h>

#include "inside/interpreter/jupyter_wire.h"
#include "lib/base/alloc.h"
#include "lib/base/log.h"

enum {
    RECONNECT_MS = 10,  /* until the kernel listens */
    TURN_MESSAGES = 32, /* read before others get their turn */
    HANDLES = 2,
};

struct jupyter_socket {
    void *zmq;
    uv_poll_t poll;
    uv_idle_t again; /* active: messages may be waiting that no event tells of */
    enum jupyter_channel channel;
    void (*on_message)(void *ctx, enum jupyter_channel channel, const struct str *frames, size_t n);
    void *ctx;
    int handles;
    bool flows;
    bool closed;
};

/* A single context for the program: its thread reads and writes for every socket. */
static void *zmq_context(void)
{
    static void *context;

    if (!context) {
        context = zmq_ctx_new();
    }
    return context;
}

struct frames {
    zmq_msg_t messages[JUPYTER_FRAMES_MAX];
    struct str at[JUPYTER_FRAMES_MAX];
    size_t n;
    size_t bytes;
    bool fits;
};

static void frames_fini(struct frames *frames)
{
    while (frames->n) {
        (void)zmq_msg_close(&frames->messages[--frames->n]);
    }
}

/* Receives a whole message; what is past a limit is received and dropped. False: there is none. */
static bool frames_receive(void *zmq, struct frames *frames)
{
    bool more = true;

    *frames = (struct frames){.n = 0, .fits = true};
    while (more) {
        zmq_msg_t part;
        (void)zmq_msg_init(&part);
        if (zmq_msg_recv(&part, zmq, ZMQ_DONTWAIT) < 0) {
            (void)zmq_msg_close(&part);
            return false;
        }
        more = zmq_msg_more(&part);
        frames->bytes += zmq_msg_size(&part);
        frames->fits = frames->fits && frames->n < JUPYTER_FRAMES_MAX &&
                       frames->bytes <= JUPYTER_MESSAGE_BYTES_MAX;
        if (!frames->fits) {
            (void)zmq_msg_close(&part);
            continue;
        }
        zmq_msg_t *kept = &frames->messages[frames->n];
        (void)zmq_msg_init(kept);
        (void)zmq_msg_move(kept, &part);
        frames->at[frames->n++] = (struct str){zmq_msg_data(kept), zmq_msg_size(kept)};
    }
    return true;
}

static bool is_readable(struct jupyter_socket *socket)
{
    int events = 0;
    size_t len = sizeof(events);

    return zmq_getsockopt(socket->zmq, ZMQ_EVENTS, &events, &len) == 0 && (events & ZMQ_POLLIN);
}

static void on_again(uv_idle_t *idle);

static void pump(struct jupyter_socket *socket)
{
    static struct frames frames;

    for (int i = 0; i < TURN_MESSAGES; i++) {
        /* Also checked when it does not flow: the check consumes the event that woke us. */
        if (socket->closed || !is_readable(socket) || !socket->flows) {
            (void)uv_idle_stop(&socket->again);
            return;
        }
        if (frames_receive(socket->zmq, &frames) && frames.fits) {
            socket->on_message(socket->ctx, socket->channel, frames.at, frames.n);
        } else if (!frames.fits) {
            log_warn("a kernel's message of %zu bytes was dropped: the most is %d", frames.bytes,
                     JUPYTER_MESSAGE_BYTES_MAX);
        }
        frames_fini(&frames);
    }
    (void)uv_idle_start(&socket->again, on_again);
}

static void on_again(uv_idle_t *idle)
{
    pump(container_of(idle, struct jupyter_socket, again));
}

static void on_event(uv_poll_t *poll, int status, int events)
{
    (void)status, (void)events;
    pump(container_of(poll, struct jupyter_socket, poll));
}

static int zmq_type(enum jupyter_channel channel)
{
    return channel == JUPYTER_IOPUB ? ZMQ_SUB : ZMQ_DEALER;
}

static int zmq_configure(void *zmq, const struct jupyter_socket_options *options)
{
    const struct {
        int name;
        int value;
    } numbers[] = {
        {ZMQ_LINGER, 0},
        {ZMQ_SNDHWM, 0},
        {ZMQ_RCVHWM, options->queue_max},
        {ZMQ_RECONNECT_IVL, RECONNECT_MS},
    };
    for (size_t i = 0; i < countof(numbers); i++) {
        if (zmq_setsockopt(zmq, numbers[i].name, &numbers[i].value, sizeof(int)) < 0) {
            return -zmq_errno();
        }
    }
    if (options->channel == JUPYTER_IOPUB && zmq_setsockopt(zmq, ZMQ_SUBSCRIBE, "", 0) < 0) {
        return -zmq_errno();
    }
    return zmq_connect(zmq, options->endpoint) < 0 ? -zmq_errno() : 0;
}

int jupyter_socket_open(const struct jupyter_socket_options *options, struct jupyter_socket **out,
                        struct err *err)
{
    struct jupyter_socket *socket = xnew(struct jupyter_socket);
    size_t len = sizeof(int);
    int fd;

    *socket = (struct jupyter_socket){
        .zmq = zmq_socket(zmq_context(), zmq_type(options->channel)),
        .channel = options->channel,
        .on_message = options->on_message,
        .ctx = options->ctx,
        .handles = HANDLES,
        .flows = true,
    };
    int r = socket->zmq ? zmq_configure(socket->zmq, options) : -zmq_errno();
    if (r == 0 && zmq_getsockopt(socket->zmq, ZMQ_FD, &fd, &len) < 0) {
        r = -zmq_errno();
    }
    if (r == 0) {
        r = uv_poll_init(options->loop, &socket->poll, fd);
    }
    if (r < 0) {
        if (socket->zmq) {
            (void)zmq_close(socket->zmq);
        }
        free(socket);
        return err_set(err, -r, "connect to a kernel at %s: %s", options->endpoint,
                       zmq_strerror(-r));
    }
    (void)uv_idle_init(options->loop, &socket->again);
    (void)uv_poll_start(&socket->poll, UV_READABLE, on_event);
    *out = socket;
    return 0;
}

void jupyter_socket_send(struct jupyter_socket *socket, const struct str *frames, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        int more = i + 1 < n ? ZMQ_SNDMORE : 0;
        if (zmq_send(socket->zmq, frames[i].at, frames[i].len, ZMQ_DONTWAIT | more) < 0) {
            log_warn("send to a kernel: %s", zmq_strerror(zmq_errno()));
            return;
        }
    }
    (void)uv_idle_start(&socket->again, on_again);
}

void jupyter_socket_flow(struct jupyter_socket *socket, bool flows)
{
    socket->flows = flows;
    if (flows) {
        (void)uv_idle_start(&socket->again, on_again);
    }
}

/* The descriptor must not be closed before libuv has let it go. */
static void on_closed(uv_handle_t *handle)
{
    struct jupyter_socket *socket = handle->data;

    if (--socket->handles == 0) {
        (void)zmq_close(socket->zmq);
        free(socket);
    }
}

void jupyter_socket_close(struct jupyter_socket *socket)
{
    if (socket && !socket->closed) {
        socket->closed = true;
        socket->poll.data = socket->again.data = socket;
        uv_close((uv_handle_t *)&socket->poll, on_closed);
        uv_close((uv_handle_t *)&socket->again, on_closed);
    }
}
