#include "serve/daemon/run.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "lib/base/fd.h"
#include "lib/base/pid_wait.h"
#include "serve/daemon/stop.h"

enum { RUN_LINE_BYTES = 512 };

/* Between fork() and exec(). stdout goes to out_fd, or where our stderr goes. */
static _Noreturn void child_exec(const char *const *argv, int out_fd)
{
    sigset_t none;
    int null_fd = open("/dev/null", O_RDONLY);

    (void)dup2(null_fd, STDIN_FILENO);
    (void)dup2(out_fd >= 0 ? out_fd : STDERR_FILENO, STDOUT_FILENO);
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)execvp(argv[0], (char *const *)(const void *)argv);
    _exit(127);
}

static int wait_for(pid_t pid, const char *name, struct err *err)
{
    int status = 0;

    if (pid_wait(pid, &status) < 0) {
        return err_sys(err, "wait for %s", name);
    }
    if (WIFSIGNALED(status)) {
        return err_set(err, ECHILD, "%s was ended by signal %d", name, WTERMSIG(status));
    }
    if (WEXITSTATUS(status) == 127) {
        return err_set(err, ECHILD, "%s could not be started: is it installed?", name);
    }
    if (WEXITSTATUS(status) != 0) {
        return err_set(err, ECHILD, "%s failed with status %d", name, WEXITSTATUS(status));
    }
    return 0;
}

/* ---- contained ---- */

/* As pid 1 of its namespace it has no parent to look at: the pipe tells whether we died before the
 * kernel knew that it is to die with us. */
static _Noreturn void contained_exec(const char *const *argv, int alive_fd, int our_end_fd,
                                     int lines_fd)
{
    struct pollfd parent = {.fd = alive_fd};

    (void)setsid(); /* a terminal's Ctrl-C reaches us alone */
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)close(our_end_fd);
    if (poll(&parent, 1, 0) != 0) {
        _exit(1);
    }
    if (mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) < 0 ||
        mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0) {
        _exit(126);
    }
    if (lines_fd >= 0) {
        (void)dup2(lines_fd, STDERR_FILENO);
    }
    child_exec(argv, -1);
}

/* The program's output, cut into lines. */
struct listener {
    const struct run_lines *lines; /* NULL: it prints on our stderr */
    int fd;                        /* -1: it prints no more */
    char text[RUN_LINE_BYTES];
    size_t len;
};

static void listener_tell(struct listener *listener)
{
    if (listener->len) {
        listener->text[listener->len] = '\0';
        run_say(listener->lines, "%s", listener->text);
        listener->len = 0;
    }
}

/* Takes complete lines; at the end of the output, also a last line without a newline. */
static void listener_take(struct listener *listener)
{
    char bytes[RUN_LINE_BYTES];
    ssize_t n = read(listener->fd, bytes, sizeof(bytes));

    if (n <= 0) {
        listener_tell(listener);
        fd_closep(&listener->fd);
    }
    for (ssize_t i = 0; i < n; i++) {
        if (bytes[i] == '\n' || listener->len == sizeof(listener->text) - 1) {
            listener_tell(listener);
        }
        if (bytes[i] != '\n') {
            listener->text[listener->len++] = bytes[i];
        }
    }
}

static bool has_ended(pid_t pid)
{
    siginfo_t ended = {0};

    return waitid(P_PID, (id_t)pid, &ended, WEXITED | WNOHANG | WNOWAIT) < 0 || ended.si_pid != 0;
}

/* Waits until it has ended. On a signal that asks us to end, it is killed at once. All processes
 * that it started end with it, so that none keeps the pipe open. */
