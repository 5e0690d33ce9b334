#include "inside/agent/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "inside/agent/internal.h"
#include "lib/base/fd.h"
#include "lib/base/pid_wait.h"
#include "lib/base/small_file.h"

enum {
    EXIT_NOT_STARTED = 127,
    SIGNALS = 65, /* one past the last */
    CHILD_STACK_BYTES = 64 * 1024,
    CHILD_GUARD_BYTES = 4096, /* below it: whatever runs over ends the child */
    OOM_SCORE_BYTES = 16,
};

/* The child runs in the agent's memory until it executes its program, and the agent waits for that:
 * nothing is copied, and nothing has to be copied back. A sanitizer keeps account of stacks in that
 * memory, and would take the child's for its own. */
#ifdef __SANITIZE_ADDRESS__
enum { CHILD_FLAGS = CLONE_VFORK | SIGCHLD, CHILD_MAP = MAP_SHARED | MAP_ANONYMOUS };
#else
enum {
    CHILD_FLAGS = CLONE_VM | CLONE_VFORK | SIGCHLD,
    CHILD_MAP = MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK
};
#endif

/* The kernel's memory killer should take a user's process before the agent, which is everyone's. */
static const char oom_score_adj[] = "100";
static const char oom_score_file[] = "/proc/self/oom_score_adj";

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

/* The slave is opened through the master, not through /dev/pts of the jail. */
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

/* By the system calls: the C library would have the agent's other threads follow. */
static int user_become(const struct user *user, struct err *err)
{
    if (geteuid() != 0 && user->uid == geteuid()) {
        return 0; /* run by hand, by an ordinary user: there is nothing to change */
    }
    if (syscall(SYS_setgroups, user->groups_n, user->groups) < 0 ||
        syscall(SYS_setresgid, user->gid, user->gid, user->gid) < 0 ||
        syscall(SYS_setresuid, user->uid, user->uid, user->uid) < 0) {
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
    execvp(plan->argv[0], plan->argv); /* with environ, and along its PATH */
    if (errno == E2BIG) {
        return err_set(err, E2BIG,
                       "error starting process '%s': the arguments and the environment are longer "
                       "than the kernel takes",
                       plan->argv[0]);
    }
    return err_sys(err, "error starting process '%s'", plan->argv[0]);
}

/* All steps between clone and exec, in order. None may leave a trace in the agent's memory. The
 * user changes late: only the directory and the program are looked up after it, with the user's own
 * rights. */
static int child_run(const struct spawn_plan *plan, const struct stdio *io, struct err *err)
{
    int r;

    (void)setsid();
    (void)close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC);
    signals_reset();
    (void)setrlimit(RLIMIT_NOFILE, &plan->nofile);
    r = stdio_take(plan, io, err);
    r = r < 0 ? r : user_become(plan->user, err);
    r = r < 0 ? r : cwd_enter(plan->cwd, err);
    if (r < 0) {
        return r;
    }
    return program_execute(plan, err);
}

/* ---- in the agent ---- */

struct child {
    const struct spawn_plan *plan;
    const struct stdio *io;
    struct err failed; /* code 0: the program runs */
};

static int child_main(void *ctx)
{
    struct child *child = ctx;

    (void)child_run(child->plan, child->io, &child->failed);
    _exit(EXIT_NOT_STARTED);
}

/* execvp() hands a file that is no program to a shell, with a copy of the arguments on the stack.
 */
static size_t stack_bytes(const struct spawn_plan *plan)
{
    size_t n = 0;

    while (plan->argv[n]) {
        n++;
    }
    return (CHILD_STACK_BYTES + n * sizeof(char *)) / CHILD_GUARD_BYTES * CHILD_GUARD_BYTES;
}

static void oom_score_write(const char *score, size_t len)
{
    scoped_fd fd = open(oom_score_file, O_WRONLY | O_CLOEXEC);

    if (fd >= 0) {
        (void)!write(fd, score, len);
    }
}

/* Runs with every signal blocked: none of the agent's handlers may run in the child. The child
 * shares the agent's memory until exec; a child that changed its user before exec would make that
 * memory impossible to checkpoint. */
static pid_t clone_quietly(struct child *child, char *stack_top)
{
    char **env = environ;
    sigset_t all, before;
    bool open = prctl(PR_GET_DUMPABLE) == 1;

    sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, &before);
    environ = (char **)(uintptr_t)child->plan->envp;
    pid_t pid = clone(child_main, stack_top, CHILD_FLAGS, child);
    int saved = errno;
    environ = env;
    if (open) {
        (void)prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
    }
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
    errno = saved;
    return pid;
}

/* The agent changes its own score for that moment instead of the child's: a process's files in
 * /proc cost time at its end, one by one. */
static pid_t clone_scored(struct child *child, char *stack_top)
{
    char own[OOM_SCORE_BYTES];
    ssize_t len = small_file_read(AT_FDCWD, oom_score_file, own, sizeof(own));

    oom_score_write(oom_score_adj, sizeof(oom_score_adj) - 1);
    pid_t pid = clone_quietly(child, stack_top);
    int saved = errno;
    if (len > 0) {
        oom_score_write(own, (size_t)len);
    }
    errno = saved;
    return pid;
}

static int child_result(const struct child *child, pid_t pid, struct err *err)
{
    if (pid < 0) {
        return errno == EAGAIN ? err_set(err, EAGAIN,
                                         "the sandbox has reached its limit of processes, no new "
                                         "one can be started")
                               : err_sys(err, "start a process");
    }
    if (child->failed.code == 0) {
        return 0;
    }
    (void)!pid_wait(pid, NULL);
    *err = child->failed;
    return -err->code;
}

static int child_start(const struct spawn_plan *plan, const struct stdio *io, pid_t *pid,
                       struct err *err)
{
    size_t bytes = CHILD_GUARD_BYTES + stack_bytes(plan) + sizeof(struct child);
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, CHILD_MAP, -1, 0);

    if (memory == MAP_FAILED) {
        return err_sys(err, "start a process");
    }
    char *stack_top = memory + CHILD_GUARD_BYTES + stack_bytes(plan);
    struct child *child = (void *)stack_top;
    *child = (struct child){.plan = plan, .io = io};
    (void)mprotect(memory, CHILD_GUARD_BYTES, PROT_NONE);
    *pid = clone_scored(child, stack_top);
    int r = child_result(child, *pid, err);
    (void)munmap(memory, bytes);
    return r;
}

int spawn(const struct spawn_plan *plan, struct spawned *out, struct err *err)
{
    scoped(stdio_closep) struct stdio io = {{-1, -1}, {-1, -1}, {-1, -1}};
    pid_t pid = -1;
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
