#include "lib/child/child.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/base/alloc.h"
#include "lib/base/buf.h"
#include "lib/base/fd.h"
#include "lib/base/small_file.h"

enum {
    OUTPUTS = 2,
    OOM_SCORE_ADJ = 500, /* when memory runs out, children go before the program that reports it */
    STAT_BYTES_MAX = 512,
    SESSION_FIELD = 6, /* of /proc/<pid>/stat, counted from 1 */
};

struct output {
    uv_poll_t poll;
    struct child *child;
    int fd; /* -1: at its end */
};

struct child {
    uv_process_t process;
    struct output outputs[OUTPUTS];
    const struct child_handler *handler;
    void *ctx;
    struct buf tail;
    int handles; /* not closed yet */
    bool tail_of_errors;
    bool exited;
    bool freed;
};

static void handle_closed(struct child *child)
{
    if (--child->handles == 0) {
        buf_fini(&child->tail);
        free(child);
    }
}

static void output_closed(uv_handle_t *handle)
{
    handle_closed(((struct output *)handle->data)->child);
}

static void process_closed(uv_handle_t *handle)
{
    handle_closed(handle->data);
}

static void output_close(struct output *output)
{
    if (output->fd >= 0) {
        uv_close((uv_handle_t *)&output->poll, output_closed);
        fd_closep(&output->fd);
    }
}

/* The process's own handle goes last, after its end: libuv reaps through it. */
static void child_close(struct child *child)
{
    for (int i = 0; i < OUTPUTS; i++) {
        output_close(&child->outputs[i]);
    }
    if (child->exited) {
        uv_close((uv_handle_t *)&child->process, process_closed);
    }
}

static void tail_add(struct child *child, struct str bytes)
{
    if (bytes.len > CHILD_TAIL_BYTES) {
        bytes = str_skip(bytes, bytes.len - CHILD_TAIL_BYTES);
    }
    size_t both = buf_len(&child->tail) + bytes.len;
    if (both > CHILD_TAIL_BYTES) {
        buf_consume(&child->tail, both - CHILD_TAIL_BYTES);
    }
    if (buf_append(&child->tail, bytes.at, bytes.len) < 0) {
        buf_clear(&child->tail);
    }
}

/* Reads once. False when there is nothing more now. */
static bool output_read(struct output *output)
{
    static char bytes[CHILD_PIPE_BYTES];
    struct child *child = output->child;

    if (output->fd < 0) {
        return false;
    }
    ssize_t n = read(output->fd, bytes, sizeof(bytes));
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return false;
    }
    if (n <= 0) {
        output_close(output);
        return false;
    }
    bool is_error = output == &child->outputs[1];
    if (is_error || !child->tail_of_errors) {
        tail_add(child, (struct str){bytes, (size_t)n});
    }
    child->handler->on_output(child->ctx, is_error, (struct str){bytes, (size_t)n});
    return true;
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    (void)status, (void)events;
    (void)output_read(poll->data);
}

/* Once each: a child of the child may write for ever. */
void child_drain(struct child *child)
{
    for (int i = 0; i < OUTPUTS && !child->freed; i++) {
        (void)output_read(&child->outputs[i]);
    }
}

void child_flow(struct child *child, bool flows)
{
    for (int i = 0; i < OUTPUTS; i++) {
        struct output *output = &child->outputs[i];
        if (output->fd >= 0 && flows) {
            (void)uv_poll_start(&output->poll, UV_READABLE, on_readable);
        } else if (output->fd >= 0) {
            (void)uv_poll_stop(&output->poll);
        }
    }
}

/* ---- the end of a session ---- */

/* The session id of a process, field 6 of its stat; the name in field 2 may hold anything. */
static long session_of(const char *pid)
{
    char path[64], text[STAT_BYTES_MAX];
    struct str rest, field = {NULL, 0};

    (void)snprintf(path, sizeof(path), "/proc/%.16s/stat", pid);
    (void)small_file_read(AT_FDCWD, path, text, sizeof(text));
    rest = str_of(strrchr(text, ')'));
    for (int i = 2; i <= SESSION_FIELD; i++) {
        if (!str_split(&rest, ' ', &field)) {
            return -1;
        }
    }
    return strtol(field.at, NULL, 10);
}

/* Members of the session that made process groups of their own. */
static void session_kill(int session)
{
    DIR *proc = opendir("/proc");
    const struct dirent *entry;

    while (proc && (entry = readdir(proc))) {
        if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' &&
            session_of(entry->d_name) == session) {
            (void)kill((pid_t)strtol(entry->d_name, NULL, 10), SIGKILL);
        }
    }
    if (proc) {
        (void)closedir(proc);
    }
}

