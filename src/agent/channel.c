/* channel.c - the agent's side of channel.h.
 *
 * Every connection to the listening socket is a peer of its own; a new daemon may attach while the
 * old one's connection is still dying. A peer that breaks the protocol, or does not read its
 * answers, is dropped: the daemon attaches anew.
 */
#include "agent/channel.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <utlist.h>

#include "agent/internal.h"
#include "agent/journal.h"
#include "agent/process.h"
#include "agent/unpacking.h"
#include "base/alloc.h"
#include "base/fd.h"
#include "base/fdpass.h"

enum {
    PEERS_MAX = 16,
    DIALS_MAX = 256, /* connections to services of the jail under way at once, per peer */
    DIAL_TIMEOUT_MS = 5000,
    OOM_WAIT_MS = 200,
    QUIET_MS_MAX = 120 * 1000,
    PAIR_WAIT_MS = 1000,
    MESSAGES_PER_TURN = 64,
};

struct oom_ask {
    void (*done)(void *ctx, bool killed);
    void *ctx;
    struct oom_ask *next;
};

struct peer;

struct channel {
    struct agent *agent;
    int listen_fd;
    uv_poll_t listener;
    struct peer *peers; /* the newest first */
    size_t peers_n;
    uint32_t oom_seen; /* the daemon's count when it was last told */
    uint32_t seq;
    struct oom_ask *asks; /* all wait for one answer */
    uv_timer_t ask_timer;

    struct peer *log_peer; /* who asked for lines last, or NULL */
    uint32_t log_sent;     /* the last line it was sent */
    uint32_t log_limit;    /* the last it has asked for */
    bool log_numbered;     /* the journal goes on from where the sandbox's log was */

    uv_timer_t quiet_timer; /* no hello has come: the save has failed, and its daemon too */
};

struct peer {
    struct channel *channel;
    uv_poll_t poll;
    int fd;
    bool greeted;
    bool dropped; /* freed when the handle is closed and no dial is left */
    bool closed;  /* the handle is */
    size_t dials;
    struct peer *prev, *next;
};

/* One attempt to reach a port of the jail: 127.0.0.1 first, and when that refuses, [::1]. */
struct dial {
    struct peer *peer;
    uint32_t seq;
    uint16_t port;
    bool second;
    int fd;
    uv_poll_t poll;
    uv_timer_t timer;
};

/* ---- peers ---- */

static void peer_release(struct peer *peer)
{
    if (peer->closed && peer->dials == 0) {
        free(peer);
    }
}

static void on_peer_closed(uv_handle_t *handle)
{
    struct peer *peer = container_of(handle, struct peer, poll);

    peer->closed = true;
    peer_release(peer);
}

static void peer_drop(struct peer *peer)
{
    if (peer->dropped) {
        return;
    }
    peer->dropped = true;
    if (peer->channel->log_peer == peer) {
        peer->channel->log_peer = NULL;
    }
    DL_DELETE(peer->channel->peers, peer);
    peer->channel->peers_n--;
    uv_close((uv_handle_t *)&peer->poll, on_peer_closed);
    (void)close(peer->fd);
    peer->fd = -1;
}

/* Sends one message, with a descriptor when fd >= 0. */
static void peer_send(struct peer *peer, const struct channel_message *message, int fd)
{
    if (peer->dropped) {
        return;
    }
    ssize_t n = fdpass_send(peer->fd, message, sizeof(*message), &fd, fd >= 0, MSG_DONTWAIT);
    if (n != (ssize_t)sizeof(*message)) {
        peer_drop(peer);
    }
}

static void peer_answer(struct peer *peer, uint32_t seq, int status, int fd)
{
    struct channel_message answer = {.op = CHANNEL_CONNECT, .seq = seq, .status = status};

    peer_send(peer, &answer, fd);
}

/* ---- dialling ---- */

static void dial_start(struct peer *peer, uint32_t seq, uint16_t port, bool second);

