#include "inside/agent/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <utlist.h>

#include "inside/agent/journal.h"
#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"

enum {
    READS_PER_TURN = 4,                /* of one output, before others on the loop have theirs */
    PIPE_BYTES_USUAL = 64 * 1024,      /* of a pipe that nobody changed */
    PTY_PATIENCE_MS = 100,             /* for a terminal that the kernel does not hang up */
    PTY_HELD_BYTES_MAX = 256 * 1024,   /* more than the kernel keeps of a terminal's output */
    LINGERING_MAX = 256,               /* past processes whose pipes are still emptied */
    KEPT_TOTAL_MAX = 32 * 1024 * 1024, /* in the rings of all processes */
};

static void on_readable(uv_poll_t *poll, int status, int events);
static void on_timer(uv_timer_t *timer);

/* ---- memory ---- */

static void ring_release(struct process *p)
{
    p->table->kept_bytes -= p->ring.bytes;
    ring_fini(&p->ring);
}

static void process_free(struct process *p)
{
    ring_release(p);
    ring_fini(&p->again);
    protobuf_c_message_free_unpacked(&p->config->base, NULL);
    free(p->tag);
    free(p);
}

void process_handle_closed(struct process *p)
{
    p->handles--;
    if (p->handles == 0 && p->expired) {
        process_free(p);
    }
}

static void on_output_closed(uv_handle_t *handle)
{
    struct output *out = container_of(handle, struct output, poll);

    process_handle_closed(out->process);
}

static void on_timer_closed(uv_handle_t *handle)
{
    process_handle_closed(container_of(handle, struct process, timer));
}

/* No client can ask for it any more; it is freed when its pipes are closed. */
static void process_expire(struct process *p)
{
    DL_DELETE(p->table->past, p);
    p->expired = true;
    ring_release(p);
    uv_close((uv_handle_t *)&p->timer, on_timer_closed);
}

/* ---- outputs ---- */

static bool outputs_open(const struct process *p)
{
    return p->outputs[0].fd >= 0 || p->outputs[1].fd >= 0;
}

static void output_close(struct output *out)
{
    struct process *p = out->process;

    if (out->fd < 0) {
        return;
    }
    uv_close((uv_handle_t *)&out->poll, on_output_closed);
    (void)close(out->fd);
    out->fd = -1;
    out->polling = false;
    p->table->grown_n -= out->grown;
    if (--p->table->outputs_n == 0) {
        free(move_ptr(&p->table->chunk)); /* an idle agent keeps nothing */
    }
    if (p->state == PROCESS_ENDED && !outputs_open(p)) {
        p->table->lingering--;
    }
}

static void output_open(struct process *p, struct output *out, int fd, enum output_kind kind)
{
    *out = (struct output){.process = p, .fd = fd, .kind = kind};
    if (fd >= 0) {
        if (uv_poll_init(p->table->agent->loop, &out->poll, fd) < 0) {
            abort(); /* a descriptor just made by us that epoll does not take */
        }
        p->handles++;
        p->table->outputs_n++;
    }
}

static bool output_drained(const struct output *out)
{
    return out->fd < 0 || (!out->until_closed && out->drain_bytes == 0);
}

/* Whether there is output to read, and a reader or the ring to take it. */
static bool output_wanted(const struct output *out)
{
    const struct process *p = out->process;
    int kind;
    struct str piece;

    if (out->fd < 0) {
        return false;
    }
    if (p->state == PROCESS_ENDED) {
        return true;
    }
    if (p->state == PROCESS_DRAINING && output_drained(out)) {
        return false;
    }
    if (!p->readers) {
        return !p->awaits;
    }
    return !ring_peek(&p->ring, &kind, &piece) && readers_ready(p);
}

static void output_arm(struct output *out)
{
    bool want = output_wanted(out);

    if (want && !out->polling) {
        out->polling = uv_poll_start(&out->poll, UV_READABLE, on_readable) == 0;
    } else if (!want && out->polling) {
        (void)uv_poll_stop(&out->poll);
        out->polling = false;
    }
}

