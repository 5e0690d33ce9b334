#include "keeper/task.h"

#include <errno.h>
#include <linux/sched.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/fdpass.h"

static _Noreturn void task_run(int socket, void (*enter)(void *ctx), task_work *work, void *ctx)
{
    struct task_result result = {0};
    int fds[KEEPER_FDS_MAX] = KEEPER_FDS_NONE;

    (void)signal(SIGCHLD, SIG_DFL); /* it waits for its own children */
    enter(ctx);
    work(ctx, &result, fds);
    /* Nobody there: the work is done all the same. */
    (void)fdpass_send(socket, &result, sizeof(result), fds, result.fds_n, 0);
    _exit(0);
}

static pid_t fork_into(int group_fd)
{
    struct clone_args args = {
        .flags = CLONE_INTO_CGROUP,
        .exit_signal = SIGCHLD,
        .cgroup = (unsigned)group_fd,
    };

    return group_fd < 0 ? fork() : (pid_t)syscall(SYS_clone3, &args, sizeof(args));
}

pid_t task_fork(const char *what, int group_fd, int *socket, struct err *err)
{
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
        return err_sys(err, "make a socket pair");
    }
    scoped_fd ours = pair[0];
    scoped_fd theirs = pair[1];
    pid_t pid = fork_into(group_fd);
    if (pid < 0) {
        return err_sys(err, "start %s", what);
    }
    *socket = pid == 0 ? move_fd(&theirs) : move_fd(&ours);
    return pid;
}

int task_start(int group_fd, void (*enter)(void *ctx), task_work *work, void *ctx, struct err *err)
{
    int socket = -1;
    pid_t pid = task_fork("a process", group_fd, &socket, err);

    if (pid == 0) {
        task_run(socket, enter, work, ctx);
    }
    return pid < 0 ? pid : socket;
}

bool task_take(int socket, struct task_result *result, int fds[KEEPER_FDS_MAX])
{
    struct iovec iov = {result, sizeof(*result)};
    ssize_t n = fdpass_receive(socket, &iov, 1, fds, KEEPER_FDS_MAX, MSG_DONTWAIT);

    if (n != (ssize_t)sizeof(*result)) {
        fdpass_close(fds, KEEPER_FDS_MAX);
        *result = (struct task_result){0};
        result->status = err_set(&result->err, EIO, "the process at work ended early");
        return false;
    }
    return true;
}
