#include "cli/remote.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "cli/call.h"
#include "cli/remote_request.h"
#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/encode.h"
#include "lib/base/fd.h"

enum {
    INPUT_CHUNK_BYTES = 512 * 1024,
    INPUT_REQUEST_BYTES_MAX = 1024 * 1024,
    SMALL_REQUEST_BYTES_MAX = 512,
    STREAM_KEEPALIVE_S = 15,
    LOST_TRIES_MAX = 8,
    LOST_WAIT_MS = 200, /* before the first new try; doubled for each further one */
    POLL_MS = 1000,
};

struct remote {
    const struct remote_plan *plan;
    struct remote_end *end;
    struct err *err;
    CURLM *multi;
    struct remote_request stream, input, control, alive;
    struct process_event event;
    char *chunk;
    size_t chunk_bytes;     /* of the input under way */
    const char *input_path; /* of its call */
    int64_t input_again_ms; /* when it is sent once more; 0: it need not be */
    bool input_open;        /* there is more to read */
    bool resize;            /* the terminal has another size */
    int kill;               /* the signal that the program is to get; 0: none */
    int caught;             /* the last signal that we got; 0: none */
    int tries;              /* since the stream was lost */
    int64_t retry_ms;       /* when the next one is due; 0: the stream is up */
    int64_t alive_ms;       /* when the life of the sandbox is extended next */
    bool over;
    int result;
};

/* ---- pieces ---- */

int remote_signals_open(struct remote_signals *out, struct err *err)
{
    sigset_t set;

    (void)signal(SIGPIPE, SIG_IGN);
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGINT);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGHUP);
    (void)sigaddset(&set, SIGWINCH);
    (void)pthread_sigmask(SIG_BLOCK, &set, NULL);
    out->fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return out->fd < 0 ? err_sys(err, "wait for signals") : 0;
}

void remote_signals_close(struct remote_signals *signals)
{
    fd_closep(&signals->fd);
}

int remote_write(int fd, struct str data)
{
    while (data.len > 0) {
        ssize_t n = write(fd, data.at, data.len);

        if (n >= 0) {
            data = str_skip(data, (size_t)n);
        } else if (errno == EAGAIN) {
            struct pollfd room = {.fd = fd, .events = POLLOUT};
            (void)poll(&room, 1, POLL_MS);
        } else if (errno != EINTR) {
            return -errno;
        }
    }
    return 0;
}

int remote_print(void *ctx, bool is_stderr, struct str data)
{
    (void)ctx;
    return remote_write(is_stderr ? STDERR_FILENO : STDOUT_FILENO, data);
}

int remote_print_aside(void *ctx, bool is_stderr, struct str data)
{
    (void)is_stderr;
    return remote_print(ctx, true, data);
}

int remote_signal_number(const char *status)
{
    const char *prefix = "signal: ";
    char *end;

    if (strncmp(status, prefix, strlen(prefix)) != 0) {
        return 0;
    }
    const char *name = status + strlen(prefix);
    for (int sig = 1; sig < NSIG; sig++) {
        const char *text = sigdescr_np(sig);
        size_t len = text ? strlen(text) : 0;
        if (len > 0 && strncasecmp(name, text, len) == 0 && (!name[len] || name[len] == ' ')) {
            return sig;
        }
    }
    long number = strncmp(name, "signal ", 7) == 0 ? strtol(name + 7, &end, 10) : 0;
    return number > 0 && number < NSIG ? (int)number : 0;
}

static void remote_over(struct remote *remote, int result)
{
    remote->over = true;
    remote->result = result;
}

static int exit_code(const struct process_event *event)
{
    int sig = event->exit_code < 0 ? remote_signal_number(event->status) : 0;

    return event->exit_code >= 0 ? event->exit_code : REMOTE_SIGNALLED + sig;
}

/* ---- the stream of output ---- */

static void stream_lost(struct remote *remote, CURLcode code);

