/* process_rpc.c - the service process.Process: requests to the table of processes and back. */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>

#include "inside/agent/env.h"
#include "inside/agent/journal.h"
#include "inside/agent/process.h"
#include "lib/base/alloc.h"
#include "wire/detach.h"

enum { COMMAND_BYTES_MAX = 64 * 1024 }; /* that is joined; less is told */

/* ---- finding ---- */

/* The running process a selector names. Fails the call and returns NULL when there is none. */
static struct process *find(struct agent *agent, struct rpc_call *call,
                            const Process__ProcessSelector *selector)
{
    struct process *p = NULL;
    unsigned which = selector ? selector->selector_case : 0;

    if (which == PROCESS__PROCESS_SELECTOR__SELECTOR_PID) {
        p = process_by_pid(agent->processes, selector->pid);
        if (!p) {
            rpc_fail(call, RPC_NOT_FOUND, "process with pid %u not found", selector->pid);
        }
    } else if (which == PROCESS__PROCESS_SELECTOR__SELECTOR_TAG) {
        p = process_by_tag(agent->processes, selector->tag);
        if (!p) {
            rpc_fail(call, RPC_NOT_FOUND, "process with tag %.256s not found", selector->tag);
        }
    } else {
        rpc_fail(call, RPC_INVALID_ARGUMENT, "the request names no process by pid or tag");
    }
    return p;
}

static void list(void *ctx, struct rpc_call *call, const ProtobufCMessage *request)
{
    struct agent *agent = ctx;
    Process__ListResponse response;
    size_t n = HASH_COUNT(agent->processes->running);
    Process__ProcessInfo *infos = xcalloc(n + 1, sizeof(*infos));
    Process__ProcessInfo **pointers = xcalloc(n + 1, sizeof(*pointers));

    (void)request;
    process__list_response__init(&response);
    for (struct process *p = agent->processes->running; p; p = p->hh.next) {
        Process__ProcessInfo *info = &infos[response.n_processes];
        process__process_info__init(info);
        info->config = p->config;
        info->has_pid = 1;
        info->pid = (uint32_t)p->pid;
        info->tag = p->tag;
        pointers[response.n_processes++] = info;
    }
    response.processes = pointers;
    rpc_reply(call, &response.base);
    free(pointers);
    free(infos);
}

/* ---- Start and Connect ---- */

static char **argv_make(const Process__ProcessConfig *config)
{
    char **argv = xcalloc(config->n_args + 2, sizeof(*argv));

    argv[0] = config->cmd;
    for (size_t i = 0; i < config->n_args; i++) {
        argv[i + 1] = config->args[i];
    }
    return argv;
}

static void argv_freep(char ***argv)
{
    free(*argv);
}

static unsigned short clamp(uint32_t n)
{
    return n > USHRT_MAX ? USHRT_MAX : (unsigned short)n;
}

static int start_process(struct agent *agent, const struct user *user,
                         const Process__StartRequest *req, int64_t timeout_ms, struct process **out,
                         struct err *err)
{
    const Process__PTY__Size *size = req->pty ? req->pty->size : NULL;
    char cwd[AGENT_PATH_BYTES];
    scoped_env env = {0};

    int r = user_path(agent, user, str_of(req->process->cwd), cwd, err);
    if (r == 0) {
        r = env_make(agent, user, req->process, &env, err);
    }
    if (r < 0) {
        return r;
    }
    scoped(argv_freep) char **argv = argv_make(req->process);
    struct spawn_plan plan = {
        .user = user,
        .cwd = cwd,
        .argv = argv,
        .envp = env.vars,
        .nofile = agent->nofile,
        .pty = req->pty != NULL,
        .cols = clamp(size ? size->cols : 0),
        .rows = clamp(size ? size->rows : 0),
        .with_stdin = !req->has_stdin || req->stdin,
    };
    return process_start(agent->processes, &plan, req->process, req->tag, timeout_ms, out, err);
}

/* A failed start is the client's to correct, except when the sandbox has no room. */
static enum rpc_code start_code(int error)
{
    return rpc_code_of(error) == RPC_RESOURCE_EXHAUSTED ? RPC_RESOURCE_EXHAUSTED
                                                        : RPC_INVALID_ARGUMENT;
}

