#include "keeper/checkpoint/criu.h"
#include "keeper/checkpoint/task.h"
#include "keeper/checkpoint/zygote_wire.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "criu.pb-c.h"
#include "lib/base/fd.h"
#include "lib/base/pid_wait.h"
#include "lib/base/small_file.h"

enum {
    MESSAGE_BYTES = 64 * 1024,
    TIMEOUT_S = 120, /* to stop the processes */
    LOG_WARN_LEVEL = 2,
    LOG_INFO_LEVEL = 3,
    CGROUPS_IGNORE = 0,
    LOCK_SKIP = 3,
    STATUS_BYTES = 8192,
    LOADER_WORDS = 4, /* the loader, its option, and the program */
    WORDS_MAX = 4,    /* after the name of the program */
};
static const uint32_t ghost_bytes_max = UINT32_MAX;

#ifdef __aarch64__
#define TRIPLET "aarch64-linux-gnu"
#define LOADER "ld-linux-aarch64.so.1"
#define SYSTEM_LOADER "/lib/" LOADER
#else
#define TRIPLET "x86_64-linux-gnu"
#define LOADER "ld-linux-x86-64.so.2"
#define SYSTEM_LOADER "/lib64/" LOADER
#endif

/* ---- the program ---- */

static _Noreturn void program_exec(const struct criu_program *program, char *const *words)
{
    char *path = (char[CRIU_PATH_BYTES]){0};
    char *loader = (char[CRIU_PATH_BYTES]){0};
    char *libraries = (char[CRIU_PATH_BYTES]){0};
    char *all[LOADER_WORDS + WORDS_MAX + 1] = {loader, (char[]){"--library-path"}, libraries, path};
    char *envp[] = {(char[]){"PATH=" CRIU_PROGRAMS ":/usr/sbin:/usr/bin:/sbin:/bin"}, NULL};

    memcpy(path, program->path, CRIU_PATH_BYTES);
    memcpy(loader, program->loader, CRIU_PATH_BYTES);
    memcpy(libraries, program->libraries, CRIU_PATH_BYTES);
    for (size_t i = 0; i < WORDS_MAX && words[i]; i++) {
        all[LOADER_WORDS + i] = words[i];
    }
    (void)execve(loader[0] ? loader : path, loader[0] ? all : all + LOADER_WORDS - 1, envp);
    _exit(127);
}

/* Reads "Version: 4.2.1\n..."; 0 when the text has no version. */
static int version_read(const char *text)
{
    static const char mark[] = "Version: ";
    int version = 0;
    const char *found = strstr(text, mark);

    if (!found) {
        return 0;
    }
    char *at = NULL;
    found += sizeof(mark) - 1;
    for (int i = 0; i < 3; i++) {
        long part = strtol(found, &at, 10);
        version = version * 100 + (part >= 0 && part < 100 ? (int)part : 0);
        found = at + (*at == '.');
    }
    return version;
}

/* A CRIU with our patches has lines "Zygote: 1" and "Lazyfill: 1" besides. */
static int mark_read(const char *text, const char *mark)
{
    const char *found = strstr(text, mark);

    return found ? (int)strtol(found + strlen(mark), NULL, 10) : 0;
}

/* Sets version and zygote; both are 0 when the program does not answer. */
static void version_ask(struct criu_program *program)
{
    int pair[2];
    char text[256];
    char *words[] = {(char[]){"--version"}, NULL};

    program->version = program->zygote = program->lazyfill = 0;
    if (pipe2(pair, O_CLOEXEC) < 0) {
        return;
    }
    scoped_fd from = pair[0];
    scoped_fd to = pair[1];
    pid_t pid = fork();
    if (pid == 0) {
        (void)dup2(to, STDOUT_FILENO);
        program_exec(program, words);
    }
    fd_closep(&to);
    (void)small_file_read_fd(from, text, sizeof(text));
    if (pid > 0 && pid_wait_success(pid)) {
        program->version = version_read(text);
        program->zygote = mark_read(text, "\nZygote: ");
        program->lazyfill = mark_read(text, "\nLazyfill: ");
    }
}