static void on_dial_closed(uv_handle_t *handle)
{
    struct dial *dial = handle->data;
    struct peer *peer = dial->peer;

    if (handle == (uv_handle_t *)&dial->timer) {
        uv_close((uv_handle_t *)&dial->poll, on_dial_closed);
        return;
    }
    free(dial);
    peer->dials--;
    peer_release(peer);
}

/* A service may listen on the second address alone. An error that only the second has (no IPv6 in
 * the jail) says less than the first's refusal. */
static void dial_result(struct peer *peer, uint32_t seq, uint16_t port, bool second, int status,
                        int fd)
{
    if (status == -ECONNREFUSED && !second) {
        dial_start(peer, seq, port, true);
    } else if (status < 0 && second && status != -ETIMEDOUT) {
        peer_answer(peer, seq, -ECONNREFUSED, -1);
    } else {
        peer_answer(peer, seq, status, fd);
    }
}

static void dial_end(struct dial *dial, int status)
{
    dial_result(dial->peer, dial->seq, dial->port, dial->second, status,
                status == 0 ? dial->fd : -1);
    (void)uv_poll_stop(&dial->poll);
    uv_close((uv_handle_t *)&dial->timer, on_dial_closed);
    fd_closep(&dial->fd); /* the peer has its own copy */
}

static void on_dialled(uv_poll_t *poll, int status, int events)
{
    struct dial *dial = container_of(poll, struct dial, poll);
    int error = 0;
    socklen_t len = sizeof(error);

    (void)status, (void)events;
    if (getsockopt(dial->fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0) {
        error = errno;
    }
    dial_end(dial, -error);
}

static void on_dial_timeout(uv_timer_t *timer)
{
    dial_end(container_of(timer, struct dial, timer), -ETIMEDOUT);
}

/* 0: connected. -EINPROGRESS: under way. *fd is set in both cases. */
static int loopback_connect(uint16_t port, bool second, int *fd)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    struct sockaddr *address = second ? (void *)&v6 : (void *)&v4;
    socklen_t len = second ? sizeof(v6) : sizeof(v4);

    v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    v6.sin6_addr = in6addr_loopback;
    *fd = socket(second ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (*fd < 0) {
        return -errno;
    }
    return connect(*fd, address, len) < 0 ? -errno : 0;
}

/* Takes the descriptor over. */
static void dial_wait(struct peer *peer, uint32_t seq, uint16_t port, bool second, int fd)
{
    uv_loop_t *loop = peer->channel->agent->loop;
    struct dial *dial = xnew(struct dial);

    *dial = (struct dial){.peer = peer, .seq = seq, .port = port, .second = second, .fd = fd};
    if (uv_poll_init(loop, &dial->poll, fd) < 0) {
        abort(); /* a socket just made by us that epoll does not take */
    }
    (void)uv_timer_init(loop, &dial->timer);
    dial->poll.data = dial->timer.data = dial;
    peer->dials++;
    (void)uv_poll_start(&dial->poll, UV_WRITABLE, on_dialled);
    (void)uv_timer_start(&dial->timer, on_dial_timeout, DIAL_TIMEOUT_MS, 0);
}

static void dial_start(struct peer *peer, uint32_t seq, uint16_t port, bool second)
{
    scoped_fd fd = -1;
    int r = loopback_connect(port, second, &fd);

    if (r == -EINPROGRESS && peer->dials >= DIALS_MAX) {
        peer_answer(peer, seq, -EAGAIN, -1);
    } else if (r == -EINPROGRESS) {
        dial_wait(peer, seq, port, second, move_fd(&fd));
    } else {
        dial_result(peer, seq, port, second, r, r == 0 ? fd : -1);
    }
}

static int listen_once(struct sockaddr_in *address)
{
    socklen_t len = sizeof(*address);
    scoped_fd fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    *address = (struct sockaddr_in){.sin_family = AF_INET};
    address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || bind(fd, (struct sockaddr *)address, len) < 0 || listen(fd, 1) < 0 ||
        getsockname(fd, (struct sockaddr *)address, &len) < 0) {
        return -errno;
    }
    return move_fd(&fd);
}