static void take_started(struct remote *remote)
{
    remote->end->pid = remote->event.pid;
    remote->tries = 0;
    remote->resize = remote->plan->terminal;
    if (remote->plan->detach) {
        remote_over(remote, 0);
    }
}

/* The reader of our output has left, or nothing more can be written: so the program ends too,
 * unless it was there before us. */
static void take_output(struct remote *remote)
{
    const struct remote_plan *plan = remote->plan;
    int r = plan->output(plan->ctx, remote->event.is_stderr, buf_str(&remote->event.data));

    if (r < 0 && !remote->kill) {
        remote->kill = SIGKILL;
        remote->result = err_code(remote->err, -r, "write the output of the command");
    }
    if (r < 0 && plan->attach_pid) {
        remote_over(remote, remote->result);
    }
}

static void take_last(struct remote *remote)
{
    const struct process_event *event = &remote->event;

    /* A stream that ends before its program, or because of a pause: on_stream_done() sees it. */
    if (event->why.code == 0 || (remote->end->pid && (strcmp(event->kind, "aborted") == 0 ||
                                                      strcmp(event->kind, "unavailable") == 0))) {
        return;
    }
    remote->end->unstartable = remote->end->pid == 0 && event->why.code == EINVAL;
    remote->end->unknown = remote->end->pid == 0 && strcmp(event->kind, "not_found") == 0;
    remote_over(remote, err_set(remote->err, event->why.code, "%s", event->why.msg));
}

static void take_event(struct remote *remote)
{
    switch (remote->event.news) {
    case PROCESS_STARTED:
        take_started(remote);
        break;
    case PROCESS_OUTPUT:
        take_output(remote);
        break;
    case PROCESS_ENDED:
        remote->end->code = exit_code(&remote->event);
        remote_over(remote, remote->result);
        break;
    case PROCESS_LAST:
        take_last(remote);
        break;
    case PROCESS_NOTHING:
        break;
    }
}

static int on_news(void *ctx, struct remote_request *request)
{
    struct remote *remote = ctx;
    struct frame frame;
    int r;

    while (!remote->over &&
           (r = frame_read(buf_str(&request->answer), PROCESS_MESSAGE_BYTES_MAX, &frame)) != 0) {
        if (r < 0) {
            remote_over(remote, err_set(remote->err, EPROTO, "the sandbox sent no valid stream"));
            return r;
        }
        process_event(&frame, &remote->event);
        take_event(remote);
        buf_consume(&request->answer, frame.bytes);
    }
    return 0;
}

static void on_stream_done(void *ctx, struct remote_request *request, CURLcode code)
{
    struct remote *remote = ctx;

    if (remote->over) {
        return;
    }
    if (code == CURLE_OK && request->status != 200 && !remote->end->pid) {
        remote_over(remote, link_refusal(buf_str(&request->answer), request->status, remote->err));
        return;
    }
    stream_lost(remote, code);
}

static int stream_send(struct remote *remote, const char *path, struct err *err)
{
    const struct remote_plan *plan = remote->plan;

    return remote_request_send(&remote->stream, remote->multi, plan->link, path,
                               PROCESS_CONTENT_TYPE, plan->user, STREAM_KEEPALIVE_S, err);
}

static int stream_start(struct remote *remote)
{
    const struct remote_plan *plan = remote->plan;
    struct buf *body = &remote->stream.body;

    buf_clear(body);
    int r = plan->attach_pid ? process_request_connect(plan->attach_pid, body, remote->err)
                             : process_request(&plan->process, body, remote->err);
    return r < 0 ? r
                 : stream_send(remote, plan->attach_pid ? PROCESS_CONNECT : PROCESS_START,
                               remote->err);
}