static void ring_keep(struct process *p, enum output_kind kind, struct str piece)
{
    struct processes *table = p->table;
    size_t others = table->kept_bytes - p->ring.bytes;
    size_t room = others < KEPT_TOTAL_MAX ? KEPT_TOTAL_MAX - others : 0;
    size_t limit = table->agent->output_kept_bytes;

    p->ring.limit = room < limit ? room : limit;
    ring_push(&p->ring, (int)kind, piece,
              kind == OUTPUT_PTY ? PROCESS_PTY_CHUNK : PROCESS_PIPE_CHUNK);
    table->kept_bytes = others + p->ring.bytes;
}

static void output_take(struct output *out, struct str piece)
{
    struct process *p = out->process;

    if (p->state == PROCESS_DRAINING && !out->until_closed) {
        out->drain_bytes -= piece.len;
    }
    if (p->state == PROCESS_ENDED) {
        return; /* a descendant's output: read and dropped */
    }
    p->output_bytes[out - p->outputs] += piece.len;
    if (p->readers) {
        readers_data(p, out->kind, piece, false);
    } else {
        ring_keep(p, out->kind, piece);
    }
}

/* A process that fills its pipe before it is read gets a larger one: both then work for longer
 * before they wait for each other. Where the kernel refuses, the pipe stays as it is. */
static void output_grow(struct output *out)
{
    struct processes *table = out->process->table;

    if (out->grown || out->kind == OUTPUT_PTY || table->grown_n == PROCESS_PIPES_GROWN_MAX) {
        return;
    }
    if (fcntl(out->fd, F_SETPIPE_SZ, PROCESS_PIPE_BYTES) >= 0) {
        out->grown = true;
        table->grown_n++;
    }
}

static char *chunk_of(struct processes *table)
{
    if (!table->chunk) {
        table->chunk = malloc(PROCESS_READ_BYTES); /* and not touched before it is used */
        if (!table->chunk) {
            abort();
        }
    }
    return table->chunk;
}

/* Reads once. 1: there may be more. 0: not now. The output is closed when it is over. */
static int output_read(struct output *out)
{
    struct processes *table = out->process->table;
    size_t want = out->kind == OUTPUT_PTY ? PROCESS_PTY_CHUNK : PROCESS_READ_BYTES;

    if (out->process->state == PROCESS_DRAINING && !out->until_closed && out->drain_bytes < want) {
        want = out->drain_bytes;
    }
    ssize_t n = read(out->fd, chunk_of(table), want);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return errno == EINTR;
    }
    if (n <= 0) { /* EIO: the terminal's last user has gone */
        output_close(out);
        return 0;
    }
    output_take(out, (struct str){table->chunk, (size_t)n});
    if (n >= PIPE_BYTES_USUAL) {
        output_grow(out);
    }
    return (size_t)n == want;
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    struct output *out = container_of(poll, struct output, poll);
    struct process *p = out->process;

    (void)status, (void)events;
    for (int i = 0; i < READS_PER_TURN && output_wanted(out) && output_read(out) > 0; i++) {
    }
    process_pump(p);
}

/* ---- the end ---- */

/* As the clients know them: "Killed" is "killed", but "CPU time limit exceeded" stays. */
static void signal_name(int sig, char *out, size_t size)
{
    const char *text = sigdescr_np(sig);

    if (!text) {
        (void)snprintf(out, size, "signal %d", sig);
        return;
    }
    (void)snprintf(out, size, "%s", text);
    if (out[0] >= 'A' && out[0] <= 'Z' && out[1] >= 'a' && out[1] <= 'z') {
        out[0] = (char)(out[0] - 'A' + 'a');
    }
}

void process_end_describe(int wait_status, bool out_of_memory, struct process_end *out)
{
    char name[64];

    *out = (struct process_end){.exit_code = -1};
    if (WIFEXITED(wait_status)) {
        out->exited = true;
        out->exit_code = WEXITSTATUS(wait_status);
        (void)snprintf(out->status, sizeof(out->status), "exit status %d", out->exit_code);
    } else {
        signal_name(WTERMSIG(wait_status), name, sizeof(name));
        (void)snprintf(out->status, sizeof(out->status), "signal: %s%s", name,
                       WCOREDUMP(wait_status) ? " (core dumped)" : "");
    }
    if (out->exit_code != 0) {
        (void)snprintf(out->error, sizeof(out->error), "%s%s", out->status,
                       out_of_memory ? " (out of memory: the sandbox reached its memory limit)"
                                     : "");
    }
}