static void command_text(const Process__ProcessConfig *config, struct buf *out)
{
    int r = buf_printf(out, "%s", config->cmd);

    for (size_t i = 0; r == 0 && i < config->n_args; i++) {
        r = buf_printf(out, " %s", config->args[i]);
    }
}

/* The command as it was given; the environment may hold secrets and is not told. */
static void start_tell(const struct process *p, const struct user *user)
{
    json_t *fields = json_pack("{s:i}", "pid", (int)p->pid);
    scoped_buf(command, COMMAND_BYTES_MAX);

    command_text(p->config, &command);
    journal_text(fields, "command", buf_str(&command));
    journal_text(fields, "user", str_of(user->name));
    if (p->config->cwd) {
        journal_text(fields, "cwd", str_of(p->config->cwd));
    }
    if (p->tag) {
        journal_text(fields, "tag", str_of(p->tag));
    }
    journal_write(LOG_INFO, "process", "process_start", fields, "Process %d started", (int)p->pid);
}

/* A client that only starts the process says so: its stream would take the first output along, and
 * who connects later would miss it. */
static bool wants_output(const struct rpc_call *call)
{
    return !str_ieq(http_header_get(rpc_request(call), DETACH_HEADER), STR("on"));
}

static void start_attach(struct process *p, struct rpc_call *call)
{
    reader_attach(p, call, true, true);
}

static void start(void *ctx, struct rpc_call *call, const ProtobufCMessage *request)
{
    const Process__StartRequest *req = (const void *)request;
    struct agent *agent = ctx;
    struct process *p;
    struct user user;
    struct err err;

    if (user_of_request(agent, rpc_request(call), &user, &err) < 0) {
        rpc_fail(call, RPC_UNAUTHENTICATED, "%s", err.msg);
    } else if (!req->process || !req->process->cmd || !req->process->cmd[0]) {
        rpc_fail(call, RPC_INVALID_ARGUMENT, "the request names no command");
    } else {
        int r = start_process(agent, &user, req, rpc_timeout_ms(call), &p, &err);
        if (r < 0) {
            rpc_fail(call, start_code(r), "%s", err.msg);
        } else {
            start_tell(p, &user);
            (wants_output(call) ? start_attach : reader_decline)(p, call);
        }
    }
}

/* Output from before is delivered unless the client asks for the stream from now on. */
static bool wants_replay(const struct rpc_call *call)
{
    return !str_ieq(http_header_get(rpc_request(call), "atoll-replay"), STR("off"));
}

static void attach(void *ctx, struct rpc_call *call, const ProtobufCMessage *request)
{
    const Process__ConnectRequest *req = (const void *)request;
    struct agent *agent = ctx;
    const Process__ProcessSelector *selector = req->process;
    struct process *p = NULL;

    if (selector && selector->selector_case == PROCESS__PROCESS_SELECTOR__SELECTOR_PID) {
        p = process_by_pid(agent->processes, selector->pid);
    } else if (selector && selector->selector_case == PROCESS__PROCESS_SELECTOR__SELECTOR_TAG) {
        p = process_by_tag(agent->processes, selector->tag);
    }
    if (!p && selector && selector->selector_case != 0) {
        p = process_past(agent->processes, selector);
    }
    if (!p) {
        p = find(agent, call, selector); /* says why there is none */
    }
    if (p) {
        reader_attach(p, call, false, wants_replay(call));
    }
}

/* ---- input ---- */

/* Input of one client. SendInput answers after the write; StreamInput reads on after it. */
struct feed {
    struct rpc_call *call;
    struct input_write *pending; /* NULL: nothing is under way */
    bool streaming;
    bool pty;
    pid_t pid; /* StreamInput: of the process it has named; 0 before */
};

static void on_feed_gone(void *ctx)
{
    struct feed *feed = ctx;

    if (feed->pending) {
        input_forget(feed->pending);
    }
    free(feed);
}

static const struct rpc_watch feed_watch = {.gone = on_feed_gone};

static struct feed *feed_new(struct rpc_call *call, bool streaming)
{
    struct feed *feed = xnew(struct feed);

    feed->call = call;
    feed->streaming = streaming;
    rpc_watch(call, &feed_watch, feed);
    return feed;
}