/* Whether there is still something to connect to; if not, the error says so. */
static bool sandbox_is_there(struct remote *remote)
{
    const struct link *link = remote->plan->link;
    scoped_json *answer = NULL;
    char path[LINK_ID_BYTES + 16];
    struct err err = {0};

    (void)snprintf(path, sizeof(path), "/sandboxes/%s", link->id);
    int r = endpoint_call(&link->endpoint, "GET", path, NULL, &answer, &err);
    if (r == -EPROTO || r == -CALL_NOT_FOUND) {
        remote_over(remote, err_set(remote->err, ENOENT,
                                    "sandbox %s has ended, and the command with it", link->id));
    } else if (r == 0 && strcmp(json_text_of(answer, "state"), "paused") == 0) {
        remote_over(remote, err_set(remote->err, EAGAIN,
                                    "sandbox %s was paused: the command goes on, without us, when "
                                    "it is resumed",
                                    link->id));
    }
    return !remote->over;
}

static void stream_lost(struct remote *remote, CURLcode code)
{
    const struct link *link = remote->plan->link;

    if (!remote->end->pid) {
        int r = endpoint_failure(&link->endpoint, NULL, code, remote->stream.reason, remote->err);
        remote_over(remote, r);
        return;
    }
    if (remote->tries >= LOST_TRIES_MAX) {
        remote_over(remote, err_set(remote->err, ECONNRESET,
                                    "the connection to sandbox %s is lost; the command goes on "
                                    "there as process %u",
                                    link->id, remote->end->pid));
        return;
    }
    remote->retry_ms = clock_mono_ms() + ((int64_t)LOST_WAIT_MS << remote->tries);
    remote->tries++;
}

static void stream_retry(struct remote *remote)
{
    struct err err;

    if (!remote->retry_ms || clock_mono_ms() < remote->retry_ms || !sandbox_is_there(remote)) {
        return;
    }
    remote->retry_ms = 0;
    buf_clear(&remote->stream.body);
    if (process_request_connect(remote->end->pid, &remote->stream.body, &err) < 0 ||
        stream_send(remote, PROCESS_CONNECT, &err) < 0) {
        remote_over(remote, err_set(remote->err, err.code, "%s", err.msg));
    }
}

/* ---- input ---- */

/* Bytes that may have arrived cannot be sent again; those that have not can, and so can an end. */
static void on_input_done(void *ctx, struct remote_request *request, CURLcode code)
{
    struct remote *remote = ctx;
    const struct remote_plan *plan = remote->plan;

    if (code == CURLE_OK && request->status == 200) {
        if (plan->sent) {
            plan->sent(plan->ctx, remote->chunk_bytes);
        }
    } else if (code == CURLE_OK) {
        remote->input_open = false; /* the program has ended, or closed its input */
    } else if (code == CURLE_COULDNT_CONNECT || remote->chunk_bytes == 0) {
        remote->input_again_ms = clock_mono_ms() + LOST_WAIT_MS;
    } else if (!plan->terminal && !remote->over) {
        remote->kill = SIGTERM;
        remote->input_open = false;
        remote->result = err_set(remote->err, ECONNRESET,
                                 "the connection was lost while input was sent: the command was "
                                 "ended, because its input would have a gap");
    }
}

static void small_send(struct remote *remote, struct remote_request *request, const char *path)
{
    struct err err;

    if (remote_request_send(request, remote->multi, remote->plan->link, path, "application/json",
                            NULL, 0, &err) < 0) {
        remote_over(remote, err_set(remote->err, err.code, "%s", err.msg));
    }
}

static void input_send(struct remote *remote, size_t n)
{
    struct buf *body = &remote->input.body;
    const char *kind = remote->plan->process.cols > 0 ? "pty" : "stdin";

    buf_clear(body);
    if (buf_printf(body, "{\"process\":{\"pid\":%u},\"input\":{\"%s\":\"", remote->end->pid, kind) <
            0 ||
        base64_encode(body, remote->chunk, n, BASE64_STD) < 0 || buf_printf(body, "\"}}") < 0) {
        abort(); /* INPUT_REQUEST_BYTES_MAX has room for a chunk */
    }
    remote->chunk_bytes = n;
    remote->input_path = "/process.Process/SendInput";
    small_send(remote, &remote->input, remote->input_path);
}

