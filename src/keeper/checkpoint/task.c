#include "keeper/checkpoint/task.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include "lib/base/fd.h"
#include "lib/base/fdpass.h"

/* State of a task. Signal handlers read it: each field is set before the one that makes it
 * valid. */
static struct {
    pid_t keeper;
    int kills[TASK_GROUPS_MAX]; /* files cgroup.kill; the task's own group is the first */
    volatile sig_atomic_t kills_n;
    void (*leave)(void *ctx);
    void *ctx;
    volatile sig_atomic_t orderly;
    volatile sig_atomic_t leaving;
} self;

/* ---- leaving ---- */

/* Kills its own group last: that ends this process. */
static void groups_kill(int signal_number)
{
    (void)signal_number;
    for (int i = self.kills_n; i-- > 0;) {
        (void)!write(self.kills[i], "1", 1);
    }
    _exit(1);
}

static void on_leave(int signal_number)
{
    const struct itimerval limit = {.it_value = {.tv_sec = TASK_LEAVE_MS / 1000}};
    int saved = errno;

    if (!self.orderly) {
        groups_kill(signal_number);
    }
    if (!self.leaving) {
        self.leaving = 1;
        (void)setitimer(ITIMER_REAL, &limit, NULL);
        if (self.leave) {
            self.leave(self.ctx);
        }
    }
    errno = saved;
}

static void signals_set(void)
{
    const struct sigaction leave = {.sa_handler = on_leave, .sa_flags = SA_RESTART};
    const struct sigaction limit = {.sa_handler = groups_kill, .sa_flags = SA_RESTART};
    sigset_t own;

    (void)sigaction(TASK_LEAVE_SIGNAL, &leave, NULL);
    (void)sigaction(SIGALRM, &limit, NULL);
    (void)sigemptyset(&own);
    (void)sigaddset(&own, TASK_LEAVE_SIGNAL);
    (void)sigaddset(&own, SIGALRM);
    (void)sigprocmask(SIG_UNBLOCK, &own, NULL);
}

int task_takes_along(int group_fd, struct err *err)
{
    int fd = openat(group_fd, "cgroup.kill", O_WRONLY | O_CLOEXEC);

    if (fd < 0 || self.kills_n == TASK_GROUPS_MAX) {
        return err_sys(err, "open the end of a control group");
    }
    self.kills[self.kills_n] = fd;
    self.kills_n++;
    return 0;
}

void task_orderly(void (*leave)(void *ctx), void *ctx)
{
    self.leave = leave;
    self.ctx = ctx;
    self.orderly = 1;
}

bool task_leaving(void)
{
    return self.leaving;
}

void task_die_with_parent(void)
{
    (void)prctl(PR_SET_PDEATHSIG, TASK_LEAVE_SIGNAL);
    if (getppid() != self.keeper) {
        (void)raise(TASK_LEAVE_SIGNAL);
    }
}

void task_child_die_with_parent(pid_t parent)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
        _exit(1);
    }
}

/* ---- starting ---- */

static _Noreturn void task_run(int socket, void (*enter)(void *ctx), task_function *function,
                               void *ctx)
{
    struct task_result result = {0};
    int fds[KEEPER_FDS_MAX] = KEEPER_FDS_NONE;

    (void)signal(SIGCHLD, SIG_DFL); /* a task waits for its children */
    signals_set();
    enter(ctx);
    task_die_with_parent();
    function(ctx, &result, fds);
    if (self.leaving && result.status < 0) {
        result.status = err_set(&result.err, ETIMEDOUT, "it took too long, and was given up");
    }
    /* The keeper may be gone: the work is done all the same. */
    (void)fdpass_send(socket, &result, sizeof(result), fds, result.fds_n, 0);
    _exit(0);
}

static pid_t fork_into(int group_fd, int *pidfd)
{
    struct clone_args args = {
        .flags = CLONE_PIDFD | (group_fd < 0 ? 0 : CLONE_INTO_CGROUP),
        .pidfd = (uintptr_t)pidfd,
        .exit_signal = SIGCHLD,
        .cgroup = group_fd < 0 ? 0 : (unsigned)group_fd,
    };

    return (pid_t)syscall(SYS_clone3, &args, sizeof(args));
}

pid_t task_fork(const char *what, int group_fd, int *socket, int *pidfd, struct err *err)
{
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
        return err_sys(err, "make a socket pair");
    }
    scoped_fd ours = pair[0];
    scoped_fd theirs = pair[1];
    pid_t pid = fork_into(group_fd, pidfd);
    if (pid < 0) {
        return err_sys(err, "start %s", what);
    }
    *socket = pid == 0 ? move_fd(&theirs) : move_fd(&ours);
    return pid;
}

int task_start(int group_fd, void (*enter)(void *ctx), task_function *function, void *ctx,
               struct task *out, struct err *err)
{
    struct task task = TASK_NONE;

    self.keeper = getpid();
    pid_t pid = task_fork("a process", group_fd, &task.socket, &task.pidfd, err);
    if (pid == 0) {
        if (task_takes_along(group_fd, err) < 0) {
            _exit(1);
        }
        task_run(task.socket, enter, function, ctx);
    }
    if (pid < 0) {
        return pid;
    }
    *out = task;
    return 0;
}

/* ---- in the keeper ---- */

bool task_take(const struct task *task, struct task_result *result, int fds[KEEPER_FDS_MAX])
{
    struct iovec iov = {result, sizeof(*result)};
    ssize_t n = fdpass_receive(task->socket, &iov, 1, fds, KEEPER_FDS_MAX, MSG_DONTWAIT);

    if (n != (ssize_t)sizeof(*result)) {
        fdpass_close(fds, KEEPER_FDS_MAX);
        *result = (struct task_result){0};
        result->status = err_set(&result->err, EIO, "the process of the task ended early");
        return false;
    }
    return true;
}

void task_leave(const struct task *task)
{
    (void)syscall(SYS_pidfd_send_signal, task->pidfd, TASK_LEAVE_SIGNAL, NULL, 0);
}

void task_closep(struct task *task)
{
    fd_closep(&task->socket);
    fd_closep(&task->pidfd);
}