static void feed_fail(struct feed *feed, int error)
{
    const char *target = feed->pty ? "tty" : "stdin";

    if (error == -ENOBUFS) {
        rpc_fail(feed->call, RPC_RESOURCE_EXHAUSTED,
                 "error writing to %s: more than %d MiB are waiting for the process to read them",
                 target, PROCESS_INPUT_BYTES_MAX >> 20);
    } else {
        rpc_fail(feed->call, RPC_INTERNAL, "error writing to %s: %s", target,
                 feed->pty ? "the terminal is closed" : "stdin not enabled or closed");
    }
    free(feed);
}

/* A write has ended, at once or later. */
static void feed_done(struct feed *feed, int error)
{
    Process__SendInputResponse response;

    if (error < 0) {
        feed_fail(feed, error);
    } else if (feed->streaming) {
        rpc_hold(feed->call, false);
    } else {
        process__send_input_response__init(&response);
        rpc_reply(feed->call, &response.base);
        free(feed);
    }
}

static void on_written(void *ctx, int error)
{
    struct feed *feed = ctx;

    feed->pending = NULL;
    feed_done(feed, error);
}

/* The bytes of an input of the kind that the process has; NULL and the reason when it is of another
 * kind. */
static const ProtobufCBinaryData *input_bytes(const struct process *p,
                                              const Process__ProcessInput *in, const char **why)
{
    unsigned which = in ? in->input_case : 0;

    if (which == PROCESS__PROCESS_INPUT__INPUT_PTY && p->pty) {
        return &in->pty;
    }
    if (which == PROCESS__PROCESS_INPUT__INPUT_STDIN && !p->pty) {
        return &in->stdin;
    }
    if (which == PROCESS__PROCESS_INPUT__INPUT_PTY) {
        *why = "error writing to tty: the process has no terminal, write to its stdin";
    } else if (which == PROCESS__PROCESS_INPUT__INPUT_STDIN) {
        *why = "error writing to stdin: the process has a terminal, write to its tty";
    } else {
        *why = "the input is neither stdin nor pty";
    }
    return NULL;
}

static void feed_write(struct feed *feed, struct process *p, const Process__ProcessInput *in)
{
    const char *why;
    const ProtobufCBinaryData *bytes = input_bytes(p, in, &why);

    feed->pty = p->pty;
    if (!bytes) {
        rpc_fail(feed->call, in && in->input_case ? RPC_INTERNAL : RPC_UNIMPLEMENTED, "%s", why);
        free(feed);
        return;
    }
    int r = input_write(p, bytes->data, bytes->len, on_written, feed, &feed->pending);
    if (r != 0) {
        feed_done(feed, r);
    } else if (feed->streaming) {
        rpc_hold(feed->call, true);
    }
}

static void send_input(void *ctx, struct rpc_call *call, const ProtobufCMessage *request)
{
    const Process__SendInputRequest *req = (const void *)request;
    struct process *p = find(ctx, call, req->process);

    if (p) {
        feed_write(feed_new(call, false), p, req->input);
    }
}

static void stream_data(struct agent *agent, struct feed *feed, const Process__ProcessInput *in)
{
    struct process *p = feed->pid ? process_by_pid(agent->processes, (uint32_t)feed->pid) : NULL;

    if (p) {
        feed_write(feed, p, in);
        return;
    }
    if (feed->pid) {
        rpc_fail(feed->call, RPC_NOT_FOUND, "process with pid %d not found", (int)feed->pid);
    } else {
        rpc_fail(feed->call, RPC_INVALID_ARGUMENT, "the stream must begin with a start event");
    }
    free(feed);
}

static void stream_start(struct agent *agent, struct feed *feed,
                         const Process__ProcessSelector *selector)
{
    struct process *p = find(agent, feed->call, selector);

    if (p) {
        feed->pid = p->pid;
    } else {
        free(feed);
    }
}

