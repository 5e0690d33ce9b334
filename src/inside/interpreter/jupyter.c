/* jupyter.c - kernels that speak the Jupyter protocol over ZeroMQ.
 *
 * A kernel is ready when it has answered kernel_info_request and its published messages reach us. A
 * run is over when its reply has come and the kernel has published that it is idle, in either
 * order. Messages that are published for another parent than the current run are ignored.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "inside/interpreter/command.h"
#include "inside/interpreter/internal.h"
#include "inside/interpreter/json_read.h"
#include "inside/interpreter/jupyter_socket.h"
#include "inside/interpreter/jupyter_wire.h"
#include "inside/interpreter/snippet.h"
#include "lib/base/alloc.h"
#include "lib/base/buf.h"
#include "lib/base/fd.h"
#include "lib/base/log.h"
#include "lib/child/child.h"

enum {
    CHANNELS = JUPYTER_IOPUB + 1,
    PORTS = 5,            /* shell, control, iopub, stdin, heartbeat, in the order of port_names */
    IOPUB_QUEUE_MAX = 16, /* messages of a kernel that waits, kept beneath us */
    SUBSCRIBE_RETRY_MS = 50, /* until the kernel is asked again whether it publishes to us */
    EXIT_SETTLE_MS = 100,    /* for what a kernel published before its end to arrive */
    PATH_BYTES_MAX = 100,    /* of a socket's path: the system allows 108 */
    TRACEBACK_BYTES_MAX = 16 * 1024 * 1024,
};

static const char *const port_names[PORTS] = {"shell_port", "control_port", "iopub_port",
                                              "stdin_port", "hb_port"};

/* The kind of the message in `running`. Preparing and restoring are silent: their output is not
 * shown. */
enum stage { STAGE_INFO, STAGE_IDLE, STAGE_PREPARE, STAGE_CODE, STAGE_RESTORE };

struct jupyter {
    struct kernel kernel;
    struct child *child;
    struct jupyter_socket *sockets[CHANNELS];
    uv_timer_t timer;
    char directory[PATH_BYTES_MAX];
    char key[JUPYTER_KEY_LEN + 1];
    char session[ID_UUID_LEN + 1];
    char running[ID_UUID_LEN + 1]; /* the message whose end is waited for; empty: none */
    bool interrupts_by_message;
    enum stage stage;
    const char *language; /* the specification's */
    char *code;           /* of the run under way, until it is sent */
    char *restore;        /* run after it; NULL: nothing */
    bool interrupted;
    bool replied;
    bool idle;
    bool errored;
    bool leaving; /* the code told its kernel to exit */
    bool flows;
    bool freed;
    struct kernel_end end;
};

static void ask(struct jupyter *j, enum jupyter_channel channel, const char *type, json_t *content,
                char msg_id[ID_UUID_LEN + 1])
{
    struct jupyter_packed packed;

    id_uuid(msg_id);
    if (jupyter_pack(j->key, j->session, msg_id, type, content, &packed) == 0) {
        jupyter_socket_send(j->sockets[channel], packed.frames, JUPYTER_PACKED_FRAMES);
        jupyter_packed_fini(&packed);
    }
    json_decref(content);
}

/* ---- readiness ---- */

static void info_ask(struct jupyter *j)
{
    ask(j, JUPYTER_SHELL, "kernel_info_request", json_object(), j->running);
}

static void on_subscribe_retry(uv_timer_t *timer)
{
    struct jupyter *j = container_of(timer, struct jupyter, timer);

    j->replied = false;
    info_ask(j);
}

static void become_ready(struct jupyter *j)
{
    (void)uv_timer_stop(&j->timer);
    j->stage = STAGE_IDLE;
    j->running[0] = '\0';
    j->kernel.events->on_ready(j->kernel.ctx);
}

/* A reply without `idle` means that the subscription came too late for it. */
static void readiness_check(struct jupyter *j)
{
    if (j->replied && j->idle) {
        become_ready(j);
    } else if (j->replied) {
        (void)uv_timer_start(&j->timer, on_subscribe_retry, SUBSCRIBE_RETRY_MS, 0);
    }
}

/* ---- a run ---- */

static void execute(struct jupyter *j, enum stage stage, const char *code)
{
    bool silent = stage != STAGE_CODE;
    json_t *content = json_pack("{s:o, s:b, s:b, s:{}, s:b, s:b}", "code",
                                json_repaired(str_of(code)), "silent", silent, "store_history",
                                !silent, "user_expressions", "allow_stdin", 0, "stop_on_error", 0);

    j->stage = stage;
    j->replied = j->idle = j->errored = false;
    ask(j, JUPYTER_SHELL, "execute_request", content, j->running);
}