/* An unpacked CRIU brings the libraries that are too old on this system. It brings glibc and the
 * loader only if it needs a newer one. All other libraries are the installed ones. */
static void libraries_find(const char *root, struct criu_program *out)
{
    (void)snprintf(out->libraries, CRIU_PATH_BYTES, "%s/usr/lib/" TRIPLET, root);
    (void)snprintf(out->loader, CRIU_PATH_BYTES, "%s/usr/lib/" TRIPLET "/" LOADER, root);
    if (access(out->loader, X_OK) < 0) {
        (void)snprintf(out->loader, CRIU_PATH_BYTES, "%s", SYSTEM_LOADER);
    }
}

static bool program_try(const char *root, bool unpacked, struct criu_program *out)
{
    int n = snprintf(out->path, CRIU_PATH_BYTES, "%s/usr/sbin/criu", root);

    out->loader[0] = '\0';
    if (n >= CRIU_PATH_BYTES - 64 || access(out->path, X_OK) < 0) {
        return false;
    }
    if (unpacked) {
        libraries_find(root, out);
    }
    version_ask(out);
    return out->version >= CRIU_VERSION_MIN;
}

/* Beside this program, which is PREFIX/bin/atoll or PREFIX/lib/atoll/atoll-keeper. */
static bool program_beside(const char *name, bool unpacked, struct criu_program *out)
{
    char self[CRIU_PATH_BYTES / 2] = "", root[CRIU_PATH_BYTES];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

    (void)snprintf(root, sizeof(root), "%s/%s", n > 0 ? dirname(self) : "", name);
    if (program_try(root, unpacked, out)) {
        return true;
    }
    (void)snprintf(root, sizeof(root), "%s/../lib/atoll/%s", n > 0 ? self : "", name);
    return program_try(root, unpacked, out);
}

bool criu_is_hindered(pid_t pid)
{
    char path[64], text[STATUS_BYTES];

    (void)snprintf(path, sizeof(path), "/proc/%d/status", pid ? pid : getpid());
    (void)small_file_read(AT_FDCWD, path, text, sizeof(text));
    const char *mode = strstr(text, "\nSeccomp:\t");
    return mode && mode[sizeof("\nSeccomp:\t") - 1] != '0';
}

int criu_find(struct criu_program *out, struct err *err)
{
    *out = (struct criu_program){0};
    if (criu_is_hindered(0)) {
        return err_set(
            err, EPERM,
            "a seccomp filter holds for the keeper, so it may not suspend those of jails");
    }
    if (program_beside("criu", true, out) || program_try("/var/cache/atoll/criu", true, out) ||
        program_try("", false, out)) {
        return 0;
    }
    int found = out->version;
    *out = (struct criu_program){0};
    if (found) {
        return err_set(err, ENOENT, "CRIU %d.%d is too old to save memory: 4.2 is needed",
                       found / 10000, found / 100 % 100);
    }
    return err_set(err, ENOENT, "there is no CRIU 4.2 to save memory with");
}

/* It was built on this release, or one like it, and uses the installed libraries. */
int criu_find_zygote(struct criu_program *out, struct err *err)
{
    *out = (struct criu_program){0};
    if ((program_beside("criu-zygote", false, out) ||
         program_try("/var/cache/atoll/criu-zygote", false, out)) &&
        out->zygote == ZYGOTE_VERSION) {
        return 0;
    }
    *out = (struct criu_program){0};
    return err_set(err, ENOENT, "there is no CRIU with the patch for clones");
}

/* ---- the talk ---- */

static int request_send(int socket, Criu__Req *req, struct err *err)
{
    uint8_t bytes[MESSAGE_BYTES];

    if (criu__req__get_packed_size(req) > sizeof(bytes)) {
        return err_set(err, EMSGSIZE, "what to tell CRIU is too long");
    }
    size_t n = criu__req__pack(req, bytes);
    return send(socket, bytes, n, MSG_NOSIGNAL) < 0 ? err_sys(err, "talk to CRIU") : 0;
}

