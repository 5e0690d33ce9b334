/* channel.c - see channel.h. */
#include "sandbox/channel.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <utlist.h>

#include "agent/channel.h"
#include "base/alloc.h"
#include "base/buf.h"
#include "base/busy.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/foreign.h"

struct request {
    struct request *prev, *next;
    uint32_t seq;
    int64_t deadline_ms;
    agent_channel_done *done;
    void *ctx;
};

struct agent_channel {
    int fd; /* -1: closed */
    uv_poll_t poll;
    uv_timer_t timer;
    uint32_t handles; /* not closed yet; the last one frees */

    struct agent_channel_handler handler;
    void *ctx;
    bool greeted; /* the agent's hello has come */
    uint32_t next_seq;
    struct request *requests; /* in order of sending, so the first is the first to time out */
    uint32_t requests_n;
    uint32_t abandoned; /* timed out: as many answers may still come late */
    struct buf out;     /* whole messages */
    bool writing;       /* the poll waits for room, too */

    uint32_t questions[CHANNEL_QUESTIONS_MAX]; /* seq of each that the agent asked */
    uint32_t questions_n;
    uint32_t asked; /* of those, how many the count under way will answer */

    uint32_t log_seq;   /* of the last line */
    uint32_t log_limit; /* none beyond this one was asked for */

    void (*quiet_done)(void *ctx, int error); /* NULL: not asked to be quiet */
    uint32_t quiet_seq;
    bool quiet; /* it says it is, and closes next */
    uv_timer_t quiet_timer;
};

struct received {
    struct channel_message message;
    struct channel_log log; /* this and the text: CHANNEL_LOG alone */
    struct str text;
    int fd; /* -1: none */
};

static void received_fini(struct received *in)
{
    foreign_closep(&in->fd);
}

/* ---- closing ---- */

static void on_closed(uv_handle_t *handle)
{
    struct agent_channel *ch = handle->data;

    if (--ch->handles == 0) {
        buf_fini(&ch->out);
        free(ch);
    }
}

static void shut(struct agent_channel *ch)
{
    uv_close((uv_handle_t *)&ch->poll, on_closed);
    uv_close((uv_handle_t *)&ch->timer, on_closed);
    uv_close((uv_handle_t *)&ch->quiet_timer, on_closed);
    foreign_closep(&ch->fd); /* messages not read yet may hold descriptors of the jail's */
}

static void answer_all(struct agent_channel *ch, int error)
{
    struct request *request = NULL;

    while ((request = ch->requests)) {
        DL_DELETE(ch->requests, request);
        ch->requests_n--;
        request->done(request->ctx, error);
        free(request);
    }
}

static void quiet_tell(struct agent_channel *ch, int error)
{
    void (*done)(void *ctx, int error) = ch->quiet_done;

    ch->quiet_done = NULL;
    if (done) {
        done(ch->ctx, error);
    }
}

bool agent_channel_is_open(const struct agent_channel *ch)
{
    struct pollfd end = {.fd = ch->fd, .events = POLLRDHUP};

    return ch->fd >= 0 && poll(&end, 1, 0) == 0;
}

void agent_channel_close(struct agent_channel *ch)
{
    if (ch && ch->fd >= 0) {
        shut(ch);
        answer_all(ch, -ENOTCONN);
        quiet_tell(ch, -ENOTCONN);
    }
}

static void channel_break(struct agent_channel *ch, const char *why)
{
    if (ch->fd < 0) {
        return;
    }
    shut(ch);
    if (!ch->quiet) {
        ch->handler.on_broken(ch->ctx, why);
    }
    answer_all(ch, -ECONNRESET);
    quiet_tell(ch, ch->quiet ? 0 : -ECONNRESET);
}

/* ---- sending ---- */

static void on_poll(uv_poll_t *poll, int status, int events);

/* True while there is more to send. */
static bool flush(struct agent_channel *ch)
{
    while (buf_len(&ch->out)) {
        ssize_t n = send(ch->fd, buf_at(&ch->out), sizeof(struct channel_message),
                         MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0) {
            break; /* a broken socket shows when it is read */
        }
        buf_consume(&ch->out, sizeof(struct channel_message));
    }
    return buf_len(&ch->out) > 0;
}

/* One whose request failed because the channel closed may ask again at once, of the same one. */
static int put(struct agent_channel *ch, const struct channel_message *message)
{
    int r = ch->fd < 0 ? -ENOTCONN : buf_append(&ch->out, message, sizeof(*message));

    if (r == 0 && !ch->writing && flush(ch)) {
        ch->writing = true;
        (void)uv_poll_start(&ch->poll, UV_READABLE | UV_WRITABLE, on_poll);
    }
    return r;
}

static void arm(struct agent_channel *ch);

static void on_timer(uv_timer_t *timer)
{
    struct agent_channel *ch = timer->data;
    int64_t now = clock_mono_ms();

    while (ch->fd >= 0 && ch->requests && ch->requests->deadline_ms <= now) {
        struct request *request = ch->requests;
        DL_DELETE(ch->requests, request);
        ch->requests_n--;
        ch->abandoned++;
        request->done(request->ctx, -ETIMEDOUT);
        free(request);
    }
    arm(ch);
}

