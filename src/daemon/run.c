#include "daemon/run.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "base/fd.h"

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

    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR) {
            return err_sys(err, "wait for %s", name);
        }
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

/* Reads to the end, so that the program is not stopped by a full pipe; keeps what fits. */
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