static bool is_peer_of(int accepted, int connected)
{
    struct sockaddr_in a = {0}, b = {0};
    socklen_t a_len = sizeof(a), b_len = sizeof(b);

    return getpeername(accepted, (struct sockaddr *)&a, &a_len) == 0 &&
           getsockname(connected, (struct sockaddr *)&b, &b_len) == 0 && a.sin_port == b.sin_port &&
           a.sin_addr.s_addr == b.sin_addr.s_addr;
}

/* Children that end meanwhile do not cut it short. */
static int pair_await(int fd, short events)
{
    struct pollfd ready = {.fd = fd, .events = events};
    int n;

    while ((n = poll(&ready, 1, PAIR_WAIT_MS)) < 0 && errno == EINTR) {
    }
    return n < 0 ? -errno : n == 0 ? -ETIMEDOUT : 0;
}

static int pair_connect(int fd, const struct sockaddr_in *address)
{
    int error = 0;
    socklen_t len = sizeof(error);

    if (connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0) {
        return 0;
    }
    int r = errno == EINPROGRESS ? pair_await(fd, POLLOUT) : -errno;
    if (r == 0 && getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0) {
        r = -errno;
    }
    return r < 0 ? r : -error;
}

/* Two ends of a connection over loopback. Unlike those of a unix pair, one of them can be saved
 * with the jail while the other is outside. Somebody else who finds the port in that moment is not
 * taken for our own end. */
static int tcp_pair(int *ours, int *theirs)
{
    struct sockaddr_in address;
    scoped_fd listener = listen_once(&address);
    scoped_fd client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (listener < 0 || client < 0) {
        return listener < 0 ? listener : -errno;
    }
    int r = pair_connect(client, &address);
    if (r < 0 || (r = pair_await(listener, POLLIN)) < 0) {
        return r;
    }
    scoped_fd accepted = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (accepted < 0 || !is_peer_of(accepted, client)) {
        return accepted < 0 ? -errno : -EAGAIN;
    }
    *ours = move_fd(&accepted);
    *theirs = move_fd(&client);
    return 0;
}

/* The agent's own HTTP surface. */
static void own_connect(struct peer *peer, uint32_t seq, const char *tag)
{
    struct agent *agent = peer->channel->agent;
    scoped_fd ours = -1, theirs = -1;
    struct err err;
    int r = tcp_pair(&ours, &theirs);

    if (r == 0) {
        r = http_server_adopt(agent->server, move_fd(&ours), (void *)(uintptr_t)tag, &err);
    }
    peer_answer(peer, seq, r, r < 0 ? -1 : theirs);
}

static void unpacker_connect(struct peer *peer, uint32_t seq)
{
    scoped_fd inside = -1, outside = -1;
    int r = tcp_pair(&inside, &outside);

    if (r == 0) {
        r = unpacking_start(inside);
    }
    peer_answer(peer, seq, r, r < 0 ? -1 : outside);
}

/* ---- questions ---- */

static void asks_answer(struct channel *channel, bool killed)
{
    struct oom_ask *asks = channel->asks;

    channel->asks = NULL;
    (void)uv_timer_stop(&channel->ask_timer);
    while (asks) {
        struct oom_ask *ask = asks;
        asks = ask->next;
        ask->done(ask->ctx, killed);
        free(ask);
    }
}

static void on_ask_timeout(uv_timer_t *timer)
{
    asks_answer(container_of(timer, struct channel, ask_timer), false);
}

static void oom_answered(struct channel *channel, const struct channel_message *message)
{
    bool grown = message->status == 0 && message->value > channel->oom_seen;

    if (message->status == 0) {
        channel->oom_seen = message->value;
    }
    asks_answer(channel, grown);
}

void channel_oom_ask(struct channel *channel, void (*done)(void *ctx, bool killed), void *ctx)
{
    if (!channel || !channel->peers || !channel->peers->greeted) {
        done(ctx, false);
        return;
    }
    struct oom_ask *ask = xnew(struct oom_ask);
    ask->done = done;
    ask->ctx = ctx;
    bool first = !channel->asks;
    LL_PREPEND(channel->asks, ask);
    if (first) {
        struct channel_message question = {.op = CHANNEL_OOM, .seq = ++channel->seq};
        (void)uv_timer_start(&channel->ask_timer, on_ask_timeout, OOM_WAIT_MS, 0);
        peer_send(channel->peers, &question, -1);
    }
}

