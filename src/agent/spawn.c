#include "agent/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/close_range.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "agent/internal.h"
#include "base/fd.h"

enum {
    EXIT_NOT_STARTED = 127,
    SIGNALS = 65, /* one past the last */
};

/* The kernel's memory killer should take a user's process before the agent, which is everyone's. */
static const char oom_score_adj[] = "100";

/* Each pair: [0] is the child's end, [1] the agent's. */
struct stdio {
    int in[2];
    int out[2];
    int err[2];
};

static void stdio_closep(struct stdio *io)
{
    int *fds[] = {&io->in[0], &io->in[1], &io->out[0], &io->out[1], &io->err[0], &io->err[1]};

    for (size_t i = 0; i < countof(fds); i++) {
        fd_closep(fds[i]);
    }
}

static int pipe_make(int *read_end, int *write_end, int *ours, struct err *err)
{
    int fds[2];

    if (pipe2(fds, O_CLOEXEC) < 0) {
        return err_sys(err, "make a pipe for the process");
    }
    *read_end = fds[0];
    *write_end = fds[1];
    if (fcntl(*ours, F_SETFL, O_NONBLOCK) < 0) {
        return err_sys(err, "make a pipe for the process");
    }
    return 0;
}

static int pipes_make(const struct spawn_plan *plan, struct stdio *io, struct err *err)
{
    int r = pipe_make(&io->out[1], &io->out[0], &io->out[1], err);

    if (r == 0) {
        r = pipe_make(&io->err[1], &io->err[0], &io->err[1], err);
    }
    if (r < 0) {
        return r;
    }
    if (plan->with_stdin) {
        return pipe_make(&io->in[0], &io->in[1], &io->in[1], err);
    }
    io->in[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
    return io->in[0] < 0 ? err_sys(err, "open /dev/null") : 0;
}

/* The slave is opened through the master: whatever lies at /dev/pts in the jail has no say. */
static int pty_make(const struct spawn_plan *plan, struct stdio *io, struct err *err)
{
    struct winsize size = {.ws_col = plan->cols, .ws_row = plan->rows};
    struct termios modes;

    io->out[1] = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
    if (io->out[1] < 0 || unlockpt(io->out[1]) < 0) {
        return err_sys(err, "open a terminal");
    }
    io->out[0] = ioctl(io->out[1], TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (io->out[0] < 0) {
        return err_sys(err, "open a terminal");
    }
    /* A second descriptor, because input and output wait for events on their own. */
    io->in[1] = fcntl(io->out[1], F_DUPFD_CLOEXEC, 0);
    if (io->in[1] < 0 || ioctl(io->out[1], TIOCSWINSZ, &size) < 0) {
        return err_sys(err, "set up a terminal");
    }
    if (tcgetattr(io->out[0], &modes) == 0) {
        modes.c_iflag |= IUTF8; /* erasing takes a character, not a byte */
        (void)tcsetattr(io->out[0], TCSANOW, &modes);
    }
    /* So that programs may open their terminal by name; not every filesystem lets us. */
    (void)!fchown(io->out[0], plan->user->uid, (gid_t)-1);
    return 0;
}

/* ---- in the child ---- */

/* By the system call: the C library keeps two numbers to itself, and posix_spawn() leaves them
 * ignored in whatever it starts. */
static void signals_reset(void)
{
    static const unsigned long standard[4]; /* the kernel's struct sigaction: SIG_DFL, no flags */
    sigset_t none;

    for (int sig = 1; sig < SIGNALS; sig++) {
        (void)syscall(SYS_rt_sigaction, sig, standard, NULL, sizeof(uint64_t));
    }
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

static void oom_score_raise(void)
{
    scoped_fd fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

    if (fd >= 0) {
        (void)!write(fd, oom_score_adj, sizeof(oom_score_adj) - 1);
    }
}

static int stdio_take(const struct spawn_plan *plan, const struct stdio *io, struct err *err)
{
    int in = plan->pty ? io->out[0] : io->in[0];
    int errors = plan->pty ? io->out[0] : io->err[0];

    if (plan->pty && ioctl(io->out[0], TIOCSCTTY, 0) < 0) {
        return err_sys(err, "take the terminal");
    }
    if (dup2(in, STDIN_FILENO) < 0 || dup2(io->out[0], STDOUT_FILENO) < 0 ||
        dup2(errors, STDERR_FILENO) < 0) {
        return err_sys(err, "set up standard input and output");
    }
    return 0;
}

static int user_become(const struct user *user, struct err *err)
{
    if (geteuid() != 0 && user->uid == geteuid()) {
        return 0; /* run by hand, by an ordinary user: there is nothing to change */
    }
    if (setgroups(user->groups_n, user->groups) < 0 ||
        setresgid(user->gid, user->gid, user->gid) < 0 ||
        setresuid(user->uid, user->uid, user->uid) < 0) {
        return err_sys(err, "become user '%s'", user->name);
    }
    return 0;
}

static int cwd_enter(const char *cwd, struct err *err)
{
    if (chdir(cwd) == 0) {
        return 0;
    }
    if (errno == ENOENT) {
        return err_set(err, ENOENT, "cwd '%s' does not exist", cwd);
    }
    return err_sys(err, "cwd '%s'", cwd);
}

static int program_execute(const struct spawn_plan *plan, struct err *err)
{
    environ = (char **)(uintptr_t)plan->envp; /* execvp() searches the PATH of this one */
    execvp(plan->argv[0], plan->argv);
    if (errno == E2BIG) {
        return err_set(err, E2BIG,
                       "error starting process '%s': the arguments and the environment are longer "
                       "than the kernel takes",
                       plan->argv[0]);
    }
    return err_sys(err, "error starting process '%s'", plan->argv[0]);
}

/* The whole order of what happens between fork and exec. The user is taken last but for the
 * directory and the program, which are looked up with the user's own rights. */
static int child_run(const struct spawn_plan *plan, const struct stdio *io, struct err *err)
{
    int r;

    (void)setsid();
    (void)close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC);
    signals_reset();
    oom_score_raise();
    (void)setrlimit(RLIMIT_NOFILE, &plan->nofile);
    if ((r = stdio_take(plan, io, err)) < 0 || (r = user_become(plan->user, err)) < 0 ||
        (r = cwd_enter(plan->cwd, err)) < 0) {
        return r;
    }
    return program_execute(plan, err);
}

/* ---- in the agent ---- */

/* Forks with every signal blocked: none of the agent's handlers may run in the child. */
static pid_t fork_quietly(void)
{
    sigset_t all;
    sigset_t before;

    sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, &before);
    pid_t pid = fork();
    if (pid != 0) {
        int saved = errno;
        (void)sigprocmask(SIG_SETMASK, &before, NULL);
        errno = saved;
    }
    return pid;
}

/* The pipe closes by itself when the program is executed, and brings an error when it is not. */
static int child_result(int report, pid_t pid, struct err *err)
{
    struct err found;
    ssize_t n;

    do {
        n = read(report, &found, sizeof(found));
    } while (n < 0 && errno == EINTR);
    if (n != (ssize_t)sizeof(found)) {
        return 0;
    }
    (void)waitpid(pid, NULL, 0);
    *err = found;
    return -found.code;
}

static int child_start(const struct spawn_plan *plan, const struct stdio *io, pid_t *pid,
                       struct err *err)
{
    int fds[2];

    if (pipe2(fds, O_CLOEXEC) < 0) {
        return err_sys(err, "make a pipe for the process");
    }
    scoped_fd report = fds[0];
    scoped_fd reporter = fds[1];
    *pid = fork_quietly();
    if (*pid < 0) {
        return errno == EAGAIN ? err_set(err, EAGAIN,
                                         "the sandbox has reached its limit of processes, no new "
                                         "one can be started")
                               : err_sys(err, "start a process");
    }
    if (*pid == 0) {
        struct err failed = {0};
        (void)child_run(plan, io, &failed);
        (void)!write(reporter, &failed, sizeof(failed));
        _exit(EXIT_NOT_STARTED);
    }
    fd_closep(&reporter);
    return child_result(report, *pid, err);
}

int spawn(const struct spawn_plan *plan, struct spawned *out, struct err *err)
{
    scoped(stdio_closep) struct stdio io = {{-1, -1}, {-1, -1}, {-1, -1}};
    pid_t pid;
    int r = plan->pty ? pty_make(plan, &io, err) : pipes_make(plan, &io, err);

    if (r == 0) {
        r = child_start(plan, &io, &pid, err);
    }
    if (r < 0) {
        return r;
    }
    *out = (struct spawned){
        .pid = pid,
        .in = move_fd(&io.in[1]),
        .out = move_fd(&io.out[1]),
        .err = move_fd(&io.err[1]),
    };
    return 0;
}