static void stream_input(void *ctx, struct rpc_call *call, const ProtobufCMessage *request)
{
    const Process__StreamInputRequest *req = (const void *)request;
    struct feed *feed = rpc_watcher(call);
    Process__StreamInputResponse response;

    if (!feed) {
        feed = feed_new(call, true);
    }
    if (!req) {
        process__stream_input_response__init(&response);
        rpc_reply(call, &response.base);
        free(feed);
        return;
    }
    switch (req->event_case) {
    case PROCESS__STREAM_INPUT_REQUEST__EVENT_START:
        stream_start(ctx, feed, req->start->process);
        break;
    case PROCESS__STREAM_INPUT_REQUEST__EVENT_DATA:
        stream_data(ctx, feed, req->data->input);
        break;
    case PROCESS__STREAM_INPUT_REQUEST__EVENT_KEEPALIVE:
        break;
    case PROCESS__STREAM_INPUT_REQUEST__EVENT__NOT_SET:
    case _PROCESS__STREAM_INPUT_REQUEST__EVENT__CASE_IS_INT_SIZE:
        rpc_fail(call, RPC_UNIMPLEMENTED, "an event of the stream is of no known kind");
        free(feed);
        break;
    }
}

static void close_stdin(void *ctx, struct rpc_call *call, const ProtobufCMessage *request)
{
    const Process__CloseStdinRequest *req = (const void *)request;
    struct process *p = find(ctx, call, req->process);
    Process__CloseStdinResponse response;

    if (!p) {
        return;
    }
    if (p->pty) {
        rpc_fail(call, RPC_UNKNOWN,
                 "error closing stdin: the process has a terminal, send Ctrl+D (0x04) instead");
        return;
    }
    input_finish(p);
    process__close_stdin_response__init(&response);
    rpc_reply(call, &response.base);
}

/* ---- signals and terminals ---- */

static void send_signal(void *ctx, struct rpc_call *call, const ProtobufCMessage *request)
{
    const Process__SendSignalRequest *req = (const void *)request;
    struct process *p = find(ctx, call, req->process);
    Process__SendSignalResponse response;
    struct err err;

    if (!p) {
        return;
    }
    int sig = req->signal == PROCESS__SIGNAL__SIGNAL_SIGKILL   ? SIGKILL
              : req->signal == PROCESS__SIGNAL__SIGNAL_SIGTERM ? SIGTERM
                                                               : 0;
    if (sig == 0) {
        rpc_fail(call, RPC_UNIMPLEMENTED, "invalid signal: only SIGKILL and SIGTERM can be sent");
    } else if (process_signal(p, sig, &err) < 0) {
        rpc_fail(call, RPC_INTERNAL, "%s", err.msg);
    } else if (sig == SIGKILL) {
        killing_await(p, call);
    } else {
        process__send_signal_response__init(&response);
        rpc_reply(call, &response.base);
    }
}

static void update(void *ctx, struct rpc_call *call, const ProtobufCMessage *request)
{
    const Process__UpdateRequest *req = (const void *)request;
    struct process *p = find(ctx, call, req->process);
    Process__UpdateResponse response;
    struct err err;

    if (!p) {
        return;
    }
    if (req->pty && req->pty->size &&
        process_resize(p, clamp(req->pty->size->cols), clamp(req->pty->size->rows), &err) < 0) {
        rpc_fail(call, RPC_INTERNAL, "%s", err.msg);
        return;
    }
    process__update_response__init(&response);
    rpc_reply(call, &response.base);
}

static const struct rpc_method methods[] = {
    {"/process.Process/List", RPC_UNARY, &process__list_request__descriptor,
     &process__list_response__descriptor, list},
    {"/process.Process/Start", RPC_SERVER_STREAM, &process__start_request__descriptor,
     &process__start_response__descriptor, start},
    {"/process.Process/Connect", RPC_SERVER_STREAM, &process__connect_request__descriptor,
     &process__connect_response__descriptor, attach},
    {"/process.Process/Update", RPC_UNARY, &process__update_request__descriptor,
     &process__update_response__descriptor, update},
    {"/process.Process/SendInput", RPC_UNARY, &process__send_input_request__descriptor,
     &process__send_input_response__descriptor, send_input},
    {"/process.Process/StreamInput", RPC_CLIENT_STREAM, &process__stream_input_request__descriptor,
     &process__stream_input_response__descriptor, stream_input},
    {"/process.Process/SendSignal", RPC_UNARY, &process__send_signal_request__descriptor,
     &process__send_signal_response__descriptor, send_signal},
    {"/process.Process/CloseStdin", RPC_UNARY, &process__close_stdin_request__descriptor,
     &process__close_stdin_response__descriptor, close_stdin},
};

bool process_handle(struct agent *agent, struct http_exchange *ex)
{
    return rpc_handle(methods, countof(methods), agent, ex);
}