/* The processes that it started end with it. */
static void on_exit_seen(uv_process_t *process, int64_t status, int signal)
{
    struct child *child = container_of(process, struct child, process);

    child->exited = true;
    session_kill(process->pid);
    if (child->freed) {
        child_close(child);
        return;
    }
    child_drain(child);
    child->handler->on_exit(child->ctx, status, signal);
}

/* ---- its start ---- */

static void output_start(struct child *child, int i, uv_loop_t *loop, int fd)
{
    struct output *output = &child->outputs[i];

    *output = (struct output){.child = child, .fd = fd};
    if (uv_poll_init(loop, &output->poll, fd) < 0) {
        abort(); /* a pipe can be polled */
    }
    output->poll.data = output;
    child->handles++;
}

static void oom_prefer(int pid)
{
    char path[64];

    (void)snprintf(path, sizeof(path), "/proc/%d/oom_score_adj", pid);
    scoped_fd fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd >= 0) {
        (void)dprintf(fd, "%d", OOM_SCORE_ADJ);
    }
}

static void stdio_fill(uv_stdio_container_t *stdio, int fd)
{
    stdio->flags = fd >= 0 ? UV_INHERIT_FD : UV_IGNORE;
    stdio->data.fd = fd;
}

static int process_start(struct child *child, const struct child_options *options, int out_fd,
                         int err_fd, struct err *err)
{
    uv_stdio_container_t stdio[3 + CHILD_INHERITED] = {{.flags = UV_IGNORE}};
    uv_process_options_t process = {
        .exit_cb = on_exit_seen,
        .file = options->argv[0],
        .args = options->argv,
        .env = options->env,
        .cwd = options->cwd,
        .flags = UV_PROCESS_DETACHED,
        .stdio_count = countof(stdio),
        .stdio = stdio,
    };
    if (options->user) {
        process.flags |= UV_PROCESS_SETUID | UV_PROCESS_SETGID;
        process.uid = options->user->uid;
        process.gid = options->user->gid;
    }
    stdio_fill(&stdio[0], options->input);
    stdio_fill(&stdio[1], out_fd);
    stdio_fill(&stdio[2], err_fd);
    for (size_t i = 0; i < CHILD_INHERITED; i++) {
        stdio_fill(&stdio[3 + i], options->inherited[i]);
    }
    int r = uv_spawn(options->loop, &child->process, &process);
    child->process.data = child;
    child->handles++;
    return r < 0 ? err_set(err, -r, "start %s in %s: %s", options->argv[0], options->cwd,
                           uv_strerror(r))
                 : 0;
}

int child_start(const struct child_options *options, struct child **out, struct err *err)
{
    int pipes[OUTPUTS][2] = {{-1, -1}, {-1, -1}};

    for (int i = 0; i < OUTPUTS; i++) {
        if (pipe2(pipes[i], O_CLOEXEC) < 0) {
            int r = err_sys(err, "make a pipe for %s", options->argv[0]);
            fd_closep(&pipes[0][0]);
            fd_closep(&pipes[0][1]);
            return r;
        }
        (void)fcntl(pipes[i][0], F_SETFL, O_NONBLOCK);
    }
    struct child *child = xnew(struct child);
    child->handler = options->handler;
    child->ctx = options->ctx;
    child->tail_of_errors = options->tail_of_errors;
    buf_init(&child->tail, 2 * (size_t)CHILD_TAIL_BYTES);
    int r = process_start(child, options, pipes[0][1], pipes[1][1], err);
    for (int i = 0; i < OUTPUTS; i++) {
        output_start(child, i, options->loop, pipes[i][0]);
        fd_closep(&pipes[i][1]);
    }
    if (r < 0) {
        child->exited = true;
        child_free(child);
        return r;
    }
    oom_prefer(child->process.pid);
    child_flow(child, true);
    *out = child;
    return 0;
}

void child_signal(struct child *child, int signal)
{
    if (!child->exited) {
        (void)kill(-child->process.pid, signal);
    }
}

struct str child_tail(const struct child *child)
{
    return buf_str(&child->tail);
}

void child_tail_clear(struct child *child)
{
    buf_clear(&child->tail);
}

/* If the process has not ended yet, its end closes the rest. */
void child_free(struct child *child)
{
    if (!child) {
        return;
    }
    child->freed = true;
    child_signal(child, SIGKILL);
    child_close(child);
}
