/* run.c - process.Process/Start on the agent's control socket, in Connect's JSON.
 *
 *      dial ─► POST, one message ─► [flags, length, message]... ─► the message that ends the stream
 */
#include "serve/sandbox/run.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/foreign.h"
#include "lib/http/upstream.h"
#include "lib/rpc/process.h"
#include "serve/sandbox/internal.h"
#include "wire/channel.h"

struct limit { /* outlives its run until its timer is closed */
    uv_timer_t timer;
    struct run *run;
};

struct run {
    struct sandbox *sb;  /* counted */
    struct limit *limit; /* NULL: none */
    const struct run_handler *handler;
    void *ctx;
    struct upstream *up;
    struct buf request;
    char authorization[PROCESS_USER_BYTES];
    char timeout[24];
    int64_t timeout_ms, begun_ms;
    struct buf in; /* received, and no whole message yet */
    int status;    /* HTTP's; 0: no answer yet */
    bool dialing;
    bool left;                  /* nobody listens any more; freed when the dial is answered */
    bool in_call;               /* inside one of the handler's: run_leave() frees later */
    bool ended;                 /* the process has: `event` says how */
    bool *freed;                /* told so, while sandbox_run() is under way */
    struct process_event event; /* the last that came */
};

static void on_limit_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static void run_free(struct run *run)
{
    if (run->freed) {
        *run->freed = true;
    }
    if (run->limit) {
        uv_close((uv_handle_t *)&run->limit->timer, on_limit_closed);
    }
    upstream_close(run->up);
    sandbox_release(run->sb);
    buf_fini(&run->request);
    buf_fini(&run->in);
    process_event_fini(&run->event);
    free(run);
}

static void finish(struct run *run, const struct run_end *end)
{
    if (!run->left) {
        run->left = true;
        run->handler->ended(run->ctx, end);
    }
    run_free(run);
}

static void finish_error(struct run *run, int error, const char *what)
{
    struct err err;

    (void)err_set(&err, -error, "%s: %s", what, strerror(-error));
    finish(run, &(struct run_end){.error = error, .why = &err});
}

/* ---- timeouts ---- */

/* The code that the agent runs may have taken it over: it may never report the end of a command. */
static void on_limit(uv_timer_t *timer)
{
    struct run *run = ((struct limit *)timer->data)->run;
    struct err err;

    if (run->left) {
        return; /* only its dial is waited for */
    }
    (void)err_set(&err, ETIMEDOUT, "the sandbox's agent did not end the command in time");
    const struct run_end end = {.error = -ETIMEDOUT, .why = &err, .timed_out = true};
    if (run->dialing) {
        run->left = true; /* freed when the dial is answered */
        run->handler->ended(run->ctx, &end);
    } else {
        finish(run, &end);
    }
}

static void limit_set(struct run *run, int64_t ms)
{
    struct limit *limit = xnew(struct limit);

    limit->run = run;
    limit->timer.data = limit;
    if (uv_timer_init(run->sb->all->use.loop, &limit->timer) < 0) {
        abort();
    }
    (void)uv_timer_start(&limit->timer, on_limit, (uint64_t)ms, 0);
    run->limit = limit;
}

/* ---- the answer ---- */

/* The last message. The run is dead afterwards. */
static void on_last(struct run *run)
{
    const struct process_event *event = &run->event;
    bool late = run->timeout_ms && clock_mono_ms() - run->begun_ms >= run->timeout_ms;
    struct err why;

    if (run->ended) {
        finish(run, &(struct run_end){.exit_code = event->exit_code,
                                      .status = event->status,
                                      .timed_out = late && event->exit_code != 0});
    } else if (event->why.code) { /* as E2B's builds tell it: tests of its SDKs look for that */
        (void)err_set(&why, event->why.code, "%s: %s", event->kind, event->why.msg);
        finish(run, &(struct run_end){.error = -EPROTO, .why = &why, .timed_out = event->late});
    } else {
        finish_error(run, -EPROTO, "the sandbox's agent ended the stream early");
    }
}

static void on_event(struct run *run)
{
    const struct process_event *event = &run->event;

    if (event->news == PROCESS_STARTED && run->handler->started) {
        run->handler->started(run->ctx);
    } else if (event->news == PROCESS_OUTPUT && run->handler->output) {
        run->handler->output(run->ctx, event->is_stderr, buf_str(&event->data));
    } else if (event->news == PROCESS_ENDED) {
        run->ended = true;
    }
}

/* Takes a whole message, or uses 0 bytes. True: the run is dead. */
static bool take_message(struct run *run, size_t *used)
{
    struct frame frame = {0};
    int r = frame_read(buf_str(&run->in), PROCESS_MESSAGE_BYTES_MAX, &frame);

    *used = frame.bytes;
    if (r < 0) {
        finish_error(run, r, "the sandbox's agent sent too long a message");
        return true;
    }
    if (r == 0) {
        return false;
    }
    process_event(&frame, &run->event);
    run->in_call = true;
    if (run->event.news == PROCESS_LAST) {
        on_last(run);
        return true;
    }
    on_event(run);
    return false;
}

