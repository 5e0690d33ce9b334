/* process_input.c - the input that clients write to a process. Each write waits its turn, and its
 * caller waits for it: a process that does not read slows down its clients, not the agent. */
#include <errno.h>
#include <stdlib.h>
#include <utlist.h>

#include "inside/agent/process.h"
#include "lib/base/alloc.h"

struct input_write {
    struct input *input;
    void (*done)(void *ctx, int error); /* NULL: forgotten */
    void *ctx;
    char *data;
    size_t len;
    size_t written;
    struct input_write *prev, *next;
};

static void on_writable(uv_poll_t *poll, int status, int events);

static void on_poll_closed(uv_handle_t *handle)
{
    process_handle_closed(container_of(handle, struct process, input.poll));
}

void input_open(struct process *p, int fd)
{
    p->input.fd = fd;
    p->input.process = p;
    if (fd >= 0) {
        int r = uv_poll_init(p->table->agent->loop, &p->input.poll, fd);
        if (r < 0) {
            abort(); /* a descriptor just made by us that epoll does not take */
        }
        p->handles++;
    }
}

/* 1 all written, 0 some left, -errno. */
static int write_some(int fd, const char *data, size_t len, size_t *written)
{
    while (*written < len) {
        ssize_t n = write(fd, data + *written, len - *written);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return errno == EAGAIN ? 0 : -EPIPE; /* EIO of a terminal is the same news */
        }
        *written += (size_t)n;
    }
    return 1;
}

static void write_end(struct input_write *write, int error)
{
    struct input *input = write->input;

    DL_DELETE(input->queue, write);
    input->queued_bytes -= write->len;
    if (write->done) {
        write->done(write->ctx, error);
    }
    free(write->data);
    free(write);
}

static void arm(struct input *input)
{
    bool want = input->fd >= 0 && input->queue;

    if (want && !input->polling) {
        input->polling = uv_poll_start(&input->poll, UV_WRITABLE, on_writable) == 0;
    } else if (!want && input->polling) {
        (void)uv_poll_stop(&input->poll);
        input->polling = false;
    }
}

void input_close(struct process *p)
{
    struct input *input = &p->input;

    if (input->fd < 0) {
        return;
    }
    uv_close((uv_handle_t *)&input->poll, on_poll_closed);
    (void)close(input->fd);
    input->fd = -1;
    input->polling = false;
    while (input->queue) {
        write_end(input->queue, -EPIPE);
    }
}

static void on_writable(uv_poll_t *poll, int status, int events)
{
    struct input *input = container_of(poll, struct input, poll);
    struct process *p = input->process;

    (void)status, (void)events;
    while (input->queue) {
        struct input_write *w = input->queue;
        int r = write_some(input->fd, w->data, w->len, &w->written);
        if (r == 0) {
            return;
        }
        if (r < 0) {
            input_close(p);
            return;
        }
        write_end(w, 0);
    }
    arm(input);
    if (input->close_after) {
        input_close(p);
    }
}

static struct input_write *enqueue(struct input *input, const char *data, size_t len)
{
    struct input_write *w = xnew(struct input_write);

    w->input = input;
    w->data = malloc(len);
    if (!w->data) {
        free(w);
        return NULL;
    }
    memcpy(w->data, data, len);
    w->len = len;
    DL_APPEND(input->queue, w);
    input->queued_bytes += len;
    return w;
}

int input_write(struct process *p, const void *data, size_t len, void (*done)(void *ctx, int error),
                void *ctx, struct input_write **handle)
{
    struct input *input = &p->input;
    size_t written = 0;
    int r = 0;

    if (input->fd < 0 || input->close_after) {
        return -EPIPE;
    }
    if (!input->queue) {
        r = write_some(input->fd, data, len, &written);
        if (r != 0) {
            return r;
        }
    }
    size_t left = len - written;
    if (left > PROCESS_INPUT_BYTES_MAX - input->queued_bytes) {
        return -ENOBUFS;
    }
    struct input_write *w = enqueue(input, (const char *)data + written, left);
    if (!w) {
        return -ENOBUFS;
    }
    w->done = done;
    w->ctx = ctx;
    *handle = w;
    arm(input);
    return 0;
}

void input_forget(struct input_write *write)
{
    write->done = NULL;
}

void input_finish(struct process *p)
{
    if (p->input.queue) {
        p->input.close_after = true;
    } else {
        input_close(p);
    }
}