static void arm(struct agent_channel *ch)
{
    if (ch->fd < 0) {
        return;
    }
    if (!ch->requests) {
        (void)uv_timer_stop(&ch->timer);
        return;
    }
    int64_t left = ch->requests->deadline_ms - clock_mono_ms();
    (void)uv_timer_start(&ch->timer, on_timer, left > 0 ? (uint64_t)left : 0, 0);
}

void agent_channel_connect(struct agent_channel *ch, uint32_t port, agent_channel_done *done,
                           void *ctx)
{
    struct channel_message message = {.op = CHANNEL_CONNECT, .seq = ch->next_seq, .value = port};

    if (ch->requests_n == CHANNEL_REQUESTS_MAX || put(ch, &message) < 0) {
        done(ctx, -EAGAIN);
        return;
    }
    struct request *request = xnew(struct request);
    *request = (struct request){.seq = ch->next_seq++,
                                .deadline_ms = clock_mono_ms() + CHANNEL_TIMEOUT_MS,
                                .done = done,
                                .ctx = ctx};
    DL_APPEND(ch->requests, request);
    if (ch->requests_n++ == 0) {
        arm(ch);
    }
}

static void on_quiet_timeout(uv_timer_t *timer)
{
    struct agent_channel *ch = timer->data;

    if (ch->quiet) {
        ch->quiet = false;
        channel_break(ch, "it says it is quiet, and does not close the connection");
        return;
    }
    ch->quiet_seq = 0;
    ch->abandoned++;
    quiet_tell(ch, -ETIMEDOUT);
}

void agent_channel_quiet(struct agent_channel *ch, int how, void (*done)(void *ctx, int error))
{
    struct channel_message message = {
        .op = CHANNEL_QUIET, .seq = ch->next_seq, .value = (uint32_t)how};

    if (ch->quiet_done || put(ch, &message) < 0) {
        done(ch->ctx, -EAGAIN);
        return;
    }
    ch->quiet_done = done;
    ch->quiet_seq = ch->next_seq++;
    (void)uv_timer_start(&ch->quiet_timer, on_quiet_timeout, CHANNEL_TIMEOUT_MS, 0);
}

static void ask_oom(struct agent_channel *ch)
{
    if (ch->fd >= 0 && ch->asked == 0 && ch->questions_n > 0) {
        ch->asked = ch->questions_n;
        ch->handler.on_oom(ch->ctx);
    }
}

void agent_channel_answer_oom(struct agent_channel *ch, uint32_t count)
{
    for (uint32_t i = 0; i < ch->asked; i++) {
        struct channel_message message = {
            .op = CHANNEL_OOM, .seq = ch->questions[i], .value = count};
        (void)put(ch, &message); /* an agent that does not read gets no answer */
    }
    ch->questions_n -= ch->asked;
    memmove(ch->questions, ch->questions + ch->asked, ch->questions_n * sizeof(uint32_t));
    ch->asked = 0;
    ask_oom(ch); /* who asked meanwhile may have seen a later kill */
}

/* ---- receiving ---- */

/* 1: a message, 0: none now, -errno: the channel is no good any more. */
static int receive(struct agent_channel *ch, struct received *in)
{
    static char text[CHANNEL_LOG_BYTES_MAX]; /* one loop, one thread: all channels share it */
    struct iovec iov[] = {
        {&in->message, sizeof(in->message)}, {&in->log, sizeof(in->log)}, {text, sizeof(text)}};
    ssize_t n = foreign_receive(ch->fd, iov, countof(iov), &in->fd);

    if (n == -ECONNRESET) { /* closed with words of ours unread: its own come next */
        n = foreign_receive(ch->fd, iov, countof(iov), &in->fd);
    }
    if (n <= 0) {
        return n == 0                                 ? -ECONNRESET
               : n == -EAGAIN || n == -EINTR          ? 0
               : n == -EMSGSIZE || n == -ETOOMANYREFS ? -EPROTO
                                                      : (int)n;
    }
    const ssize_t head = sizeof(in->message), log_head = sizeof(in->message) + sizeof(in->log);
    bool whole =
        in->message.op == CHANNEL_LOG && in->message.status == 0 ? n > log_head : n == head;
    in->text = (struct str){text, n > log_head ? (size_t)(n - log_head) : 0};
    return whole ? 1 : -EPROTO;
}

static const char *on_connected(struct agent_channel *ch, struct received *in)
{
    static struct err fault; /* one loop, one thread */
    struct request *request = NULL;

    DL_SEARCH_SCALAR(ch->requests, request, seq, in->message.seq);
    if (!request) {
        if (ch->abandoned == 0) {
            return "it answered what was not asked";
        }
        ch->abandoned--;
        return NULL;
    }
    int32_t status = in->message.status;
    if (status == 0 ? in->fd < 0 : status > 0 || status <= -4096 || in->fd >= 0) {
        return "its answer to a connect made no sense";
    }
    if (status == 0 && foreign_tcp(in->fd, &fault) < 0) {
        return fault.msg;
    }
    DL_DELETE(ch->requests, request);
    ch->requests_n--;
    request->done(request->ctx, status == 0 ? move_fd(&in->fd) : status);
    free(request);
    arm(ch);
    return NULL;
}

