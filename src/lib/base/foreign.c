#include "lib/base/foreign.h"

#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    FOREIGN_FDS_MAX = 253, /* the kernel's SCM_MAX_FD: no message brings more */
    LAYER_NAME_BYTES = 16, /* the kernel's TCP_ULP_NAME_MAX */
};

/* The kernel's states of a TCP socket that are no connection. */
enum { STATE_SYN_SENT = 2, STATE_SYN_RECV = 3, STATE_CLOSE = 7, STATE_LISTEN = 10 };

static void (*foreign_closer)(int fd, bool reset);

/* ---- closing ---- */

void foreign_closer_set(void (*closer)(int fd, bool reset))
{
    foreign_closer = closer;
}

void foreign_close_now(int fd, bool reset)
{
    const struct linger linger = {.l_onoff = reset, .l_linger = 0};

    /* Fails on what is no socket, which has nothing to linger for. */
    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
    (void)close(fd);
}

void foreign_close(int *fd, bool reset)
{
    int saved = errno;

    if (*fd >= 0 && foreign_closer) {
        foreign_closer(*fd, reset);
    } else if (*fd >= 0) {
        foreign_close_now(*fd, reset);
    }
    *fd = -1;
    errno = saved;
}

/* ---- receiving ---- */

union control {
    struct cmsghdr header;
    char room[CMSG_SPACE(sizeof(int) * FOREIGN_FDS_MAX)];
};

/* How many descriptors came; all are in `fds`. */
static size_t fds_take(struct msghdr *msg, int fds[FOREIGN_FDS_MAX])
{
    const struct cmsghdr *header = CMSG_FIRSTHDR(msg);

    if (!header || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) {
        return 0;
    }
    size_t bytes = header->cmsg_len - CMSG_LEN(0);
    memcpy(fds, CMSG_DATA(header), bytes);
    return bytes / sizeof(int);
}

ssize_t foreign_receive(int socket, struct iovec *iov, size_t iov_n, int *fd)
{
    union control control;
    int fds[FOREIGN_FDS_MAX];
    struct msghdr msg = {.msg_iov = iov,
                         .msg_iovlen = iov_n,
                         .msg_control = &control,
                         .msg_controllen = CMSG_LEN(sizeof(int) * FOREIGN_FDS_MAX)};

    *fd = -1;
    ssize_t n = recvmsg(socket, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n < 0) {
        return -errno;
    }
    size_t count = fds_take(&msg, fds);
    bool cut = (msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0;
    if (count == 1 && !cut) {
        *fd = fds[0];
        return n;
    }
    for (size_t i = 0; i < count; i++) {
        foreign_close(&fds[i], false);
    }
    return msg.msg_flags & MSG_TRUNC ? -EMSGSIZE : count > 0 || cut ? -ETOOMANYREFS : n;
}

/* ---- what it is ---- */

static int option(int fd, int name)
{
    int value = -1;
    socklen_t len = sizeof(value);

    return getsockopt(fd, SOL_SOCKET, name, &value, &len) < 0 ? -1 : value;
}

/* A connection that its peer has reset already was one: segments have left it. */
static bool is_connected(int fd)
{
    struct tcp_info info = {0};
    socklen_t len = sizeof(info);

    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) < 0) {
        return false;
    }
    if (info.tcpi_state == STATE_CLOSE) {
        return info.tcpi_segs_out > 0;
    }
    return info.tcpi_state != STATE_LISTEN && info.tcpi_state != STATE_SYN_SENT &&
           info.tcpi_state != STATE_SYN_RECV;
}

/* TLS in the kernel has locks that a writer holds while it waits, whatever the next one's flags
 * are. Jails cannot put such a layer on a socket (keeper/jail/filter.c). */
static bool has_layer(int fd)
{
    char name[LAYER_NAME_BYTES] = "";
    socklen_t len = sizeof(name);

    return getsockopt(fd, IPPROTO_TCP, TCP_ULP, name, &len) == 0 && len > 0 && name[0];
}

int foreign_tcp(int fd, struct err *err)
{
    const struct linger off = {0};
    int domain = option(fd, SO_DOMAIN);

    if (domain < 0) {
        return err_set(err, EPROTOTYPE, "it handed over a descriptor that is not a socket");
    }
    if ((domain != AF_INET && domain != AF_INET6) || option(fd, SO_TYPE) != SOCK_STREAM ||
        option(fd, SO_PROTOCOL) != IPPROTO_TCP) {
        return err_set(err, EPROTOTYPE, "it handed over a socket that is not TCP");
    }
    if (has_layer(fd)) {
        return err_set(err, EPROTOTYPE, "it handed over a socket with a protocol on top of TCP");
    }
    if (!is_connected(fd)) {
        return err_set(err, EPROTOTYPE, "it handed over a socket that is not connected");
    }
    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &off, sizeof(off));
    return 0;
}