static void run_end(struct jupyter *j)
{
    j->stage = STAGE_IDLE;
    j->running[0] = '\0';
    j->kernel.events->on_done(j->kernel.ctx);
    if (j->leaving && !j->freed) {
        j->kernel.events->on_exit(j->kernel.ctx, &(struct kernel_end){.status = 0});
    }
}

/* The message in `running` is done: goes to the next stage. */
static void stage_next(struct jupyter *j)
{
    scoped_text code = move_ptr(&j->code);
    scoped_text restore = NULL;

    if (j->stage == STAGE_PREPARE && !j->interrupted) {
        execute(j, STAGE_CODE, code);
        return;
    }
    restore = move_ptr(&j->restore);
    if (restore && !j->leaving) {
        execute(j, STAGE_RESTORE, restore);
    } else {
        run_end(j);
    }
}

static void progress(struct jupyter *j)
{
    if (j->stage == STAGE_INFO) {
        readiness_check(j);
    } else if (j->replied && j->idle) {
        stage_next(j);
    }
}

static void error_tell(struct jupyter *j, const json_t *content)
{
    scoped_buf(traceback, TRACEBACK_BYTES_MAX);
    const json_t *line;
    size_t i;

    if (j->errored) {
        return;
    }
    j->errored = true;
    json_array_foreach (json_object_get(content, "traceback"), i, line) {
        const char *text = json_string_value(line);
        if (text && buf_printf(&traceback, "%s%s", i ? "\n" : "", text) < 0) {
            break; /* lines that do not fit are left out */
        }
    }
    j->kernel.events->on_error(j->kernel.ctx, str_of(json_text(content, "ename")),
                               str_of(json_text(content, "evalue")), buf_str(&traceback));
}

/* The answer to exit(): the kernel goes away by itself, a moment later. */
static bool asks_exit(const json_t *content)
{
    const json_t *item;
    size_t i;

    json_array_foreach (json_object_get(content, "payload"), i, item) {
        if (strcmp(json_text(item, "source"), "ask_exit") == 0) {
            return !json_is_true(json_object_get(item, "keepkernel"));
        }
    }
    return false;
}

static void on_reply(struct jupyter *j, const json_t *content)
{
    const char *status = json_text(content, "status");

    j->replied = true;
    if (j->stage == STAGE_CODE && strcmp(status, "error") == 0) {
        error_tell(j, content);
    } else if (j->stage == STAGE_CODE && strncmp(status, "abort", strlen("abort")) == 0) {
        j->kernel.events->on_error(j->kernel.ctx, STR("ExecutionAborted"),
                                   STR("Execution was aborted"), STR(""));
    }
    j->leaving = j->leaving || asks_exit(content);
    if (!j->freed) {
        progress(j);
    }
}

static void on_text(struct jupyter *j, const struct jupyter_message *message)
{
    const json_t *text = json_object_get(message->content, "text");
    struct str bytes = {json_string_value(text), json_string_length(text)};

    j->kernel.events->on_text(j->kernel.ctx,
                              strcmp(json_text(message->content, "name"), "stderr") == 0, bytes,
                              json_string_value(json_object_get(message->header, "date")));
}

static void on_published(struct jupyter *j, const char *type, const struct jupyter_message *message)
{
    const struct kernel_events *events = j->kernel.events;
    json_t *content = message->content;
    json_t *bundle = json_object_get(content, "data");

    if (strcmp(type, "status") == 0) {
        if (strcmp(json_text(content, "execution_state"), "idle") == 0) {
            j->idle = true;
            progress(j);
        }
    } else if (j->stage != STAGE_CODE) {
        return;
    } else if (strcmp(type, "stream") == 0) {
        on_text(j, message);
    } else if (strcmp(type, "execute_input") == 0) {
        events->on_count(j->kernel.ctx,
                         json_integer_value(json_object_get(content, "execution_count")));
    } else if (strcmp(type, "error") == 0) {
        error_tell(j, content);
    } else if (strcmp(type, "display_data") == 0 && json_is_object(bundle)) {
        events->on_result(j->kernel.ctx, bundle, false);
    } else if (strcmp(type, "execute_result") == 0 && json_is_object(bundle)) {
        events->on_result(j->kernel.ctx, bundle, true);
    }
}

