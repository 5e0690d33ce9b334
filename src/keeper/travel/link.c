#include "keeper/travel/link.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

static int ready_wait(int socket, short events, struct err *err)
{
    struct pollfd ready = {.fd = socket, .events = events};
    int r;

    do {
        r = poll(&ready, 1, TRAVEL_STALL_MS);
    } while (r < 0 && errno == EINTR);
    if (r == 0) {
        return err_set(err, ETIMEDOUT, "the other side did nothing for %d s",
                       TRAVEL_STALL_MS / 1000);
    }
    return r < 0 ? err_sys(err, "wait for the other side") : 0;
}

int link_send(int socket, enum travel_kind kind, const void *body, size_t len, struct err *err)
{
    uint32_t word = kind;
    struct iovec parts[] = {{&word, sizeof(word)}, {(void *)(uintptr_t)body, len}};
    const struct msghdr message = {.msg_iov = parts, .msg_iovlen = len ? 2 : 1};

    for (;;) {
        ssize_t n = sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n >= 0) {
            return 0;
        }
        if (errno != EAGAIN && errno != EINTR) {
            return err_sys(err, "send to the server");
        }
        int r = ready_wait(socket, POLLOUT, err);
        if (r < 0) {
            return r;
        }
    }
}

int link_receive(struct link *link, struct err *err)
{
    uint32_t word = 0;
    struct iovec parts[] = {{&word, sizeof(word)}, {link->body, sizeof(link->body)}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    int r = ready_wait(link->socket, POLLIN, err);

    if (r < 0) {
        return r;
    }
    ssize_t n = recvmsg(link->socket, &message, MSG_DONTWAIT);
    if (n <= 0) {
        return err_set(err, ECONNRESET, "the server has left");
    }
    if (n < (ssize_t)sizeof(word) || message.msg_flags & MSG_TRUNC) {
        return err_set(err, EPROTO, "the server sent a message that is none");
    }
    link->kind = (enum travel_kind)word;
    link->at = 0;
    link->n = (size_t)n - sizeof(word);
    return 0;
}

void link_end(int socket, struct travel_end *end, int status, const struct err *err)
{
    struct err ignored;

    end->status = status;
    if (status < 0) {
        end->err = *err;
    }
    (void)!link_send(socket, TRAVEL_END, end, sizeof(*end), &ignored);
}