static void input_resend(struct remote *remote)
{
    if (remote->input_again_ms && !remote->retry_ms && !remote->input.easy &&
        clock_mono_ms() >= remote->input_again_ms) {
        remote->input_again_ms = 0;
        small_send(remote, &remote->input, remote->input_path);
    }
}

static void input_end(struct remote *remote)
{
    const struct remote_plan *plan = remote->plan;

    remote->input_open = false;
    if (plan->input_spoilt && atomic_load(plan->input_spoilt)) {
        remote->kill = SIGKILL;
        remote->result = err_set(remote->err, EIO, "its input broke off");
        return;
    }
    if (plan->process.cols > 0) {
        remote->chunk[0] = 4; /* Ctrl-D: a terminal has no other end */
        input_send(remote, 1);
        return;
    }
    buf_clear(&remote->input.body);
    remote->chunk_bytes = 0;
    if (buf_printf(&remote->input.body, "{\"process\":{\"pid\":%u}}", remote->end->pid) == 0) {
        remote->input_path = "/process.Process/CloseStdin";
        small_send(remote, &remote->input, remote->input_path);
    }
}

static bool input_wanted(const struct remote *remote)
{
    return remote->input_open && remote->end->pid && !remote->input.easy && !remote->retry_ms &&
           !remote->kill && !remote->input_again_ms;
}

static void input_read(struct remote *remote)
{
    ssize_t n = read(remote->plan->input, remote->chunk, INPUT_CHUNK_BYTES);

    if (n > 0) {
        input_send(remote, (size_t)n);
    } else if (n == 0 || (errno != EINTR && errno != EAGAIN)) {
        input_end(remote); /* a terminal that is gone reads as an error */
    }
}

/* ---- size, signals, life ---- */

static void on_small_done(void *ctx, struct remote_request *request, CURLcode code)
{
    (void)ctx, (void)request, (void)code; /* a program that has ended needs neither */
}

static void control_send(struct remote *remote)
{
    struct buf *body = &remote->control.body;
    struct winsize size = {0};
    int r = -1;

    if (remote->control.easy || !remote->end->pid || remote->retry_ms) {
        return;
    }
    buf_clear(body);
    if (remote->kill > 0) {
        r = buf_printf(body, "{\"process\":{\"pid\":%u},\"signal\":\"SIGNAL_SIG%s\"}",
                       remote->end->pid, remote->kill == SIGKILL ? "KILL" : "TERM");
        remote->kill = -1; /* sent */
        if (r == 0) {
            small_send(remote, &remote->control, "/process.Process/SendSignal");
        }
    } else if (remote->resize && ioctl(remote->plan->input, TIOCGWINSZ, &size) == 0 &&
               size.ws_col > 0) {
        r = buf_printf(body,
                       "{\"process\":{\"pid\":%u},\"pty\":{\"size\":{\"cols\":%u,\"rows\":%u}}}",
                       remote->end->pid, size.ws_col, size.ws_row);
        if (r == 0) {
            small_send(remote, &remote->control, "/process.Process/Update");
        }
        remote->resize = false;
    }
}

/* The first one ends the program, the second one ends us. */
static void caught(struct remote *remote, int sig)
{
    bool again = remote->caught != 0;

    remote->caught = sig;
    remote->end->interrupted = true;
    remote->end->code = REMOTE_SIGNALLED + sig;
    if (again || remote->plan->ends_at_once || !remote->end->pid) {
        remote_over(remote, 0);
    } else {
        /* Interactive shells ignore SIGTERM. */
        remote->kill = remote->plan->terminal ? SIGKILL : SIGTERM;
    }
}

