#include "keeper/task.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"

union control {
    struct cmsghdr header;
    char room[CMSG_SPACE(sizeof(int) * KEEPER_FDS_MAX)];
};

static void result_send(int socket, struct task_result *result, const int *fds)
{
    struct iovec iov = {result, sizeof(*result)};
    union control control = {0};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

    if (result->fds_n) {
        msg.msg_control = &control;
        msg.msg_controllen = CMSG_SPACE(sizeof(int) * result->fds_n);
        struct cmsghdr *header = CMSG_FIRSTHDR(&msg);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int) * result->fds_n);
        memcpy(CMSG_DATA(header), fds, sizeof(int) * result->fds_n);
    }
    (void)sendmsg(socket, &msg, MSG_NOSIGNAL); /* nobody there: the work is done all the same */
}

static _Noreturn void task_run(int socket, void (*enter)(void *ctx), task_work *work, void *ctx)
{
    struct task_result result = {0};
    int fds[KEEPER_FDS_MAX] = KEEPER_FDS_NONE;

    (void)signal(SIGCHLD, SIG_DFL); /* it waits for its own children */
    enter(ctx);
    work(ctx, &result, fds);
    result_send(socket, &result, fds);
    _exit(0);
}

int task_start(void (*enter)(void *ctx), task_work *work, void *ctx, struct err *err)
{
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
        return err_sys(err, "make a socket pair");
    }
    scoped_fd ours = pair[0];
    scoped_fd theirs = pair[1];
    pid_t pid = fork();
    if (pid < 0) {
        return err_sys(err, "start a process");
    }
    if (pid == 0) {
        fd_closep(&ours);
        task_run(theirs, enter, work, ctx);
    }
    return move_fd(&ours);
}

bool task_take(int socket, struct task_result *result, int fds[KEEPER_FDS_MAX])
{
    struct iovec iov = {result, sizeof(*result)};
    union control control = {0};
    struct msghdr msg = {
        .msg_iov = &iov,
        .msg_iovlen = 1,
        .msg_control = &control,
        .msg_controllen = sizeof(control.room),
    };
    ssize_t n = recvmsg(socket, &msg, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    struct cmsghdr *header = n == (ssize_t)sizeof(*result) ? CMSG_FIRSTHDR(&msg) : NULL;

    if (n != (ssize_t)sizeof(*result)) {
        *result = (struct task_result){0};
        result->status = err_set(&result->err, EIO, "the process at work ended early");
    }
    for (int i = 0; i < KEEPER_FDS_MAX; i++) {
        fds[i] = -1;
    }
    if (header && header->cmsg_type == SCM_RIGHTS) {
        memcpy(fds, CMSG_DATA(header), header->cmsg_len - CMSG_LEN(0));
    }
    return n == (ssize_t)sizeof(*result);
}