static Criu__Opts opts_of(const struct criu_job *job)
{
    Criu__Opts opts = CRIU__OPTS__INIT;

    opts.images_dir_fd = job->images_fd;
    opts.has_work_dir_fd = true, opts.work_dir_fd = job->work_fd;
    opts.has_log_level = true, opts.log_level = job->terse ? LOG_WARN_LEVEL : LOG_INFO_LEVEL;
    opts.log_file = (char *)(uintptr_t)CRIU_LOG;
    opts.has_notify_scripts = true, opts.notify_scripts = true;
    opts.has_file_locks = true, opts.file_locks = true;
    opts.has_link_remap = true, opts.link_remap = true;
    opts.has_ghost_limit = true, opts.ghost_limit = ghost_bytes_max;
    opts.has_manage_cgroups_mode = true, opts.manage_cgroups_mode = CGROUPS_IGNORE;
    opts.has_network_lock = true, opts.network_lock = LOCK_SKIP;
    opts.has_empty_ns = true, opts.empty_ns = CLONE_NEWNET;
    opts.has_tcp_skip_in_flight = true, opts.tcp_skip_in_flight = true;
    opts.has_tcp_established = true, opts.tcp_established = !job->tcp_close;
    opts.has_tcp_close = true, opts.tcp_close = job->tcp_close;
    opts.external = job->externals;
    opts.n_external = job->externals_n;
    if (job->pid) {
        opts.has_pid = true, opts.pid = job->pid;
        opts.has_leave_running = true, opts.leave_running = true;
        opts.has_timeout = true, opts.timeout = TIMEOUT_S;
        opts.freeze_cgroup = (char *)(uintptr_t)job->freezer;
    } else {
        opts.has_rst_sibling = true, opts.rst_sibling = true;
        opts.root = (char *)(uintptr_t)job->root;
    }
    return opts;
}

static void resp_freep(Criu__Resp **resp)
{
    if (*resp) {
        criu__resp__free_unpacked(*resp, NULL);
    }
}

/* Waits until CRIU has sent something or has ended. Its system calls are served meanwhile. */
static void ready_wait(const struct criu *criu)
{
    struct pollfd wanted[2 + PTRACE_PROXY_POLLS] = {{.fd = criu->socket, .events = POLLIN},
                                                    {.fd = criu->pidfd, .events = POLLIN}};

    while (!wanted[0].revents && !wanted[1].revents) {
        if (criu->proxy) {
            ptrace_proxy_polls(criu->proxy, wanted + 2);
        }
        if (poll(wanted, criu->proxy ? countof(wanted) : 2, -1) < 0 && errno != EINTR) {
            return;
        }
        if (criu->proxy) {
            ptrace_proxy_serve(criu->proxy);
        }
    }
}

/* NULL when CRIU has ended. A process that CRIU was restoring may still hold CRIU's end of the
 * socket, so the pidfd is checked too. */
static Criu__Resp *response_get(const struct criu *criu)
{
    uint8_t bytes[MESSAGE_BYTES];
    ssize_t n;

    ready_wait(criu);
    while ((n = recv(criu->socket, bytes, sizeof(bytes), MSG_DONTWAIT)) < 0 && errno == EINTR) {
    }
    return n <= 0 ? NULL : criu__resp__unpack(NULL, (size_t)n, bytes);
}

static int notify_answer(int socket, const struct criu_job *job, const Criu__Notify *notify,
                         struct err *err)
{
    Criu__Req req = CRIU__REQ__INIT;
    const char *step = notify && notify->script ? notify->script : "";

    req.type = CRIU__REQ_TYPE__NOTIFY;
    req.has_notify_success = true;
    req.notify_success = job->step(job->ctx, step, notify ? notify->pid : 0) == 0;
    return request_send(socket, &req, err);
}

