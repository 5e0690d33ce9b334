/* channel.c - see channel.h. */
#include "serve/sandbox/channel.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <utlist.h>

#include "lib/base/alloc.h"
#include "lib/base/buf.h"
#include "lib/base/busy.h"
#include "lib/base/clock.h"
#include "lib/base/err.h"
#include "lib/base/fd.h"
#include "lib/base/fdpass.h"
#include "lib/base/foreign.h"
#include "lib/base/str.h"
#include "serve/sandbox/jail_tcp.h"
#include "wire/channel.h"

/* A connection is made from the keeper's sockets first. For a service that is all; for the agent
 * itself, the agent is told next. */
enum step { STEP_WANTS_SOCKETS, STEP_CONNECTS, STEP_TOLD };

struct request {
    struct request *prev, *next;
    struct agent_channel *channel;
    enum step step;
    uint32_t op;          /* enum channel_op */
    uint32_t port;        /* or another value for the agent */
    bool second;          /* the first address has refused */
    struct jail_tcp *tcp; /* STEP_CONNECTS */
    int ours;             /* STEP_TOLD: the daemon's end; -1: it comes with the answer */
    uint32_t seq;         /* STEP_TOLD */
    int64_t deadline_ms;
    agent_channel_done *done;
    void *ctx;
};

enum { KIB = 1024 };

/* A message that the socket has not taken yet, and the descriptor that goes with it, or -1. */
struct outgoing {
    struct channel_message message;
    int fd;
};

struct agent_channel {
    int fd; /* -1: closed */
    uv_loop_t *loop;
    uv_poll_t poll;
    uv_timer_t timer; /* the time limit of the oldest request */
    uint32_t handles; /* not closed yet, and one for the keeper's answer; the last one frees */

    struct keeper_client *keeper;
    struct keeper_request wanted; /* SOCKETS, of this jail */
    bool asking;                  /* the keeper, or about to */
    uv_timer_t again_timer;       /* until the keeper is asked again for sockets */
    int sockets[KEEPER_SOCKETS_MAX];
    uint32_t sockets_n;
    uint32_t version;

    struct agent_channel_handler handler;
    void *ctx;
    bool greeted; /* the agent's hello has come */
    uint32_t next_seq;
    struct request *requests; /* in order of sending, so the first is the first to time out */
    uint32_t requests_n;
    uint32_t abandoned; /* timed out: as many answers may still come late */
    struct buf out;     /* of struct outgoing */
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

static struct outgoing out_first(const struct agent_channel *ch)
{
    struct outgoing first;

