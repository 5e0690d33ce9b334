/* channel.c - the agent's side of channel.h.
 *
 * Every connection to the listening socket is a peer of its own; a new daemon may attach while the
 * old one's connection is still dying. A peer that breaks the protocol, or does not read its
 * answers, is dropped: the daemon attaches again.
 */
#include "wire/channel.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <utlist.h>

#include "inside/agent/alone.h"
#include "inside/agent/internal.h"
#include "inside/agent/journal.h"
#include "inside/agent/proc_files.h"
#include "inside/agent/process.h"
#include "inside/agent/unpacking.h"
#include "lib/base/alloc.h"
#include "lib/base/fd.h"
#include "lib/base/fdpass.h"
#include "lib/base/log.h"

enum {
    PEERS_MAX = 16,
    OOM_WAIT_MS = 200,
    QUIET_MS_MAX = 120 * 1000,
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
    uint32_t oom_seen; /* the daemon's count as last reported */
    uint32_t seq;
    struct oom_ask *asks; /* all wait for one answer */
    uv_timer_t ask_timer;

    struct peer *log_peer; /* the peer that asked for lines last, or NULL */
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
    bool dropped; /* freed when the handle is closed */
    struct peer *prev, *next;
};

/* ---- peers ---- */

static void on_peer_closed(uv_handle_t *handle)
{
    free(container_of(handle, struct peer, poll));
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

static void peer_send(struct peer *peer, const struct channel_message *message)
{
    if (!peer->dropped && send(peer->fd, message, sizeof(*message), MSG_DONTWAIT | MSG_NOSIGNAL) !=
                              (ssize_t)sizeof(*message)) {
        peer_drop(peer);
    }
}

/* ---- connections ---- */

/* The agent's own HTTP surface. */
static int serve_http(struct agent *agent, int *fd, const char *tag)
{
    struct err err;

    return http_server_adopt(agent->server, move_fd(fd), (void *)(uintptr_t)tag, &err);
}

/* Takes the connection from *fd, if it serves it. */
static int connection_serve(struct agent *agent, uint32_t port, int *fd)
{
    if (*fd < 0) {
        return -EBADF;
    }
    switch (port) {
    case CHANNEL_PORT_CONTROL:
        return serve_http(agent, fd, agent_tag_control);
    case AGENT_PORT:
        return serve_http(agent, fd, agent_tag_edge);
    case CHANNEL_PORT_UNPACK:
        return unpacking_start(*fd);
    default:
        return -EINVAL;
    }
}

static void connect_asked(struct peer *peer, const struct channel_message *message, int *fd)
{
    struct channel_message answer = {.op = CHANNEL_CONNECT, .seq = message->seq};

    answer.status = connection_serve(peer->channel->agent, message->value, fd);
    peer_send(peer, &answer);
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
        peer_send(channel->peers, &question);
    }
}

/* ---- the journal ---- */

/* False when the socket is full: lines are under way then, and their acknowledgement calls this
 * again. */
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

/* A peer that asks for the first time gets all lines that are not on record, even if another peer
 * got them before. */
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
    peer_send(peer, &done);
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

/* ---- forks without a save of the memory ---- */

static void alone_asked(struct peer *peer, const struct channel_message *message)
{
    const struct agent *agent = peer->channel->agent;
    const struct channel_message answer = {.op = CHANNEL_ALONE,
                                           .seq = message->seq,
                                           .status = alone_is(agent) ? 0 : -EBUSY,
                                           .value = alone_requests(agent)};

    peer_send(peer, &answer);
}

static void files_given(struct peer *peer, const struct channel_message *message, int fd)
{
    struct channel_message answer = {.op = CHANNEL_FILES, .seq = message->seq};
    struct err err;

    answer.status =
        fd < 0 ? -EBADF : alone_files_take(peer->channel->agent, message->value, fd, &err);
    if (answer.status < 0 && fd >= 0) {
        log_warn("%s", err.msg);
    }
    peer_send(peer, &answer);
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
    peer_send(peer, &hello);
    if (same) {
        quiet_end(peer->channel, message->status);
    } else {
        peer_drop(peer);
    }
}

/* If it uses the descriptor that came with the message, it moves it out. */
static void peer_message(struct peer *peer, const struct channel_message *message, int *fd)
{
    if (!peer->greeted) {
        greet(peer, message);
    } else if (message->op == CHANNEL_CONNECT) {
        connect_asked(peer, message, fd);
    } else if (message->op == CHANNEL_OOM) {
        oom_answered(peer->channel, message);
    } else if (message->op == CHANNEL_LOG) {
        lines_asked(peer, message);
    } else if (message->op == CHANNEL_USED) {
        proc_files_update(message->value, message->seq, (uint32_t)message->status);
    } else if (message->op == CHANNEL_QUIET) {
        quiet_begin(peer, message);
    } else if (message->op == CHANNEL_ALONE) {
        alone_asked(peer, message);
    } else if (message->op == CHANNEL_FILES) {
        files_given(peer, message, *fd);
    } else {
        struct channel_message refusal = {
            .op = message->op, .seq = message->seq, .status = -EPROTONOSUPPORT};
        peer_send(peer, &refusal);
    }
}

static void on_peer_readable(uv_poll_t *poll, int status, int events)
{
    struct peer *peer = container_of(poll, struct peer, poll);

    (void)status, (void)events;
    for (int i = 0; i < MESSAGES_PER_TURN && !peer->dropped; i++) {
        struct channel_message message;
        struct iovec iov = {&message, sizeof(message)};
        scoped_fd fd = -1;
        ssize_t n = fdpass_receive(peer->fd, &iov, 1, &fd, 1, MSG_DONTWAIT);
        if (n == -EAGAIN || n == -EINTR) {
            return;
        }
        if (n != (ssize_t)sizeof(message)) {
            peer_drop(peer);
            return;
        }
        peer_message(peer, &message, &fd);
    }
}

/* ---- attaching ---- */

/* A peer in our own pid namespace is some process of the jail. Outside of a jail, where the agent
 * is not pid 1, no namespace shows this. */
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
