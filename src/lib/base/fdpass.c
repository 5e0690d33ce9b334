#include "lib/base/fdpass.h"

#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "lib/base/foreign.h"

union control {
    struct cmsghdr header;
    char room[CMSG_SPACE(sizeof(int) * FDPASS_MAX)];
};

ssize_t fdpass_send(int socket, const void *bytes, size_t len, const int *fds, size_t fds_n,
                    int flags)
{
    struct iovec iov = {(void *)(uintptr_t)bytes, len};
    union control control = {0};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

    assert(fds_n <= FDPASS_MAX);
    if (fds_n) {
        control.header = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int) * fds_n),
                                          .cmsg_level = SOL_SOCKET,
                                          .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(&control.header), fds, sizeof(int) * fds_n);
        msg.msg_control = &control;
        msg.msg_controllen = CMSG_SPACE(sizeof(int) * fds_n);
    }
    ssize_t n = sendmsg(socket, &msg, flags | MSG_NOSIGNAL);
    return n < 0 ? -errno : n;
}

static void fds_take(struct msghdr *msg, int *fds)
{
    const struct cmsghdr *header = CMSG_FIRSTHDR(msg);

    if (header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS) {
        memcpy(fds, CMSG_DATA(header), header->cmsg_len - CMSG_LEN(0));
    }
}

/* The room is CMSG_LEN() of max: the padding of CMSG_SPACE() would let one more in. */
ssize_t fdpass_receive(int socket, struct iovec *iov, size_t iov_n, int *fds, size_t max, int flags)
{
    union control control;
    struct msghdr msg = {.msg_iov = iov,
                         .msg_iovlen = iov_n,
                         .msg_control = &control,
                         .msg_controllen = CMSG_LEN(sizeof(int) * max)};

    assert(max <= FDPASS_MAX);
    for (size_t i = 0; i < max; i++) {
        fds[i] = -1;
    }
    ssize_t n = recvmsg(socket, &msg, flags | MSG_CMSG_CLOEXEC);
    if (n < 0) {
        return -errno;
    }
    fds_take(&msg, fds);
    if (msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) {
        fdpass_close(fds, max);
        return msg.msg_flags & MSG_TRUNC ? -EMSGSIZE : -ETOOMANYREFS;
    }
    return n;
}

void fdpass_close(int *fds, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        foreign_closep(&fds[i]); /* a channel may hold what a jail sent */
    }
}