static void signals_read(struct remote *remote)
{
    struct signalfd_siginfo info;

    while (read(remote->plan->signals->fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        if (info.ssi_signo == SIGWINCH) {
            remote->resize = remote->plan->terminal;
        } else {
            caught(remote, (int)info.ssi_signo);
        }
    }
}

/* Every third of that time. A failure is not told: the next one may succeed. */
static void life_extend(struct remote *remote)
{
    const struct remote_plan *plan = remote->plan;
    char path[LINK_ID_BYTES + 32];
    struct err err;

    if (plan->keep_alive_s == 0 || remote->alive.easy || clock_mono_ms() < remote->alive_ms) {
        return;
    }
    remote->alive_ms = clock_mono_ms() + (int64_t)plan->keep_alive_s * 1000 / 3;
    buf_clear(&remote->alive.body);
    (void)snprintf(path, sizeof(path), "/sandboxes/%s/refreshes", plan->link->id);
    if (buf_printf(&remote->alive.body, "{\"duration\":%d}", plan->keep_alive_s) == 0) {
        (void)!remote_request_send(&remote->alive, remote->multi, plan->link, path, NULL, NULL, 0,
                                   &err);
    }
}

static void cancel_check(struct remote *remote)
{
    const atomic_bool *cancelled = remote->plan->cancelled;

    if (cancelled && !remote->kill && atomic_load(cancelled)) {
        remote->kill = SIGKILL;
        remote->result = err_set(remote->err, EINTR, "interrupted");
    }
}

/* ---- the run ---- */

static void turn(struct remote *remote)
{
    const struct remote_plan *plan = remote->plan;
    struct curl_waitfd fds[2] = {
        {.fd = plan->signals ? plan->signals->fd : -1, .events = CURL_WAIT_POLLIN},
        {.fd = plan->input, .events = CURL_WAIT_POLLIN}};
    unsigned skip = plan->signals ? 0 : 1;
    int running, wait_ms = remote->retry_ms || remote->input_again_ms ? LOST_WAIT_MS : POLL_MS;

    (void)curl_multi_perform(remote->multi, &running);
    remote_requests_reap(remote->multi);
    if (remote->over) {
        return;
    }
    cancel_check(remote);
    stream_retry(remote);
    input_resend(remote);
    life_extend(remote);
    control_send(remote);
    unsigned n = input_wanted(remote) ? 2 : 1;
    (void)curl_multi_poll(remote->multi, fds + skip, n - skip, wait_ms, NULL);
    if (!skip && fds[0].revents) {
        signals_read(remote);
    }
    if (!remote->over && n == 2 && fds[1].revents) {
        input_read(remote);
    }
}

static void requests_init(struct remote *remote)
{
    remote_request_init(&remote->stream, PROCESS_REQUEST_BYTES_MAX);
    remote_request_init(&remote->input, INPUT_REQUEST_BYTES_MAX);
    remote_request_init(&remote->control, SMALL_REQUEST_BYTES_MAX);
    remote_request_init(&remote->alive, SMALL_REQUEST_BYTES_MAX);
    remote->stream.done = on_stream_done;
    remote->stream.news = on_news;
    remote->stream.detaches = remote->plan->detach;
    remote->input.done = on_input_done;
    remote->control.done = remote->alive.done = on_small_done;
    remote->stream.ctx = remote->input.ctx = remote->control.ctx = remote->alive.ctx = remote;
}

static void remote_fini(struct remote *remote)
{
    remote_request_fini(&remote->stream, remote->multi);
    remote_request_fini(&remote->input, remote->multi);
    remote_request_fini(&remote->control, remote->multi);
    remote_request_fini(&remote->alive, remote->multi);
    process_event_fini(&remote->event);
    (void)curl_multi_cleanup(remote->multi);
    free(remote->chunk);
}

int remote_run(const struct remote_plan *plan, struct remote_end *end, struct err *err)
{
    struct remote remote = {.plan = plan, .end = end, .err = err, .input_open = plan->input >= 0};

    *end = (struct remote_end){0};
    remote.multi = curl_multi_init();
    if (!remote.multi) {
        abort();
    }
    remote.chunk = xcalloc(1, INPUT_CHUNK_BYTES);
    process_event_init(&remote.event);
    requests_init(&remote);
    int r = stream_start(&remote);
    while (r == 0 && !remote.over) {
        turn(&remote);
    }
    remote_fini(&remote);
    if (remote.caught) {
        end->code = REMOTE_SIGNALLED + remote.caught;
    }
    return r < 0 ? r : remote.result;
}