static void on_message(void *ctx, enum jupyter_channel channel, const struct str *frames, size_t n)
{
    struct jupyter *j = ctx;
    scoped_message message = {NULL, NULL, NULL};
    struct err err;

    if (jupyter_read(j->key, frames, n, &message, &err) < 0) {
        log_warn("%s", err.msg);
        return;
    }
    const char *type = json_text(message.header, "msg_type");
    if (!j->running[0] || strcmp(json_text(message.parent, "msg_id"), j->running) != 0) {
        return;
    }
    if (channel == JUPYTER_IOPUB) {
        on_published(j, type, &message);
    } else if (channel == JUPYTER_SHELL &&
               (strcmp(type, "execute_reply") == 0 || strcmp(type, "kernel_info_reply") == 0)) {
        on_reply(j, message.content);
    }
}

static void run(struct kernel *kernel, const struct kernel_run *run)
{
    struct jupyter *j = container_of(kernel, struct jupyter, kernel);
    scoped_text prepare = snippet_prepare(j->language, run);
    char *code = strndup(run->code.at, run->code.len);

    child_tail_clear(j->child);
    j->interrupted = false;
    j->restore = run->env ? snippet_restore(j->language) : NULL;
    j->code = code ? code : xstrdup("");
    if (prepare) {
        execute(j, STAGE_PREPARE, prepare);
    } else {
        j->stage = STAGE_PREPARE;
        stage_next(j);
    }
}

static void interrupt(struct kernel *kernel)
{
    struct jupyter *j = container_of(kernel, struct jupyter, kernel);
    char msg_id[ID_UUID_LEN + 1];

    j->interrupted = true;
    if (j->interrupts_by_message) {
        ask(j, JUPYTER_CONTROL, "interrupt_request", json_object(), msg_id);
    } else {
        child_signal(j->child, SIGINT);
    }
}

static void flow(struct kernel *kernel, bool flows)
{
    struct jupyter *j = container_of(kernel, struct jupyter, kernel);

    if (j->flows != flows) {
        j->flows = flows;
        jupyter_socket_flow(j->sockets[JUPYTER_IOPUB], flows);
    }
}

/* ---- the end ---- */

/* child.c keeps the output that the process writes outside of the protocol, to report it when it
 * dies. */
static void on_output(void *ctx, bool is_error, struct str bytes)
{
    (void)ctx, (void)is_error, (void)bytes;
}

static void on_settled(uv_timer_t *timer)
{
    struct jupyter *j = container_of(timer, struct jupyter, timer);

    j->end.last = child_tail(j->child);
    j->kernel.events->on_exit(j->kernel.ctx, &j->end);
}

static void on_exited(void *ctx, int64_t status, int signal)
{
    struct jupyter *j = ctx;

    j->end = (struct kernel_end){.status = status, .signal = signal};
    flow(&j->kernel, true);
    (void)uv_timer_start(&j->timer, on_settled, EXIT_SETTLE_MS, 0);
}

static const struct child_handler child_handler = {.on_output = on_output, .on_exit = on_exited};

static void files_remove(const struct jupyter *j)
{
    char path[PATH_BYTES_MAX + 32];

    for (int i = 0; i < PORTS; i++) {
        (void)snprintf(path, sizeof(path), "%s/k-%d", j->directory, i + 1);
        (void)unlink(path);
    }
    (void)snprintf(path, sizeof(path), "%s/kernel.json", j->directory);
    (void)unlink(path);
    (void)rmdir(j->directory);
}

static void on_closed(uv_handle_t *handle)
{
    struct jupyter *j = container_of((uv_timer_t *)handle, struct jupyter, timer);

    free(j->code);
    free(j->restore);
    free(j);
}

static void release(struct kernel *kernel)
{
    struct jupyter *j = container_of(kernel, struct jupyter, kernel);

    j->freed = true;
    j->running[0] = '\0';
    child_free(j->child);
    for (int i = 0; i < CHANNELS; i++) {
        jupyter_socket_close(j->sockets[i]);
    }
    files_remove(j);
    uv_close((uv_handle_t *)&j->timer, on_closed);
}

static const struct kernel_ops ops = {
    .run = run, .interrupt = interrupt, .flow = flow, .free = release};

/* ---- the start ---- */

/* Ports that are free now. A kernel that finds one taken ends, and is reported. */
static int ports_find(int ports[PORTS], struct err *err)
{
    int fds[PORTS];
    int r = 0;

    for (int i = 0; i < PORTS; i++) {
        struct sockaddr_in address = {.sin_family = AF_INET};
        socklen_t len = sizeof(address);
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fds[i] < 0 || bind(fds[i], (struct sockaddr *)&address, len) < 0 ||
            getsockname(fds[i], (struct sockaddr *)&address, &len) < 0) {
            r = err_sys(err, "find ports for a kernel");
        }
        ports[i] = ntohs(address.sin_port);
    }
    for (int i = 0; i < PORTS; i++) {
        fd_closep(&fds[i]);
    }
    return r;
}

