/* pipe_kernel.c - kernels of this project: commands, events and output over pipes (pipe_wire.h).
 *
 * A run's output was written before the event that ends it, but to another pipe: before an event is
 * handled, the output pipes are read.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>

#include "inside/interpreter/command.h"
#include "inside/interpreter/internal.h"
#include "inside/interpreter/json_read.h"
#include "inside/interpreter/pipe_wire.h"
#include "lib/base/alloc.h"
#include "lib/base/buf.h"
#include "lib/base/fd.h"
#include "lib/base/log.h"
#include "lib/base/utf8.h"
#include "lib/child/child.h"

enum {
    OUTPUTS = 2,
    UNFINISHED_MAX = 3, /* bytes of a character whose rest is in the next piece */
    HANDLES = 2,
};

struct pipe_kernel {
    struct kernel kernel;
    const struct spec *spec;
    struct child *child;
    uv_pipe_t commands;
    uv_poll_t events;
    int events_fd; /* -1: at its end */
    struct buf lines;
    char unfinished[OUTPUTS][UNFINISHED_MAX];
    size_t unfinished_n[OUTPUTS];
    uint64_t id; /* of the run under way, or the last */
    int handles;
    bool running;
    bool freed;
};

/* ---- output ---- */

static void text_tell(struct pipe_kernel *k, bool is_error, struct str text)
{
    if (text.len && k->running && !k->freed) {
        k->kernel.events->on_text(k->kernel.ctx, is_error, text, NULL);
    }
}

/* A piece may end inside a character: its beginning waits for the rest. */
static void on_output(void *ctx, bool is_error, struct str bytes)
{
    static char joined[UNFINISHED_MAX + CHILD_PIPE_BYTES];
    struct pipe_kernel *k = ctx;
    char *kept = k->unfinished[is_error];
    size_t n = k->unfinished_n[is_error];

    memcpy(joined, kept, n);
    memcpy(joined + n, bytes.at, bytes.len);
    struct str text = {joined, n + bytes.len};
    size_t tail = utf8_unfinished(text);
    text.len -= tail;
    memcpy(kept, text.at + text.len, tail);
    k->unfinished_n[is_error] = tail;
    text_tell(k, is_error, text);
}

static void outputs_settle(struct pipe_kernel *k)
{
    child_drain(k->child);
    for (int i = 0; i < OUTPUTS; i++) {
        size_t n = k->unfinished_n[i];
        k->unfinished_n[i] = 0;
        text_tell(k, i == 1, (struct str){k->unfinished[i], n});
    }
}

/* ---- events ---- */

static struct str field(const struct pipe_event *event, const char *name)
{
    const json_t *value = json_object_get(event->fields, name);

    return (struct str){json_string_value(value), json_string_length(value)};
}

static void done_take(struct pipe_kernel *k, const struct pipe_event *event)
{
    if ((uint64_t)json_integer_value(json_object_get(event->fields, "id")) == k->id) {
        outputs_settle(k);
        k->running = false;
        k->kernel.events->on_done(k->kernel.ctx);
    }
}

static void event_tell(struct pipe_kernel *k, const struct pipe_event *event)
{
    const struct kernel_events *events = k->kernel.events;
    json_t *bundle = json_object_get(event->fields, "data");

    switch (event->type) {
    case PIPE_COUNT:
        events->on_count(k->kernel.ctx,
                         json_integer_value(json_object_get(event->fields, "count")));
        break;
    case PIPE_STDOUT:
    case PIPE_STDERR:
        text_tell(k, event->type == PIPE_STDERR, field(event, "text"));
        break;
    case PIPE_RESULT:
        if (json_is_object(bundle)) {
            events->on_result(k->kernel.ctx, bundle,
                              json_is_true(json_object_get(event->fields, "main")));
        }
        break;
    case PIPE_ERROR:
        events->on_error(k->kernel.ctx, field(event, "name"), field(event, "value"),
                         field(event, "traceback"));
        break;
    case PIPE_DONE:
        done_take(k, event);
        break;
    case PIPE_READY:
        break;
    }
}

static void line_take(struct pipe_kernel *k, struct str line)
{
    scoped_event event = {.fields = NULL};

    if (pipe_event_read(line, &event) < 0) {
        log_warn("a kernel wrote a line of %zu bytes that is no event", line.len);
        return;
    }
    if (event.type == PIPE_READY) {
        k->kernel.events->on_ready(k->kernel.ctx);
    } else if (k->running) {
        if (event.type != PIPE_COUNT) {
            child_drain(k->child);
        }
        if (!k->freed) {
            event_tell(k, &event);
        }
    }
}

/* Reads once, and takes every line that is whole. False: nothing more now. */
static bool events_read(struct pipe_kernel *k)
{
    char *at;

    if (k->events_fd < 0 || buf_reserve(&k->lines, CHILD_PIPE_BYTES, &at) < 0) {
        return false;
    }
    ssize_t n = read(k->events_fd, at, CHILD_PIPE_BYTES);
    if (n <= 0) {
        bool again = n < 0 && (errno == EAGAIN || errno == EINTR);
        if (!again) {
            (void)uv_poll_stop(&k->events);
        }
        return false;
    }
    buf_commit(&k->lines, (size_t)n);
    while (!k->freed) {
        struct str all = buf_str(&k->lines);
        size_t len = str_find(all, '\n');
        if (len == all.len) {
            break;
        }
        line_take(k, (struct str){all.at, len});
        buf_consume(&k->lines, len + 1);
    }
    return true;
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    struct pipe_kernel *k = container_of(poll, struct pipe_kernel, events);

    (void)status, (void)events;
    if (!events_read(k) && !k->freed && k->lines.max - buf_len(&k->lines) < CHILD_PIPE_BYTES) {
        log_warn("a kernel's event is longer than %d MiB", PIPE_EVENT_BYTES_MAX >> 20);
        child_signal(k->child, SIGKILL);
        (void)uv_poll_stop(poll);
    }
}