/* Too many past processes with open pipes: the oldest's are closed. */
static void lingering_limit(struct processes *table)
{
    struct process *p, *next;

    DL_FOREACH_SAFE (table->past, p, next) {
        if (table->lingering <= LINGERING_MAX) {
            return;
        }
        if (p->state == PROCESS_ENDED) {
            output_close(&p->outputs[0]);
            output_close(&p->outputs[1]);
        }
    }
}

static void end_tell(const struct process *p)
{
    json_t *fields = json_pack(
        "{s:i, s:i, s:I, s:I, s:I}", "pid", (int)p->pid, "exit_code", (int)p->end.exit_code,
        "duration_ms", (json_int_t)(clock_mono_ms() - p->started_ms), "stdout_bytes",
        (json_int_t)p->output_bytes[0], "stderr_bytes", (json_int_t)p->output_bytes[1]);

    journal_write(p->end.exited ? LOG_INFO : LOG_WARN, "process", "process_end", fields,
                  "Process %d ended: %s", (int)p->pid,
                  p->end.error[0] ? p->end.error : p->end.status);
}

static void process_settle(struct process *p)
{
    p->state = PROCESS_ENDED;
    end_tell(p);
    if (outputs_open(p)) {
        p->table->lingering++;
        lingering_limit(p->table);
    }
    (void)uv_timer_start(&p->timer, on_timer, PROCESS_KEPT_MS, 0);
}

void process_pump(struct process *p)
{
    int kind;
    struct str piece;

    while (p->readers && readers_ready(p) && ring_peek(&p->ring, &kind, &piece)) {
        size_t len = piece.len;
        readers_data(p, (enum output_kind)kind, piece, true);
        ring_drop(&p->ring);
        p->table->kept_bytes -= len;
    }
    if (p->state == PROCESS_DRAINING && !p->asking && output_drained(&p->outputs[0]) &&
        output_drained(&p->outputs[1])) {
        process_settle(p);
    }
    if (p->state == PROCESS_ENDED && p->readers && !p->table->held && !p->awaits &&
        !ring_peek(&p->ring, &kind, &piece)) {
        readers_end(p);
    }
    output_arm(&p->outputs[0]);
    output_arm(&p->outputs[1]);
}

static void on_oom_answer(void *ctx, bool killed)
{
    struct process *p = ctx;

    p->asking = false;
    process_end_describe(p->wait_status, killed, &p->end);
    process_pump(p);
}

/* Whether an empty pipe has no writer left. */
static bool output_hung_up(const struct output *out)
{
    struct pollfd state = {.fd = out->fd, .events = POLLIN};

    return poll(&state, 1, 0) == 1 && state.revents == POLLHUP;
}

/* The process's own output is in the pipe by now: that much is read, even if others still write. */
static void drain_begin(struct output *out)
{
    int bytes = 0;

    if (out->fd < 0) {
        return;
    }
    out->until_closed = out->kind == OUTPUT_PTY;
    if (!out->until_closed && ioctl(out->fd, FIONREAD, &bytes) == 0 && bytes > 0) {
        out->drain_bytes = (size_t)bytes;
    } else if (!out->until_closed && output_hung_up(out)) {
        output_close(out);
    }
}

static void process_exited(struct process *p, int wait_status)
{
    struct processes *table = p->table;

    HASH_DEL(table->running, p);
    DL_APPEND(table->past, p);
    p->state = PROCESS_DRAINING;
    p->wait_status = wait_status;
    killings_end(p);
    input_close(p);
    drain_begin(&p->outputs[0]);
    drain_begin(&p->outputs[1]);
    if (p->pty) {
        (void)uv_timer_start(&p->timer, on_timer, PTY_PATIENCE_MS, 0);
    } else {
        (void)uv_timer_stop(&p->timer);
    }
    p->asking = true;
    if (WIFSIGNALED(wait_status) && WTERMSIG(wait_status) == SIGKILL && !p->killed_by_us) {
        channel_oom_ask(table->agent->channel, on_oom_answer, p);
    } else {
        on_oom_answer(p, false);
    }
}