/* The handler may let go of the run in any of its calls. */
static bool take_messages(struct run *run)
{
    size_t used = 0;

    do {
        if (take_message(run, &used)) {
            return false;
        }
        run->in_call = false;
        if (run->left) {
            run_free(run);
            return false;
        }
        buf_consume(&run->in, used);
    } while (used > 0);
    return true;
}

static void on_response(void *ctx, int status, const struct http_header *headers, size_t n,
                        int64_t content_length)
{
    struct run *run = ctx;

    (void)headers, (void)n, (void)content_length;
    run->status = status;
    upstream_credit(run->up, RUN_WINDOW_BYTES);
}

static void on_body(void *ctx, const void *data, size_t len)
{
    struct run *run = ctx;

    if (buf_append(&run->in, data, len) < 0) {
        finish_error(run, -EMSGSIZE, "the sandbox's agent sent too long a message");
        return;
    }
    if (run->status / 100 != 2) {
        return; /* a sentence, not messages: on_end shows it */
    }
    if (take_messages(run)) {
        upstream_credit(run->up, len);
    }
}

static void on_end(void *ctx, int error)
{
    struct run *run = ctx;
    struct err err;

    if (run->status / 100 != 2 && run->status != 0) {
        (void)err_set(&err, EPROTO, "the sandbox's agent refused the command (%d): %.*s",
                      run->status, (int)buf_len(&run->in), buf_at(&run->in));
        finish(run, &(struct run_end){.error = -EPROTO, .why = &err});
    } else {
        finish_error(run, error < 0 ? error : -ECONNRESET, "the sandbox went away");
    }
}

static void send_request(void *ctx)
{
    struct run *run = ctx;

    struct str rest = upstream_write_some(run->up, buf_str(&run->request));

    buf_consume(&run->request, buf_len(&run->request) - rest.len);
}

static const struct upstream_handler handler = {
    .on_response = on_response, .on_body = on_body, .on_credit = send_request, .on_end = on_end};

/* ---- the request ---- */

static void on_dialed(void *ctx, int fd_or_error)
{
    struct run *run = ctx;
    struct err err;

    run->dialing = false;
    if (run->left) {
        foreign_closep(&fd_or_error);
        run_free(run);
        return;
    }
    if (fd_or_error < 0) {
        finish_error(run, fd_or_error, "the sandbox's agent gave no socket");
        return;
    }
    int r = upstream_new(run->sb->all->use.loop, fd_or_error, &run->up, &err);
    if (r < 0) {
        finish(run, &(struct run_end){.error = r, .why = &err});
        return;
    }
    struct http_header headers[5] = {
        {STR("host"), STR("localhost")},
        {STR("content-type"), STR(PROCESS_CONTENT_TYPE)},
        {STR("connect-protocol-version"), STR("1")},
    };
    size_t n = 3;
    if (run->authorization[0]) {
        headers[n++] = (struct http_header){STR("authorization"), str_of(run->authorization)};
    }
    if (run->timeout[0]) {
        headers[n++] = (struct http_header){STR("connect-timeout-ms"), str_of(run->timeout)};
    }
    run->begun_ms = clock_mono_ms();
    upstream_send(run->up, STR("POST"), STR(PROCESS_START), headers, n,
                  (int64_t)buf_len(&run->request), false, &handler, run);
    send_request(run);
}

struct run *sandbox_run(struct sandbox *sb, const struct run_plan *plan,
                        const struct run_handler *run_handler, void *ctx)
{
    struct run *run = xnew(struct run);
    struct err err;

    *run = (struct run){.sb = sb, .handler = run_handler, .ctx = ctx};
    sandbox_hold(sb);
    buf_init(&run->request, PROCESS_REQUEST_BYTES_MAX);
    buf_init(&run->in, PROCESS_MESSAGE_BYTES_MAX + RUN_WINDOW_BYTES);
    process_event_init(&run->event);
    const struct process_plan asked = {.argv = plan->argv, .cwd = plan->cwd, .env = plan->env};
    int r = process_request(&asked, &run->request, &err);
    if (r == 0 && plan->user) {
        r = process_user(plan->user, run->authorization, &err);
    }
    if (r < 0) {
        finish(run, &(struct run_end){.error = r, .why = &err});
        return NULL;
    }
    run->timeout_ms = plan->timeout_ms;
    if (plan->timeout_ms) {
        (void)snprintf(run->timeout, sizeof(run->timeout), "%lld", (long long)plan->timeout_ms);
        limit_set(run, plan->timeout_ms + RUN_GRACE_MS);
    }
    bool freed = false;
    run->freed = &freed;
    run->dialing = true;
    sandbox_dial(sb, CHANNEL_PORT_CONTROL, on_dialed, run);
    if (freed) {
        return NULL;
    }
    run->freed = NULL;
    return run;
}

void run_leave(struct run *run)
{
    if (!run || run->left) {
        return;
    }
    run->left = true;
    if (!run->dialing && !run->in_call) {
        run_free(run);
    }
}