static int connection_file_write(const struct jupyter *j, const struct kernel_options *options,
                                 const char *ip, const int ports[PORTS], const char *path,
                                 struct err *err)
{
    bool ipc = options->spec->transport == SPEC_IPC;
    json_auto_t *file =
        json_pack("{s:s, s:s, s:s, s:s, s:s}", "transport", ipc ? "ipc" : "tcp", "ip", ip, "key",
                  j->key, "signature_scheme", "hmac-sha256", "kernel_name", options->spec->name);

    for (int i = 0; i < PORTS; i++) {
        (void)json_object_set_new(file, port_names[i], json_integer(ports[i]));
    }
    char *text = json_dumps(file, JSON_COMPACT);
    scoped_fd fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    int r = fd < 0 || !text || dprintf(fd, "%s\n", text) < 0 ? err_sys(err, "write %s", path) : 0;
    free(text);
    return r;
}

static int sockets_open(struct jupyter *j, const struct kernel_options *options, const char *ip,
                        const int ports[PORTS], struct err *err)
{
    bool ipc = options->spec->transport == SPEC_IPC;

    for (int i = 0; i < CHANNELS; i++) {
        char endpoint[PATH_BYTES_MAX + 32];
        (void)snprintf(endpoint, sizeof(endpoint), ipc ? "ipc://%s-%d" : "tcp://%s:%d", ip,
                       ports[i]);
        struct jupyter_socket_options socket = {
            .loop = options->loop,
            .channel = (enum jupyter_channel)i,
            .endpoint = endpoint,
            .queue_max = i == JUPYTER_IOPUB && options->spec->waits ? IOPUB_QUEUE_MAX : 0,
            .on_message = on_message,
            .ctx = j,
        };
        int r = jupyter_socket_open(&socket, &j->sockets[i], err);
        if (r < 0) {
            return r;
        }
    }
    return 0;
}

static int process_start(struct jupyter *j, const struct kernel_options *options, const char *file,
                         struct err *err)
{
    scoped_command command = {NULL, NULL};
    int r = command_make(options->spec, file, &command, err);

    if (r < 0) {
        return r;
    }
    struct child_options child = {
        .loop = options->loop,
        .argv = command.argv,
        .env = command.env,
        .cwd = options->cwd,
        .input = -1,
        .inherited = {-1, -1},
        .handler = &child_handler,
        .ctx = j,
    };
    return child_start(&child, &j->child, err);
}

static int connect_and_start(struct jupyter *j, const struct kernel_options *options,
                             struct err *err)
{
    int ports[PORTS] = {1, 2, 3, 4, 5};
    char ip[PATH_BYTES_MAX + 8] = "127.0.0.1", file[PATH_BYTES_MAX + 32];
    int r = 0;

    if (options->spec->transport == SPEC_IPC) {
        (void)snprintf(ip, sizeof(ip), "%s/k", j->directory);
    } else {
        r = ports_find(ports, err);
    }
    (void)snprintf(file, sizeof(file), "%s/kernel.json", j->directory);
    if (r == 0) {
        r = connection_file_write(j, options, ip, ports, file, err);
    }
    if (r == 0) {
        r = sockets_open(j, options, ip, ports, err);
    }
    return r < 0 ? r : process_start(j, options, file, err);
}

static int directory_make(struct jupyter *j, const char *run_dir, struct err *err)
{
    (void)mkdir(run_dir, 0700);
    int n = snprintf(j->directory, sizeof(j->directory), "%s/kernel-XXXXXX", run_dir);
    if (n < 0 || (size_t)n + sizeof("/k-5") > sizeof(j->directory)) {
        return err_set(err, ENAMETOOLONG, "%s is too long for a socket's path", run_dir);
    }
    return mkdtemp(j->directory) ? 0 : err_sys(err, "make a directory in %s", run_dir);
}

int jupyter_start(const struct kernel_options *options, struct kernel **out, struct err *err)
{
    struct jupyter *j = xnew(struct jupyter);

    j->kernel = (struct kernel){.ops = &ops, .events = options->events, .ctx = options->ctx};
    j->language = options->spec->language;
    j->interrupts_by_message = options->spec->interrupts_by_message;
    j->flows = true;
    id_hex(j->key, JUPYTER_KEY_LEN / 2);
    id_uuid(j->session);
    (void)uv_timer_init(options->loop, &j->timer);
    int r = directory_make(j, options->run_dir, err);
    if (r == 0) {
        r = connect_and_start(j, options, err);
    }
    if (r < 0) {
        release(&j->kernel);
        return r;
    }
    info_ask(j);
    *out = &j->kernel;
    return 0;
}