/* Every child is reaped, including orphans that became our children. */
static void on_sigchld(uv_signal_t *handle, int signum)
{
    struct processes *table = container_of(handle, struct processes, sigchld);
    struct process *p;
    int status;
    pid_t pid;

    (void)signum;
    while ((pid = waitpid(-1, &status, WNOHANG | __WALL)) > 0) {
        HASH_FIND(hh, table->running, &pid, sizeof(pid), p);
        if (p && (WIFEXITED(status) || WIFSIGNALED(status))) {
            process_exited(p, status);
        }
    }
}

static void on_timer(uv_timer_t *timer)
{
    struct process *p = container_of(timer, struct process, timer);
    struct output *terminal = &p->outputs[0];
    struct err err;

    switch (p->state) {
    case PROCESS_RUNNING:
        if (process_signal(p, SIGKILL, &err) < 0) {
            log_warn("%s", err.msg);
        }
        break;
    case PROCESS_DRAINING:
        /* Another process opened the terminal by name. The output it holds is still delivered. */
        terminal->until_closed = false;
        if (terminal->fd >= 0) {
            drain_begin(terminal);
            terminal->until_closed = false;
        }
        process_pump(p);
        break;
    case PROCESS_ENDED:
        if (p->readers) { /* a late one that reads slowly */
            (void)uv_timer_start(&p->timer, on_timer, PROCESS_KEPT_MS, 0);
        } else {
            process_expire(p);
        }
        break;
    }
}

/* ---- around a save ---- */

static void each_process(struct processes *table, void (*each)(struct process *p))
{
    struct process *p, *next;

    HASH_ITER (hh, table->running, p, next) {
        each(p);
    }
    DL_FOREACH_SAFE (table->past, p, next) {
        each(p);
    }
}

static bool has_terminal(const struct process *p)
{
    return p->pty && p->state == PROCESS_RUNNING && p->outputs[0].fd >= 0;
}

/* Lets the processes at a terminal write to it, or wait. It undoes a Ctrl+S of the user's too: the
 * kernel does not tell who stopped a terminal, and a saved one comes back without it in any case.
 */