static bool contained_wait(pid_t pid, struct listener *listener)
{
    sigset_t old, signals;
    struct signalfd_siginfo info = {0};
    bool stopped = false;

    (void)sigprocmask(SIG_SETMASK, NULL, &old);
    stop_block(&signals);
    scoped_fd signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    while (!stopped && !has_ended(pid)) {
        struct pollfd fds[] = {{.fd = signal_fd, .events = POLLIN},
                               {.fd = listener->fd, .events = POLLIN}};
        (void)poll(fds, countof(fds), -1);
        if (fds[1].revents) {
            listener_take(listener);
        }
        stopped = read(signal_fd, &info, sizeof(info)) > 0 && stop_is((int)info.ssi_signo);
    }
    if (stopped) {
        (void)kill(pid, SIGKILL);
    }
    (void)sigprocmask(SIG_SETMASK, &old, NULL);
    while (listener->fd >= 0) {
        listener_take(listener);
    }
    return stopped;
}

int run_contained(const char *const *argv, const struct run_lines *lines, struct err *err)
{
    int alive_fds[2], line_fds[2] = {-1, -1};
    struct clone_args args = {.flags = CLONE_NEWPID | CLONE_NEWNS, .exit_signal = SIGCHLD};

    if (pipe2(alive_fds, O_CLOEXEC) < 0) {
        return err_sys(err, "make a pipe for %s", argv[0]);
    }
    scoped_fd alive_fd = alive_fds[0];
    scoped_fd our_end_fd = alive_fds[1];
    if (lines && pipe2(line_fds, O_CLOEXEC) < 0) {
        return err_sys(err, "make a pipe for %s", argv[0]);
    }
    struct listener listener = {.lines = lines, .fd = line_fds[0]};
    scoped_fd lines_fd = line_fds[1];
    long pid = syscall(SYS_clone3, &args, sizeof(args));
    if (pid == 0) {
        contained_exec(argv, alive_fd, our_end_fd, lines_fd);
    }
    fd_closep(&lines_fd);
    if (pid < 0) {
        fd_closep(&listener.fd);
        return err_sys(err, "start %s in namespaces of its own", argv[0]);
    }
    bool stopped = contained_wait((pid_t)pid, &listener);
    int r = wait_for((pid_t)pid, argv[0], err);
    return stopped ? err_set(err, EINTR, "stopped before %s was done", argv[0]) : r;
}

void run_say(const struct run_lines *lines, const char *fmt, ...)
{
    char text[RUN_LINE_BYTES];
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    if (lines) {
        lines->line(lines->ctx, text);
    } else {
        (void)fprintf(stderr, "%s\n", text);
    }
}

/* ---- plain ---- */

int run(const char *const *argv, struct err *err)
{
    pid_t pid = fork();

    if (pid < 0) {
        return err_sys(err, "start %s", argv[0]);
    }
    if (pid == 0) {
        child_exec(argv, -1);
    }
    return wait_for(pid, argv[0], err);
}

/* Reads to the end, so that a full pipe does not stop the program; keeps as much as fits. */
static void read_all(int fd, char *out, size_t size)
{
    char scratch[512];
    size_t len = 0;
    ssize_t n;

    while ((n = read(fd, scratch, sizeof(scratch))) > 0) {
        size_t keep = (size_t)n < size - 1 - len ? (size_t)n : size - 1 - len;
        memcpy(out + len, scratch, keep);
        len += keep;
    }
    out[len] = '\0';
    out[strcspn(out, "\n")] = '\0';
}

int run_read(const char *const *argv, char *out, size_t size, struct err *err)
{
    int pipe_fds[2];

    if (pipe2(pipe_fds, O_CLOEXEC) < 0) {
        return err_sys(err, "make a pipe for %s", argv[0]);
    }
    scoped_fd read_fd = pipe_fds[0];
    scoped_fd write_fd = pipe_fds[1];
    pid_t pid = fork();
    if (pid < 0) {
        return err_sys(err, "start %s", argv[0]);
    }
    if (pid == 0) {
        child_exec(argv, write_fd);
    }
    fd_closep(&write_fd);
    read_all(read_fd, out, size);
    return wait_for(pid, argv[0], err);
}