/* ---- the journal ---- */

/* False when the socket is full: there are lines under way then, and what follows their arrival
 * brings us here again. */
static bool line_send(struct peer *peer, const struct journal_line *line)
{
    struct channel_message message = {.op = CHANNEL_LOG, .seq = line->seq};
    struct channel_log log = {
        .wall_ms = line->wall_ms, .level = (uint32_t)line->level, .lost = line->lost};
    struct iovec iov[] = {{&message, sizeof(message)},
                          {&log, sizeof(log)},
                          {(void *)(uintptr_t)line->text.at, line->text.len}};
    struct msghdr msg = {.msg_iov = iov, .msg_iovlen = countof(iov)};

    return sendmsg(peer->fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) > 0;
}

static void lines_send(void *ctx)
{
    struct channel *channel = ctx;
    struct journal_line line;

    while (channel->log_peer && channel->log_sent < channel->log_limit &&
           journal_next(channel->log_sent, &line) && line.seq <= channel->log_limit &&
           line_send(channel->log_peer, &line)) {
        channel->log_sent = line.seq;
        journal_told_lost();
    }
}

/* A peer that asks for the first time gets all that is not on record, whoever had it before. */
static void lines_asked(struct peer *peer, const struct channel_message *message)
{
    struct channel *channel = peer->channel;

    if (!channel->log_numbered) {
        channel->log_numbered = true;
        journal_number(message->seq);
    }
    if (channel->log_peer != peer || message->seq > channel->log_sent) {
        channel->log_sent = message->seq;
    }
    channel->log_peer = peer;
    channel->log_limit =
        message->value < UINT32_MAX - message->seq ? message->seq + message->value : UINT32_MAX;
    journal_forget(message->seq);
    lines_send(channel);
}

/* ---- around a save ---- */

void privacy_keep(bool kept)
{
    if (getpid() == 1) {
        (void)prctl(PR_SET_DUMPABLE, kept ? 0 : 1, 0, 0, 0);
    }
}

static void on_quiet_timeout(uv_timer_t *timer)
{
    struct channel *channel = container_of(timer, struct channel, quiet_timer);

    privacy_keep(true);
    processes_go_on(channel->agent->processes);
}

/* No channel may be open while the jail is saved: its other end would be missing in the image. */
static void quiet_begin(struct peer *peer, const struct channel_message *message)
{
    struct channel *channel = peer->channel;
    struct channel_message done = {.op = CHANNEL_QUIET, .seq = message->seq};
    bool ends = message->value == CHANNEL_QUIET_END;

    privacy_keep(false);
    processes_hold(channel->agent->processes, ends);
    if (ends) {
        rpc_fail_streams(RPC_ABORTED, "the sandbox is being paused: connect again");
    }
    (void)uv_timer_start(&channel->quiet_timer, on_quiet_timeout, QUIET_MS_MAX, 0);
    peer_send(peer, &done, -1);
    while (channel->peers) {
        peer_drop(channel->peers);
    }
}

static void quiet_end(struct channel *channel, int past)
{
    if (past == CHANNEL_PAST_COPIED) {
        journal_forget(UINT32_MAX);
        channel->log_numbered = false;
        channel->oom_seen = 0;
    }
    if (past != CHANNEL_PAST_NONE) {
        http_server_drop_adopted(channel->agent->server);
    }
    privacy_keep(true);
    (void)uv_timer_stop(&channel->quiet_timer);
    processes_go_on(channel->agent->processes);
}

/* ---- messages ---- */