static void terminal_flow(const struct process *p, int action)
{
    if (has_terminal(p)) {
        int peer = ioctl(p->outputs[0].fd, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
        if (peer >= 0) {
            (void)tcflow(peer, action);
            (void)close(peer);
        }
    }
}

/* A save does not contain what the kernel keeps of a terminal's output. So nothing may be there
 * when the jail is frozen: its writers wait, and what they have written goes into the ring. */
static void terminal_empty(struct process *p)
{
    ssize_t n = 1; /* an end or an error is noticed when the terminal is read the next time */

    if (!has_terminal(p)) {
        return;
    }
    terminal_flow(p, TCOOFF);
    for (size_t taken = 0; taken < PTY_HELD_BYTES_MAX && n > 0; taken += (size_t)n) {
        n = read(p->outputs[0].fd, chunk_of(p->table), PROCESS_PTY_CHUNK);
        if (n > 0) {
            p->output_bytes[0] += (uint64_t)n;
            ring_keep(p, OUTPUT_PTY, (struct str){p->table->chunk, (size_t)n});
        }
    }
}

static void terminal_go_on(struct process *p)
{
    terminal_flow(p, TCOON);
}

static void await_readers(struct process *p)
{
    readers_forget(p);
    p->awaits = p->readers != NULL;
}

static void await_no_more(struct process *p)
{
    readers_forget(p);
    p->awaits = false;
    process_pump(p);
}

static void on_patience(uv_timer_t *timer)
{
    each_process(container_of(timer, struct processes, patience), await_no_more);
}

void processes_hold(struct processes *table, bool ends)
{
    table->held = true;
    if (ends) {
        each_process(table, await_readers);
    }
    each_process(table, process_pump); /* stops what was being read */
    each_process(table, terminal_empty);
}

void processes_go_on(struct processes *table)
{
    if (table->held) {
        table->held = false;
        each_process(table, process_pump);
        each_process(table, terminal_go_on);
        (void)uv_timer_start(&table->patience, on_patience, PROCESS_AWAIT_MS, 0);
    }
}

/* ---- the start ---- */

static Process__ProcessConfig *config_copy(const Process__ProcessConfig *config)
{
    size_t len = protobuf_c_message_get_packed_size(&config->base);
    uint8_t *bytes = malloc(len + 1);

    if (!bytes) {
        abort();
    }
    (void)protobuf_c_message_pack(&config->base, bytes);
    Process__ProcessConfig *copy = process__process_config__unpack(NULL, len, bytes);
    free(bytes);
    if (!copy) {
        abort();
    }
    return copy;
}

/* A tag names the newest: an older one's end must not be found under it. */
static void past_forget(struct processes *table, pid_t pid, const char *tag)
{
    struct process *p, *next;

    DL_FOREACH_SAFE (table->past, p, next) {
        bool same = p->pid == pid || (tag && p->tag && strcmp(p->tag, tag) == 0);
        if (same && p->state == PROCESS_ENDED && !p->readers) {
            process_expire(p);
        }
    }
}

int process_start(struct processes *table, const struct spawn_plan *plan,
                  const Process__ProcessConfig *config, const char *tag, int64_t timeout_ms,
                  struct process **out, struct err *err)
{
    struct spawned child;
    int r = spawn(plan, &child, err);

    if (r < 0) {
        return r;
    }
    past_forget(table, child.pid, tag);
    struct process *p = xnew(struct process);
    p->table = table;
    p->pid = child.pid;
    p->pty = plan->pty;
    p->started_ms = clock_mono_ms();
    p->tag = xstrdup(tag);
    p->config = config_copy(config);
    ring_init(&p->ring, table->agent->output_kept_bytes);
    output_open(p, &p->outputs[0], child.out, plan->pty ? OUTPUT_PTY : OUTPUT_STDOUT);
    output_open(p, &p->outputs[1], child.err, OUTPUT_STDERR);
    input_open(p, child.in);
    (void)uv_timer_init(table->agent->loop, &p->timer);
    p->handles++;
    if (timeout_ms > 0) {
        (void)uv_timer_start(&p->timer, on_timer, (uint64_t)timeout_ms, 0);
    }
    HASH_ADD(hh, table->running, pid, sizeof(p->pid), p);
    *out = p;
    return 0;
}

/* ---- the table ---- */

int processes_new(struct agent *agent, struct processes **out, struct err *err)
{
    struct processes *table = xnew(struct processes);

    table->agent = agent;
    int r = uv_signal_init(agent->loop, &table->sigchld);
    if (r == 0) {
        r = uv_signal_start(&table->sigchld, on_sigchld, SIGCHLD);
    }
    if (r < 0) {
        free(table);
        return err_set(err, -r, "watch for children: %s", uv_strerror(r));
    }
    (void)uv_timer_init(agent->loop, &table->patience);
    *out = table;
    return 0;
}

struct process *process_by_pid(struct processes *table, uint32_t pid)
{
    pid_t key = (pid_t)pid;
    struct process *p;

    HASH_FIND(hh, table->running, &key, sizeof(key), p);
    return p;
}

struct process *process_by_tag(struct processes *table, const char *tag)
{
    for (struct process *p = table->running; p; p = p->hh.next) {
        if (p->tag && strcmp(p->tag, tag) == 0) {
            return p;
        }
    }
    return NULL;
}

struct process *process_past(struct processes *table, const Process__ProcessSelector *selector)
{
    bool by_pid = selector->selector_case == PROCESS__PROCESS_SELECTOR__SELECTOR_PID;
    struct process *found = NULL;
    struct process *p;

    DL_FOREACH (table->past, p) {
        if (by_pid ? p->pid == (pid_t)selector->pid
                   : p->tag && strcmp(p->tag, selector->tag) == 0) {
            found = p;
        }
    }
    return found;
}

int process_signal(struct process *p, int sig, struct err *err)
{
    p->killed_by_us = p->killed_by_us || sig == SIGKILL;
    if (kill(p->pid, sig) < 0) {
        return err_sys(err, "error sending signal");
    }
    return 0;
}

int process_resize(struct process *p, uint16_t cols, uint16_t rows, struct err *err)
{
    struct winsize size = {.ws_col = cols, .ws_row = rows};

    if (!p->pty || p->outputs[0].fd < 0) {
        return err_set(err, ENOTTY, "error resizing tty: tty not assigned to process");
    }
    if (ioctl(p->outputs[0].fd, TIOCSWINSZ, &size) < 0) {
        return err_sys(err, "error resizing tty");
    }
    return 0;
}
