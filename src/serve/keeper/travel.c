#include "serve/keeper/travel.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "lib/base/alloc.h"
#include "lib/base/busy.h"
#include "lib/base/fd.h"

enum { MESSAGES_AT_ONCE = 8 }; /* then others of the loop have their turn */

struct keeper_travel_link {
    uv_poll_t poll;
    int fd;
    const struct keeper_travel_handler *handler;
    void *ctx;
    bool reads; /* messages are wanted */
    bool ended; /* `end` was called */
    bool freed;
    bool calling;  /* a callback runs */
    size_t unsent; /* bytes of `out`, with the kind in front; 0: none */
    char out[sizeof(uint32_t) + TRAVEL_BODY_BYTES_MAX];
    char in[TRAVEL_BODY_BYTES_MAX];
};

static void on_ready(uv_poll_t *poll, int status, int events);

static void on_closed(uv_handle_t *handle)
{
    struct keeper_travel_link *link = handle->data;

    fd_closep(&link->fd);
    free(link);
}

static void poll_update(struct keeper_travel_link *link)
{
    int events = (link->reads ? UV_READABLE : 0) | (link->unsent ? UV_WRITABLE : 0);

    if (link->freed || link->ended || events == 0) {
        (void)uv_poll_stop(&link->poll);
    } else {
        (void)uv_poll_start(&link->poll, events, on_ready);
    }
}

static void over(struct keeper_travel_link *link, const struct travel_end *end)
{
    if (!link->ended && !link->freed) {
        link->ended = true;
        link->handler->end(link->ctx, end);
    }
}

static void lost(struct keeper_travel_link *link)
{
    struct travel_end end = {.status = -ECONNRESET};

    (void)err_set(&end.err, ECONNRESET, "the keeper went away");
    over(link, &end);
}

static void message_take(struct keeper_travel_link *link, uint32_t kind, struct str body)
{
    struct travel_end end;

    if (kind == TRAVEL_END && body.len == sizeof(end)) {
        memcpy(&end, body.at, sizeof(end));
        end.err.msg[sizeof(end.err.msg) - 1] = '\0';
        end.name[sizeof(end.name) - 1] = '\0';
        over(link, &end);
    } else if (kind == TRAVEL_META || kind == TRAVEL_BYTES) {
        link->handler->message(link->ctx, (enum travel_kind)kind, body);
    } else {
        lost(link);
    }
}

static bool receive(struct keeper_travel_link *link)
{
    uint32_t kind = 0;
    struct iovec parts[] = {{&kind, sizeof(kind)}, {link->in, sizeof(link->in)}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    ssize_t n = recvmsg(link->fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

    if (n < 0 && errno == ECONNRESET) {
        /* It left without reading all of the file, which is told once: its outcome is behind that.
         */
        message = (struct msghdr){.msg_iov = parts, .msg_iovlen = 2};
        n = recvmsg(link->fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    }
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return false;
    }
    if (n < (ssize_t)sizeof(kind) || message.msg_flags & MSG_TRUNC) {
        lost(link);
        return false;
    }
    message_take(link, kind, (struct str){link->in, (size_t)n - sizeof(kind)});
    return true;
}

/* A keeper that has ended the work early no longer reads: what it said is received instead. */
static void send_now(struct keeper_travel_link *link)
{
    ssize_t n = send(link->fd, link->out, link->unsent, MSG_NOSIGNAL | MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    link->unsent = 0;
    if (n >= 0) {
        link->handler->sent(link->ctx);
    }
}

static void on_ready(uv_poll_t *poll, int status, int events)
{
    struct keeper_travel_link *link = poll->data;

    busy("a save that travels");
    link->calling = true;
    if (status < 0) { /* the other end is closed: what it said before is still there */
        while (!link->freed && !link->ended && receive(link)) {
        }
        lost(link);
    }
    if (!link->freed && !link->ended && events & UV_WRITABLE && link->unsent) {
        send_now(link);
    }
    for (int i = 0; i < MESSAGES_AT_ONCE && !link->freed && !link->ended && link->reads; i++) {
        if (!(events & UV_READABLE) || !receive(link)) {
            break;
        }
    }
    link->calling = false;
    if (link->freed) {
        uv_close((uv_handle_t *)&link->poll, on_closed);
    } else {
        poll_update(link);
    }
}

struct keeper_travel_link *keeper_travel_link_new(uv_loop_t *loop, int fd,
                                                  const struct keeper_travel_handler *handler,
                                                  void *ctx)
{
    struct keeper_travel_link *link = xnew(struct keeper_travel_link);

    link->fd = fd;
    link->handler = handler;
    link->ctx = ctx;
    if (uv_poll_init(loop, &link->poll, fd) < 0) {
        abort(); /* a fresh descriptor can always be polled */
    }
    link->poll.data = link;
    return link;
}

void keeper_travel_read(struct keeper_travel_link *link, bool wanted)
{
    link->reads = wanted;
    if (!link->calling) {
        poll_update(link);
    }
}

void keeper_travel_send(struct keeper_travel_link *link, enum travel_kind kind, struct str body)
{
    const uint32_t word = kind;

    assert(link->unsent == 0 && body.len <= TRAVEL_BODY_BYTES_MAX);
    memcpy(link->out, &word, sizeof(word));
    if (body.len > 0) {
        memcpy(link->out + sizeof(word), body.at, body.len);
    }
    link->unsent = sizeof(word) + body.len;
    if (!link->calling) {
        poll_update(link);
    }
}

void keeper_travel_link_free(struct keeper_travel_link *link)
{
    if (!link || link->freed) {
        return;
    }
    link->freed = true;
    (void)uv_poll_stop(&link->poll);
    if (!link->calling) {
        uv_close((uv_handle_t *)&link->poll, on_closed);
    }
}