    memcpy(&first, buf_at(&ch->out), sizeof(first));
    return first;
}

/* ---- closing ---- */

void agent_channel_spare_none(struct agent_channel *ch)
{
    while (ch->sockets_n > 0) {
        fd_closep(&ch->sockets[--ch->sockets_n]);
    }
}

static void channel_release(struct agent_channel *ch)
{
    if (--ch->handles == 0) {
        buf_fini(&ch->out);
        free(ch);
    }
}

static void on_closed(uv_handle_t *handle)
{
    struct agent_channel *ch = handle->data;

    channel_release(ch);
}

static void shut(struct agent_channel *ch)
{
    uv_close((uv_handle_t *)&ch->poll, on_closed);
    uv_close((uv_handle_t *)&ch->timer, on_closed);
    uv_close((uv_handle_t *)&ch->quiet_timer, on_closed);
    uv_close((uv_handle_t *)&ch->again_timer, on_closed);
    foreign_closep(&ch->fd); /* messages not read yet may hold descriptors of the jail's */
    agent_channel_spare_none(ch);
    while (buf_len(&ch->out)) {
        struct outgoing next = out_first(ch);
        fd_closep(&next.fd);
        buf_consume(&ch->out, sizeof(next));
    }
}

/* Answers one request, and forgets it. */
static void finish(struct request *request, int fd_or_error)
{
    struct agent_channel *ch = request->channel;

    DL_DELETE(ch->requests, request);
    ch->requests_n--;
    jail_tcp_cancel(request->tcp);
    foreign_closep(&request->ours);
    request->done(request->ctx, fd_or_error);
    free(request);
}

static void answer_all(struct agent_channel *ch, int error)
{
    while (ch->requests) {
        finish(ch->requests, error);
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

static void channel_break(struct agent_channel *ch, const char *why, bool hostile)
{
    if (ch->fd < 0) {
        return;
    }
    shut(ch);
    if (!ch->quiet || hostile) {
        ch->handler.on_broken(ch->ctx, why, hostile);
    }
    quiet_tell(ch, ch->quiet ? 0 : -ECONNRESET); /* first: those told next may ask again at once */
    answer_all(ch, -ECONNRESET);
}

/* ---- sending ---- */

static void on_poll(uv_poll_t *poll, int status, int events);

/* True while there is more to send. */
static bool flush(struct agent_channel *ch)
{
    while (buf_len(&ch->out)) {
        struct outgoing next = out_first(ch);
        ssize_t n = fdpass_send(ch->fd, &next.message, sizeof(next.message), &next.fd, next.fd >= 0,
                                MSG_DONTWAIT);
        if (n < 0) {
            break; /* a broken socket shows when it is read */
        }
        foreign_closep(&next.fd); /* the agent has it by now, and may have set it to linger */
        buf_consume(&ch->out, sizeof(next));
    }
    return buf_len(&ch->out) > 0;
}

/* A caller whose request failed because the channel closed may ask again at once, on the same
 * closed channel. */
static int put_with(struct agent_channel *ch, const struct channel_message *message, int fd)
{
    scoped_fd descriptor = fd;
    const struct outgoing last = {.message = *message, .fd = fd};
    int r = ch->fd < 0 ? -ENOTCONN : buf_append(&ch->out, &last, sizeof(last));

    if (r == 0) {
        (void)move_fd(&descriptor);
    }
    if (r == 0 && !ch->writing && flush(ch)) {
        ch->writing = true;
        (void)uv_poll_start(&ch->poll, UV_READABLE | UV_WRITABLE, on_poll);
    }
    return r;
}

static int put(struct agent_channel *ch, const struct channel_message *message)
{
    return put_with(ch, message, -1);
}

static void arm(struct agent_channel *ch);

static void on_timer(uv_timer_t *timer)
{
    struct agent_channel *ch = timer->data;
    int64_t now = clock_mono_ms();

    while (ch->fd >= 0 && ch->requests && ch->requests->deadline_ms <= now) {
        ch->abandoned += ch->requests->step == STEP_TOLD;
        finish(ch->requests, -ETIMEDOUT);
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

/* ---- connections ---- */

static void serve(struct agent_channel *ch);

static bool is_for_the_agent(const struct request *request)
{
    return request->port == AGENT_PORT || request->port == CHANNEL_PORT_CONTROL ||
           request->port > UINT16_MAX;
}

static uint32_t sockets_of(const struct request *request)
{
    return is_for_the_agent(request) ? 2 : 1;
}

/* Takes both over: the agent's end goes with the message. -1, -1: the agent makes them. */
static void tell(struct request *request, int ours, int theirs)
{
    struct agent_channel *ch = request->channel;
    struct channel_message message = {
        .op = request->op, .seq = ch->next_seq++, .value = request->port};

    request->step = STEP_TOLD;
    request->ours = ours;
    request->seq = message.seq;
    if (put_with(ch, &message, theirs) < 0) {
        finish(request, -EAGAIN);
    }
}

static void on_pair(void *ctx, int ours, int theirs)
{
    struct request *request = ctx;

    request->tcp = NULL;
    if (ours < 0) {
        finish(request, ours);
    } else {
        tell(request, ours, theirs);
    }
}

/* A service may listen on the second address alone. An error that only the second has (no IPv6 in
 * the jail) says less than the first's refusal. */
static void on_service(void *ctx, int fd_or_error, int none)
{
    struct request *request = ctx;
    struct agent_channel *ch = request->channel;

    (void)none;
    request->tcp = NULL;
    if (fd_or_error == -ECONNREFUSED && !request->second) {
        request->second = true;
        request->step = STEP_WANTS_SOCKETS;
        serve(ch);
    } else if (fd_or_error < 0 && request->second && fd_or_error != -ETIMEDOUT) {
        finish(request, -ECONNREFUSED);
    } else {
        finish(request, fd_or_error);
    }
}

/* It may be over, and forgotten, when this returns. */
static void begin(struct request *request)
{
    struct agent_channel *ch = request->channel;
    const uint32_t n = sockets_of(request);
    int sockets[2];

    ch->sockets_n -= n;
    memcpy(sockets, ch->sockets + ch->sockets_n, n * sizeof(int));
    request->step = STEP_CONNECTS;
    struct jail_tcp *tcp = is_for_the_agent(request)
                               ? jail_tcp_pair(ch->loop, sockets, on_pair, request)
                               : jail_tcp_connect(ch->loop, sockets[0], (uint16_t)request->port,
                                                  request->second ? JAIL_TCP_IPV6 : JAIL_TCP_IPV4,
                                                  on_service, request);
    if (tcp) {
        request->tcp = tcp;
    }
}

/* The number of sockets that waiting requests still need. */
static uint32_t lacking(const struct agent_channel *ch)
{
    const struct request *request;
    uint32_t n = 0;

    DL_FOREACH (ch->requests, request) {
        n += request->step == STEP_WANTS_SOCKETS ? sockets_of(request) : 0;
        if (n >= KEEPER_SOCKETS_MAX) {
            return KEEPER_SOCKETS_MAX;
        }
    }
    return n;
}

static void on_sockets(void *ctx, const struct keeper_answer *answer, int fds[KEEPER_FDS_MAX]);

static void ask_keeper(struct agent_channel *ch)
{
    ch->asking = true;
    ch->wanted.sockets_n = lacking(ch);
    ch->handles++;
    keeper_client_ask(ch->keeper, &ch->wanted, on_sockets, ch);
}

static struct request *first_that_waits(const struct agent_channel *ch)
{
    struct request *request = NULL;

    DL_SEARCH_SCALAR(ch->requests, request, step, STEP_WANTS_SOCKETS);
    return request;
}

/* Begins the requests that have sockets, the oldest first, and asks for the missing sockets. */
static void serve(struct agent_channel *ch)
{
    struct request *request;

    while (ch->fd >= 0 && (request = first_that_waits(ch)) &&
           sockets_of(request) <= ch->sockets_n) {
        begin(request);
    }
    if (ch->fd >= 0 && first_that_waits(ch) && !ch->asking) {
        agent_channel_spare_none(ch); /* one, where two are needed */
        ask_keeper(ch);
    }
}

static void on_again(uv_timer_t *timer)
{
    struct agent_channel *ch = timer->data;

    ch->asking = false;
    serve(ch);
}

static void sockets_failed(struct agent_channel *ch, int error)
{
    struct request *request;

    if (error == -ENOTCONN || error == -ECONNRESET) { /* it is away, and back soon */
        (void)uv_timer_start(&ch->again_timer, on_again, CHANNEL_KEEPER_MS, 0);
        return;
    }
    while (ch->fd >= 0 && (request = first_that_waits(ch))) {
        finish(request, error == -ESRCH ? -ECONNRESET : error);
    }
    ch->asking = false;
}

static void sockets_take(struct agent_channel *ch, int fds[KEEPER_FDS_MAX])
{
    for (int i = 0; i < KEEPER_SOCKETS_MAX && ch->sockets_n < KEEPER_SOCKETS_MAX; i++) {
        if (fds[i] >= 0) {
            ch->sockets[ch->sockets_n++] = move_fd(&fds[i]);
        }
    }
}

static void on_sockets(void *ctx, const struct keeper_answer *answer, int fds[KEEPER_FDS_MAX])
{
    struct agent_channel *ch = ctx;

    if (ch->fd < 0) {
        channel_release(ch);
        return;
    }
    ch->handles--;
    if (answer->status == 0 && fds[0] < 0) {
        sockets_failed(ch, -EMFILE); /* this process had no room for them */
    } else if (answer->status < 0) {
        sockets_failed(ch, answer->status);
    } else {
        sockets_take(ch, fds);
        ch->asking = false;
        serve(ch);
    }
    if (ch->fd >= 0) {
        arm(ch);
    }
}

static void request_begin(struct agent_channel *ch, const struct request *wanted, int fd)
{
    scoped_fd given = fd;

    if (ch->fd < 0 || ch->requests_n == CHANNEL_REQUESTS_MAX) {
        wanted->done(wanted->ctx, -EAGAIN);
        return;
    }
    struct request *request = xnew(struct request);
    *request = *wanted;
    request->channel = ch;
    request->ours = -1;
    request->deadline_ms = clock_mono_ms() + CHANNEL_TIMEOUT_MS;
    DL_APPEND(ch->requests, request);
    if (ch->requests_n++ == 0) {
        arm(ch);
    }
    bool asks = request->op != CHANNEL_CONNECT;
    if (asks || (ch->version == CHANNEL_VERSION_FIRST && is_for_the_agent(request))) {
        tell(request, -1, move_fd(&given));
    } else {
        serve(ch);
    }
}

void agent_channel_ask(struct agent_channel *ch, uint32_t op, uint32_t value, int fd,
                       agent_channel_done *done, void *ctx)
{
    request_begin(ch, &(struct request){.op = op, .port = value, .done = done, .ctx = ctx}, fd);
}

void agent_channel_connect(struct agent_channel *ch, uint32_t port, agent_channel_done *done,
                           void *ctx)
{
    const struct request wanted = {.op = CHANNEL_CONNECT, .port = port, .done = done, .ctx = ctx};

    request_begin(ch, &wanted, -1);
}

/* ---- quiet ---- */

static void on_quiet_timeout(uv_timer_t *timer)
{
    struct agent_channel *ch = timer->data;

    if (ch->quiet) {
        ch->quiet = false;
        channel_break(ch, "it says it is quiet, and does not close the connection", false);
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
    ask_oom(ch); /* a question that came meanwhile may be about a later kill */
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
        return n == 0                        ? -ECONNRESET
               : n == -EAGAIN || n == -EINTR ? 0
               : n == -EMSGSIZE              ? -EPROTO
                                             : (int)n;
    }
    const ssize_t head = sizeof(in->message), log_head = sizeof(in->message) + sizeof(in->log);
    bool whole =
        in->message.op == CHANNEL_LOG && in->message.status == 0 ? n > log_head : n == head;
    in->text = (struct str){text, n > log_head ? (size_t)(n - log_head) : 0};
    return whole ? 1 : -EPROTO;
}

/* An agent of the first release brings the connection with its answer. */
static const char *take_connection(struct request *request, struct received *in)
{
    static struct err fault; /* one loop, one thread */

    if (in->fd < 0) {
        return "its answer to a connect made no sense";
    }
    if (foreign_tcp(in->fd, &fault) < 0) {
        return fault.msg;
    }
    request->ours = move_fd(&in->fd);
    return NULL;
}

static struct request *told_of(const struct agent_channel *ch, const struct channel_message *is)
{
    struct request *request;

    DL_FOREACH (ch->requests, request) {
        if (request->step == STEP_TOLD && request->seq == is->seq && request->op == is->op) {
            return request;
        }
    }
    return NULL;
}

static const char *on_answered(struct agent_channel *ch, struct received *in)
{
    struct request *request = told_of(ch, &in->message);

    if (!request) {
        if (ch->abandoned == 0) {
            return "it answered what was not asked";
        }
        ch->abandoned--;
        return NULL;
    }
    int32_t status = in->message.status;
    if (status > 0 || status <= -4096) {
        return "its answer to a connect made no sense";
    }
    if (status == 0 && request->op != CHANNEL_CONNECT) {
        status = (int32_t)(in->message.value & INT32_MAX);
    } else if (status == 0 && ch->version == CHANNEL_VERSION_FIRST) {
        const char *why = take_connection(request, in);
        if (why) {
            return why;
        }
    }
    bool connected = status == 0 && request->op == CHANNEL_CONNECT;
    finish(request, connected ? move_fd(&request->ours) : status);
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

void agent_channel_tell_used(struct agent_channel *ch, const struct keeper_usage *usage)
{
    const struct channel_message message = {
        .op = CHANNEL_USED,
        .seq = (uint32_t)(usage->memory_cache_bytes / KIB),
        .status = (int32_t)(uint32_t)(usage->cpu_usec / (CHANNEL_TICK_MS * 1000)),
        .value = (uint32_t)(usage->memory_bytes / KIB),
    };

    if (ch->version != CHANNEL_VERSION_FIRST && !ch->quiet_done && buf_len(&ch->out) == 0) {
        (void)put(ch, &message);
    }
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
        ch->greeted = in->message.op == CHANNEL_HELLO && in->message.value == ch->version;
        return ch->greeted ? NULL : "it speaks another version";
    }
    const uint32_t op = in->message.op;
    if (op == CHANNEL_CONNECT || op == CHANNEL_ALONE || op == CHANNEL_FILES) {
        return on_answered(ch, in);
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

/* Only an agent of the first release has any to hand over, one at a time. */
static bool brought_descriptors(const struct agent_channel *ch, int received, int fd)
{
    return ch->version != CHANNEL_VERSION_FIRST && (fd >= 0 || received == -ETOOMANYREFS);
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
        if (brought_descriptors(ch, r, in.fd)) {
            channel_break(ch, "it handed over a descriptor, which no agent does", true);
            return;
        }
        const char *why = r == -EPROTO || r == -ETOOMANYREFS ? "it sent a message of another form"
                          : r <= 0                           ? "it closed the connection"
                                                             : take(ch, &in);
        if (why) {
            channel_break(ch, why, false);
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

static void jail_name(struct agent_channel *ch, const struct agent_channel_jail *jail)
{
    ch->keeper = jail->keeper;
    ch->version = jail->version;
    ch->wanted = (struct keeper_request){.op = KEEPER_SOCKETS, .jail = jail->name};
    (void)str_copy(ch->wanted.id, sizeof(ch->wanted.id), str_of(jail->id));
    for (size_t i = 0; i < KEEPER_JAIL_SOCKETS; i++) {
        if (jail->sockets[i] >= 0) {
            ch->sockets[ch->sockets_n++] = jail->sockets[i];
        }
    }
}

struct agent_channel *agent_channel_new(uv_loop_t *loop, int fd,
                                        const struct agent_channel_jail *jail,
                                        const struct agent_channel_handler *handler, void *ctx)
{
    struct agent_channel *ch = xnew(struct agent_channel);
    struct channel_message hello = {
        .op = CHANNEL_HELLO, .status = jail->past, .value = jail->version};

    ch->fd = fd;
    ch->loop = loop;
    ch->handler = *handler;
    ch->ctx = ctx;
    ch->next_seq = 1;
    ch->handles = 4;
    jail_name(ch, jail);
    buf_init(&ch->out, CHANNEL_OUT_MAX * sizeof(struct outgoing));
    if (uv_timer_init(loop, &ch->timer) < 0 || uv_timer_init(loop, &ch->quiet_timer) < 0 ||
        uv_timer_init(loop, &ch->again_timer) < 0 || uv_poll_init(loop, &ch->poll, fd) < 0) {
        abort(); /* a socket can always be polled */
    }
    ch->poll.data = ch->timer.data = ch->quiet_timer.data = ch->again_timer.data = ch;
    (void)uv_poll_start(&ch->poll, UV_READABLE, on_poll);
    (void)put(ch, &hello);
    return ch;
}
