/* zygote_clone.c - the part of zygote.h that runs in a task: a CRIU that is a clone of a zygote. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "keeper/checkpoint/zygote.h"
#include "keeper/checkpoint/zygote_wire.h"
#include "lib/base/clock.h"
#include "lib/base/fd.h"
#include "lib/base/fdpass.h"

int zygote_ask(int zygote, int group_fd, const struct cgroup_v1_files *v1_files, int mount_ns,
               struct criu *out, struct err *err)
{
    const struct zygote_req req = {ZYGOTE_VERSION, ZYGOTE_REQ_CGROUP | ZYGOTE_REQ_CGROUPNS};
    int pair[2], fds[3 + CGROUP_MOUNTS_MAX];
    size_t n = 0;

    *out = (struct criu)CRIU_NONE;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
        return err_sys(err, "make a socket pair");
    }
    scoped_fd ours = pair[0];
    scoped_fd theirs = pair[1];
    fds[n++] = theirs;
    fds[n++] = mount_ns;
    fds[n++] = group_fd;
    for (size_t i = 0; i < CGROUP_MOUNTS_MAX; i++) {
        if (v1_files->fds[i] >= 0) {
            fds[n++] = v1_files->fds[i];
        }
    }
    ssize_t sent = fdpass_send(zygote, &req, sizeof(req), fds, n, MSG_DONTWAIT);
    if (sent < 0) {
        return err_set(err, (int)-sent, "ask the zygote: %s", strerrordesc_np((int)-sent));
    }
    out->socket = move_fd(&ours);
    out->cloned = true;
    return 0;
}

static int hello_await(struct criu *criu, int wait_ms, struct err *err)
{
    struct pollfd ready = {.fd = criu->socket, .events = POLLIN};
    const int64_t deadline_ms = clock_mono_ms() + wait_ms;
    struct zygote_hello hello = {0};
    struct iovec iov = {&hello, sizeof(hello)};
    int left_ms = wait_ms;

    while (left_ms > 0 && poll(&ready, 1, left_ms) < 0 && errno == EINTR) {
        left_ms = (int)(deadline_ms - clock_mono_ms());
    }
    ssize_t n = fdpass_receive(criu->socket, &iov, 1, &criu->pidfd, 1, MSG_DONTWAIT);
    if (n == -EAGAIN) {
        return err_set(err, ETIMEDOUT, "the zygote did not answer");
    }
    if (n != (ssize_t)sizeof(hello) || hello.version != ZYGOTE_VERSION) {
        return err_set(err, EPIPE, "the zygote is gone");
    }
    if (hello.status < 0 || hello.pid <= 0 || criu->pidfd < 0) {
        return err_set(err, EIO, "the zygote failed: %s", strerrordesc_np(-hello.status));
    }
    criu->pid = hello.pid;
    return 0;
}

int zygote_await(struct criu *criu, const struct zygote_ticket *ticket, struct err *err)
{
    const uint64_t mb = ticket->bytes >> 20;
    const int wait_ms = ZYGOTE_WAIT_MS + (ticket->fills ? (int)mb * ZYGOTE_WAIT_MS_PER_MB : 0);
    int r = hello_await(criu, wait_ms, err);

    if (r < 0) {
        fd_closep(&criu->pidfd);
        fd_closep(&criu->socket);
        *criu = (struct criu)CRIU_NONE;
    }
    return r;
}