static const char *on_line(struct agent_channel *ch, const struct received *in)
{
    if (in->message.status != 0) {
        return NULL; /* an older agent, which has no log */
    }
    if (in->message.seq <= ch->log_seq || in->message.seq > ch->log_limit || in->fd >= 0 ||
        in->log.level > LOG_ERROR) {
        return "it sent a log line that was not asked for";
    }
    ch->log_seq = in->message.seq;
    struct sandbox_log log = {.seq = in->message.seq,
                              .lost = in->log.lost,
                              .wall_ms = in->log.wall_ms,
                              .level = (enum log_level)in->log.level,
                              .line = in->text};
    ch->handler.on_log(ch->ctx, &log);
    return NULL;
}

void agent_channel_credit_logs(struct agent_channel *ch, uint32_t seq)
{
    struct channel_message message = {.op = CHANNEL_LOG, .seq = seq, .value = SANDBOX_LOG_WINDOW};

    ch->log_limit = seq + SANDBOX_LOG_WINDOW;
    (void)put(ch, &message); /* an agent that does not read gets none */
}

static const char *on_quiet(struct agent_channel *ch, const struct channel_message *message)
{
    if (!ch->quiet_done || message->seq != ch->quiet_seq) {
        return ch->abandoned > 0 ? NULL : "it says it is quiet without being asked";
    }
    ch->quiet = message->status == 0; /* the timer runs on until it has closed its end */
    if (!ch->quiet) {
        (void)uv_timer_stop(&ch->quiet_timer);
        quiet_tell(ch, message->status < 0 ? message->status : -EPROTO);
    }
    return NULL;
}

/* NULL, or why the channel must break. */
static const char *take(struct agent_channel *ch, struct received *in)
{
    if (!ch->greeted) {
        ch->greeted = in->message.op == CHANNEL_HELLO && in->message.value == CHANNEL_VERSION;
        return ch->greeted ? NULL : "it speaks another version";
    }
    if (in->message.op == CHANNEL_CONNECT) {
        return on_connected(ch, in);
    }
    if (in->message.op == CHANNEL_LOG) {
        return on_line(ch, in);
    }
    if (in->message.op == CHANNEL_QUIET) {
        return on_quiet(ch, &in->message);
    }
    if (in->message.op != CHANNEL_OOM) {
        return "it said something unknown";
    }
    if (ch->questions_n == CHANNEL_QUESTIONS_MAX) {
        return "it asks without waiting for answers";
    }
    ch->questions[ch->questions_n++] = in->message.seq;
    ask_oom(ch);
    return NULL;
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct agent_channel *ch = poll->data;

    busy("messages of an agent");
    if (status == 0 && (events & UV_WRITABLE) && !flush(ch)) {
        ch->writing = false;
        (void)uv_poll_start(&ch->poll, UV_READABLE, on_poll);
    }
    for (int i = 0; i < CHANNEL_BATCH && ch->fd >= 0; i++) {
        scoped(received_fini) struct received in = {.fd = -1};
        int r = receive(ch, &in);
        if (r == 0 && status == 0) {
            return;
        }
        const char *why = r == -EPROTO ? "it sent a message of another form"
                          : r <= 0     ? "it closed the connection"
                                       : take(ch, &in);
        if (why) {
            channel_break(ch, why);
        }
    }
}

void agent_channel_drain_logs(struct agent_channel *ch)
{
    for (int i = 0; ch && ch->greeted && i < SANDBOX_LOG_WINDOW; i++) {
        scoped(received_fini) struct received in = {.fd = -1};
        if (receive(ch, &in) <= 0) {
            return;
        }
        if (in.message.op == CHANNEL_LOG) {
            (void)on_line(ch, &in);
        }
    }
}

struct agent_channel *agent_channel_new(uv_loop_t *loop, int fd, int past,
                                        const struct agent_channel_handler *handler, void *ctx)
{
    struct agent_channel *ch = xnew(struct agent_channel);
    struct channel_message hello = {.op = CHANNEL_HELLO, .status = past, .value = CHANNEL_VERSION};

    ch->fd = fd;
    ch->handler = *handler;
    ch->ctx = ctx;
    ch->next_seq = 1;
    ch->handles = 3;
    buf_init(&ch->out, CHANNEL_OUT_MAX * sizeof(struct channel_message));
    if (uv_timer_init(loop, &ch->timer) < 0 || uv_timer_init(loop, &ch->quiet_timer) < 0 ||
        uv_poll_init(loop, &ch->poll, fd) < 0) {
        abort(); /* a socket can always be polled */
    }
    ch->poll.data = ch->timer.data = ch->quiet_timer.data = ch;
    (void)uv_poll_start(&ch->poll, UV_READABLE, on_poll);
    (void)put(ch, &hello);
    return ch;
}