static void greet(struct peer *peer, const struct channel_message *message)
{
    bool same = message->op == CHANNEL_HELLO && message->value == CHANNEL_VERSION;
    struct channel_message hello = {
        .op = CHANNEL_HELLO,
        .seq = message->seq,
        .status = same ? 0 : -EPROTONOSUPPORT,
        .value = CHANNEL_VERSION,
    };

    peer->greeted = same;
    peer_send(peer, &hello, -1);
    if (same) {
        quiet_end(peer->channel, message->status);
    } else {
        peer_drop(peer);
    }
}

static void peer_message(struct peer *peer, const struct channel_message *message)
{
    if (!peer->greeted) {
        greet(peer, message);
    } else if (message->op == CHANNEL_OOM) {
        oom_answered(peer->channel, message);
    } else if (message->op == CHANNEL_LOG) {
        lines_asked(peer, message);
    } else if (message->op == CHANNEL_QUIET) {
        quiet_begin(peer, message);
    } else if (message->op != CHANNEL_CONNECT) {
        struct channel_message refusal = {
            .op = message->op, .seq = message->seq, .status = -EPROTONOSUPPORT};
        peer_send(peer, &refusal, -1);
    } else if (message->value == CHANNEL_PORT_CONTROL) {
        own_connect(peer, message->seq, agent_tag_control);
    } else if (message->value == AGENT_PORT) {
        own_connect(peer, message->seq, agent_tag_edge);
    } else if (message->value == CHANNEL_PORT_UNPACK) {
        unpacker_connect(peer, message->seq);
    } else if (message->value > UINT16_MAX) {
        peer_answer(peer, message->seq, -EINVAL, -1);
    } else {
        dial_start(peer, message->seq, (uint16_t)message->value, false);
    }
}

static void on_peer_readable(uv_poll_t *poll, int status, int events)
{
    struct peer *peer = container_of(poll, struct peer, poll);

    (void)status, (void)events;
    for (int i = 0; i < MESSAGES_PER_TURN && !peer->dropped; i++) {
        struct channel_message message;
        ssize_t n = recv(peer->fd, &message, sizeof(message), MSG_DONTWAIT | MSG_TRUNC);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            return;
        }
        if (n != (ssize_t)sizeof(message)) {
            peer_drop(peer);
            return;
        }
        peer_message(peer, &message);
    }
}

/* ---- attaching ---- */

/* A peer in our own pid namespace is some process of the jail. Elsewhere than in a jail, where the
 * agent is not pid 1, there is no namespace to tell by. */
static bool from_outside(int fd)
{
    struct ucred cred;
    socklen_t len = sizeof(cred);

    return getpid() != 1 ||
           (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) == 0 && cred.pid == 0);
}

static void on_attach(uv_poll_t *poll, int status, int events)
{
    struct channel *channel = container_of(poll, struct channel, listener);
    scoped_fd fd = accept4(channel->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    (void)status, (void)events;
    if (fd < 0 || !from_outside(fd)) {
        return;
    }
    if (channel->peers_n == PEERS_MAX) {
        peer_drop(channel->peers->prev); /* the oldest: a list's head knows its tail */
    }
    struct peer *peer = xnew(struct peer);
    peer->channel = channel;
    if (uv_poll_init(channel->agent->loop, &peer->poll, fd) < 0) {
        free(peer);
        return;
    }
    peer->fd = move_fd(&fd);
    DL_PREPEND(channel->peers, peer);
    channel->peers_n++;
    (void)uv_poll_start(&peer->poll, UV_READABLE | UV_DISCONNECT, on_peer_readable);
}

int channel_new(struct agent *agent, int listen_fd, struct channel **out, struct err *err)
{
    struct channel *channel = xnew(struct channel);

    channel->agent = agent;
    channel->listen_fd = listen_fd;
    int r = uv_poll_init(agent->loop, &channel->listener, listen_fd);
    if (r < 0) {
        free(channel);
        return err_set(err, -r, "serve the channel: %s", uv_strerror(r));
    }
    (void)uv_timer_init(agent->loop, &channel->ask_timer);
    (void)uv_timer_init(agent->loop, &channel->quiet_timer);
    (void)uv_poll_start(&channel->listener, UV_READABLE, on_attach);
    journal_listen(lines_send, channel);
    *out = channel;
    return 0;
}