/* ---- commands to the kernel ---- */

struct command_write {
    uv_write_t write;
    struct buf line;
};

static void on_written(uv_write_t *write, int status)
{
    struct command_write *command = container_of(write, struct command_write, write);

    (void)status; /* a kernel that no longer reads has ended, or will */
    buf_fini(&command->line);
    free(command);
}

static void run(struct kernel *kernel, const struct kernel_run *run)
{
    struct pipe_kernel *k = container_of(kernel, struct pipe_kernel, kernel);
    struct command_write *command = xnew(struct command_write);

    buf_init(&command->line, 2 * (size_t)PIPE_COMMAND_BYTES_MAX);
    k->running = true;
    child_tail_clear(k->child);
    k->unfinished_n[0] = k->unfinished_n[1] = 0;
    if (pipe_command_write(&command->line, k->spec->run, ++k->id, run) < 0) {
        buf_clear(&command->line); /* cannot be: requests are shorter */
    }
    uv_buf_t bytes = uv_buf_init(buf_at(&command->line), (unsigned)buf_len(&command->line));
    if (uv_write(&command->write, (uv_stream_t *)&k->commands, &bytes, 1, on_written) < 0) {
        on_written(&command->write, -1);
        child_signal(k->child, SIGKILL);
    }
}

static void interrupt(struct kernel *kernel)
{
    child_signal(container_of(kernel, struct pipe_kernel, kernel)->child, SIGINT);
}

static void flow(struct kernel *kernel, bool flows)
{
    struct pipe_kernel *k = container_of(kernel, struct pipe_kernel, kernel);

    child_flow(k->child, flows);
    if (flows && k->events_fd >= 0) {
        (void)uv_poll_start(&k->events, UV_READABLE, on_readable);
    } else {
        (void)uv_poll_stop(&k->events);
    }
}

/* ---- life ---- */

static void on_exited(void *ctx, int64_t status, int signal)
{
    struct pipe_kernel *k = ctx;

    while (!k->freed && events_read(k)) {
    }
    if (!k->freed) {
        outputs_settle(k);
    }
    if (!k->freed) {
        struct kernel_end end = {.status = status, .signal = signal, .last = child_tail(k->child)};
        k->kernel.events->on_exit(k->kernel.ctx, &end);
    }
}

static const struct child_handler child_handler = {.on_output = on_output, .on_exit = on_exited};

static void on_closed(uv_handle_t *handle)
{
    struct pipe_kernel *k = handle->data;

    if (--k->handles == 0) {
        buf_fini(&k->lines);
        free(k);
    }
}

static void release(struct kernel *kernel)
{
    struct pipe_kernel *k = container_of(kernel, struct pipe_kernel, kernel);

    k->freed = true;
    child_free(k->child);
    uv_close((uv_handle_t *)&k->commands, on_closed);
    uv_close((uv_handle_t *)&k->events, on_closed);
    fd_closep(&k->events_fd);
}

static const struct kernel_ops ops = {
    .run = run, .interrupt = interrupt, .flow = flow, .free = release};

/* Takes our ends of the pipes over. */
static struct pipe_kernel *pipe_kernel_new(const struct kernel_options *options, int commands,
                                           int events)
{
    struct pipe_kernel *k = xnew(struct pipe_kernel);

    k->kernel = (struct kernel){.ops = &ops, .events = options->events, .ctx = options->ctx};
    k->spec = options->spec;
    k->events_fd = events;
    k->handles = HANDLES;
    buf_init(&k->lines, PIPE_EVENT_BYTES_MAX);
    if (uv_pipe_init(options->loop, &k->commands, 0) < 0 ||
        uv_pipe_open(&k->commands, commands) < 0 ||
        uv_poll_init(options->loop, &k->events, events) < 0) {
        abort(); /* pipes can be opened and polled */
    }
    k->commands.data = k->events.data = k;
    (void)uv_poll_start(&k->events, UV_READABLE, on_readable);
    return k;
}

static int process_start(struct pipe_kernel *k, const struct kernel_options *options, int commands,
                         int events, struct err *err)
{
    scoped_command command = {NULL, NULL};
    int r = command_make(options->spec, NULL, &command, err);

    if (r < 0) {
        return r;
    }
    struct child_options child = {
        .loop = options->loop,
        .argv = command.argv,
        .env = command.env,
        .cwd = options->cwd,
        .input = -1,
        .inherited = {commands, events},
        .handler = &child_handler,
        .ctx = k,
    };
    return child_start(&child, &k->child, err);
}

int pipe_kernel_start(const struct kernel_options *options, struct kernel **out, struct err *err)
{
    int commands[2], events[2];

    if (pipe2(commands, O_CLOEXEC) < 0) {
        return err_sys(err, "make a pipe for a kernel");
    }
    scoped_fd theirs_in = commands[0], ours_in = commands[1];
    if (pipe2(events, O_CLOEXEC) < 0) {
        return err_sys(err, "make a pipe for a kernel");
    }
    scoped_fd theirs_out = events[1];
    (void)fcntl(events[0], F_SETFL, O_NONBLOCK);
    struct pipe_kernel *k = pipe_kernel_new(options, move_fd(&ours_in), events[0]);
    int r = process_start(k, options, theirs_in, theirs_out, err);
    if (r < 0) {
        release(&k->kernel);
        return r;
    }
    *out = &k->kernel;
    return 0;
}