/* Handles messages until the last one. Returns the pid that was restored, 0 after a dump, or a
 * failure. */
int criu_run(const struct criu *criu, const struct criu_job *job, struct err *err)
{
    Criu__Req req = CRIU__REQ__INIT;
    Criu__Opts opts = opts_of(job);

    req.type = job->pid ? CRIU__REQ_TYPE__DUMP : CRIU__REQ_TYPE__RESTORE;
    req.opts = &opts;
    int r = request_send(criu->socket, &req, err);
    while (r == 0) {
        scoped(resp_freep) Criu__Resp *resp = response_get(criu);
        if (!resp) {
            return err_set(err, EIO, "CRIU ended early");
        }
        if (resp->type == CRIU__REQ_TYPE__NOTIFY) {
            r = notify_answer(criu->socket, job, resp->notify, err);
        } else if (!resp->success) {
            return err_set(err, EIO, "CRIU failed");
        } else {
            return resp->restore ? resp->restore->pid : 0;
        }
    }
    return r;
}

_Noreturn void criu_exec_clean(const struct criu_program *program, char *const *words)
{
    sigset_t none;

    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)signal(SIGPIPE, SIG_DFL);
    (void)signal(SIGCHLD, SIG_DFL);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC); /* its log is a file */
    for (int fd = STDIN_FILENO; null >= 0 && fd <= STDERR_FILENO; fd++) {
        (void)dup2(null, fd);
    }
    program_exec(program, words);
}

static _Noreturn void criu_exec(const struct criu_program *program, int (*enter)(void *ctx),
                                void *ctx, int socket, const int *lazy_fds, pid_t parent)
{
    char number[16], lazy[2][16];
    char *words[] = {(char[]){"swrk"}, number, NULL, NULL, NULL};

    if (enter(ctx) < 0 || fcntl(socket, F_SETFD, 0) < 0) {
        _exit(126);
    }
    for (int i = 0; lazy_fds && i < 2; i++) {
        (void)fcntl(lazy_fds[i], F_SETFD, 0);
        (void)snprintf(lazy[i], sizeof(lazy[i]), "%d", lazy_fds[i]);
        words[2 + i] = lazy[i];
    }
    /* After enter(): a change of credentials there would cancel it. */
    task_child_die_with_parent(parent);
    (void)snprintf(number, sizeof(number), "%d", socket);
    criu_exec_clean(program, words);
}

int criu_start(const struct criu_program *program, int group_fd, int (*enter)(void *ctx), void *ctx,
               struct criu *out, struct err *err)
{
    return criu_start_lazy(program, group_fd, enter, ctx, NULL, out, err);
}

int criu_start_lazy(const struct criu_program *program, int group_fd, int (*enter)(void *ctx),
                    void *ctx, const int lazy_fds[2], struct criu *out, struct err *err)
{
    const pid_t parent = getpid();
    int socket = -1, pidfd = -1;
    pid_t pid = task_fork("CRIU", group_fd, &socket, &pidfd, err);

    *out = (struct criu)CRIU_NONE;
    if (pid < 0) {
        return pid;
    }
    if (pid == 0) {
        criu_exec(program, enter, ctx, socket, lazy_fds, parent);
    }
    *out = (struct criu){.pid = pid, .pidfd = pidfd, .socket = socket};
    return 0;
}

void criu_kill(const struct criu *criu)
{
    if (criu->pidfd >= 0) {
        (void)syscall(SYS_pidfd_send_signal, criu->pidfd, SIGKILL, NULL, 0);
    }
}

void criu_stop(struct criu *criu)
{
    if (criu->socket >= 0) {
        fd_closep(&criu->socket); /* CRIU ends when its socket closes */
        ready_wait(criu);
        if (!criu->cloned) {
            (void)pid_wait_success(criu->pid);
        }
        fd_closep(&criu->pidfd);
    }
}
