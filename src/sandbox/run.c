/* run.c - process.Process/Start on the agent's control socket, in Connect's JSON.
 *
 *      dial ─► POST, one message ─► [flags, length, message]... ─► the message that ends the stream
 */
#include "sandbox/run.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/channel.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/encode.h"
#include "http/upstream.h"
#include "sandbox/internal.h"

enum {
    FRAME_HEAD_BYTES = 5,
    FRAME_END = 1 << 1, /* flag: the stream's last message */
    USER_BYTES_MAX = 256,
    STATUS_BYTES = 128,
};

struct run {
    struct sandbox *sb; /* counted */
    const struct run_handler *handler;
    void *ctx;
    struct upstream *up;
    struct buf request;
    char authorization[2 * USER_BYTES_MAX];
    char timeout[24];
    int64_t timeout_ms, begun_ms;
    struct buf in; /* what came and is no whole message yet */
    int status;    /* HTTP's; 0: no answer yet */
    bool dialing;
    bool left;    /* nobody listens any more; freed when the dial is answered */
    bool in_call; /* inside one of the handler's: run_leave() frees later */
    bool ended;   /* the process has: `exit_code` and `status_text` are so */
    bool *freed;  /* told so, while sandbox_run() is under way */
    int exit_code;
    char status_text[STATUS_BYTES];
};

static void run_free(struct run *run)
{
    if (run->freed) {
        *run->freed = true;
    }
    upstream_close(run->up);
    sandbox_release(run->sb);
    buf_fini(&run->request);
    buf_fini(&run->in);
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

/* ---- what comes ---- */

static void on_data(struct run *run, const json_t *data)
{
    static const char *const streams[] = {"stdout", "stderr", "pty"};
    scoped_buf plain;

    buf_init(&plain, RUN_MESSAGE_BYTES_MAX);
    for (size_t i = 0; i < countof(streams); i++) {
        const json_t *text = json_object_get(data, streams[i]);
        struct str encoded = {json_string_value(text), json_string_length(text)};

        if (json_is_string(text) && base64_decode(&plain, encoded) == 0 && run->handler->output) {
            run->handler->output(run->ctx, i == 1, buf_str(&plain));
        }
    }
}

static void on_process_end(struct run *run, const json_t *end)
{
    const char *status = json_string_value(json_object_get(end, "status"));

    run->ended = true;
    run->exit_code = (int)json_integer_value(json_object_get(end, "exitCode"));
    (void)snprintf(run->status_text, sizeof(run->status_text), "%s", status ? status : "");
}

static void on_event(struct run *run, const json_t *message)
{
    const json_t *event = json_object_get(message, "event");
    const json_t *data = json_object_get(event, "data");
    const json_t *end = json_object_get(event, "end");

    if (json_object_get(event, "start") && run->handler->started) {
        run->handler->started(run->ctx);
    } else if (data) {
        on_data(run, data);
    } else if (end) {
        on_process_end(run, end);
    }
}

/* The last message: {} or what went wrong. True: the run is dead. */
static bool on_last(struct run *run, const json_t *message)
{
    const json_t *error = json_object_get(message, "error");
    const char *code = json_string_value(json_object_get(error, "code"));
    const char *text = json_string_value(json_object_get(error, "message"));
    bool late = run->timeout_ms && clock_mono_ms() - run->begun_ms >= run->timeout_ms;
    struct err err;

    if (run->ended) {
        finish(run, &(struct run_end){.exit_code = run->exit_code,
                                      .status = run->status_text,
                                      .timed_out = late && run->exit_code != 0});
    } else if (error) {
        (void)err_set(&err, EPROTO, "%s: %s", code ? code : "unknown", text ? text : "");
        finish(run, &(struct run_end){.error = -EPROTO,
                                      .why = &err,
                                      .timed_out = code && strcmp(code, "deadline_exceeded") == 0});
    } else {
        finish_error(run, -EPROTO, "the sandbox's agent ended the stream early");
    }
    return true;
}

/* One whole message, or 0 bytes used. True: the run is dead. */
static bool take_message(struct run *run, size_t *used)
{
    const unsigned char *at = (const unsigned char *)buf_at(&run->in);
    size_t have = buf_len(&run->in);

    *used = 0;
    if (have < FRAME_HEAD_BYTES) {
        return false;
    }
    size_t len = (size_t)at[1] << 24 | (size_t)at[2] << 16 | (size_t)at[3] << 8 | at[4];
    if (len > RUN_MESSAGE_BYTES_MAX) {
        finish_error(run, -EMSGSIZE, "the sandbox's agent sent too long a message");
        return true;
    }
    if (have < FRAME_HEAD_BYTES + len) {
        return false;
    }
    bool last = at[0] & FRAME_END;
    json_t *message = json_loadb((const char *)at + FRAME_HEAD_BYTES, len, 0, NULL);
    *used = FRAME_HEAD_BYTES + len;
    run->in_call = true;
    bool dead = false;
    if (last) {
        dead = on_last(run, message);
    } else {
        on_event(run, message);
    }
    json_decref(message);
    return dead;
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

    while (buf_len(&run->request) > 0) {
        size_t room = upstream_writable(run->up), left = buf_len(&run->request);
        size_t n = left < room ? left : room;
        if (n == 0) {
            return;
        }
        upstream_write(run->up, buf_at(&run->request), n);
        buf_consume(&run->request, n);
        if (buf_len(&run->request) == 0) {
            upstream_finish(run->up);
        }
    }
}

static const struct upstream_handler handler = {
    .on_response = on_response, .on_body = on_body, .on_credit = send_request, .on_end = on_end};

/* ---- what is asked ---- */

static void on_dialed(void *ctx, int fd_or_error)
{
    struct run *run = ctx;
    struct err err;

    run->dialing = false;
    if (run->left) {
        if (fd_or_error >= 0) {
            (void)close(fd_or_error);
        }
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
        {STR("content-type"), STR("application/connect+json")},
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
    upstream_send(run->up, STR("POST"), STR("/process.Process/Start"), headers, n,
                  (int64_t)buf_len(&run->request), false, &handler, run);
    send_request(run);
}

static json_t *request_json(const struct run_plan *plan)
{
    json_t *process = json_pack("{ss}", "cmd", plan->argv[0]);
    json_t *args = json_array();

    if (!process) {
        json_decref(args);
        return NULL; /* a word that is no UTF-8 */
    }
    for (size_t i = 1; plan->argv[i]; i++) {
        (void)json_array_append_new(args, json_string(plan->argv[i]));
    }
    (void)json_object_set_new(process, "args", args);
    if (plan->cwd) {
        (void)json_object_set_new(process, "cwd", json_string(plan->cwd));
    }
    if (plan->env) {
        (void)json_object_set_new(process, "envs", json_deep_copy(plan->env));
    }
    return json_pack("{sosb}", "process", process, "stdin", 0);
}

static int request_write(struct run *run, const struct run_plan *plan, struct err *err)
{
    json_t *request = request_json(plan);
    char *text = request ? json_dumps(request, JSON_COMPACT) : NULL;
    size_t len = text ? strlen(text) : 0;
    const unsigned char head[FRAME_HEAD_BYTES] = {0, (unsigned char)(len >> 24),
                                                  (unsigned char)(len >> 16),
                                                  (unsigned char)(len >> 8), (unsigned char)len};
    int r = 0;

    json_decref(request);
    if (!text || buf_append(&run->request, head, sizeof(head)) < 0 ||
        buf_append(&run->request, text, len) < 0) {
        r = err_set(err, EMSGSIZE, "the command is no text, or longer than %d bytes",
                    RUN_REQUEST_BYTES_MAX);
    }
    free(text);
    return r;
}

static int user_write(struct run *run, const char *user, struct err *err)
{
    scoped_buf text;
    char plain[USER_BYTES_MAX];

    buf_init(&text, sizeof(run->authorization));
    int n = snprintf(plain, sizeof(plain), "%s:", user);
    if (n >= (int)sizeof(plain) || buf_printf(&text, "Basic ") < 0 ||
        base64_encode(&text, plain, (size_t)n, BASE64_STD) < 0 ||
        !str_copy(run->authorization, sizeof(run->authorization), buf_str(&text))) {
        return err_set(err, EINVAL, "the user's name is longer than %d bytes", USER_BYTES_MAX - 2);
    }
    return 0;
}

struct run *sandbox_run(struct sandbox *sb, const struct run_plan *plan,
                        const struct run_handler *run_handler, void *ctx)
{
    struct run *run = xnew(struct run);
    struct err err;

    *run = (struct run){.sb = sb, .handler = run_handler, .ctx = ctx};
    sandbox_hold(sb);
    buf_init(&run->request, RUN_REQUEST_BYTES_MAX);
    buf_init(&run->in, RUN_MESSAGE_BYTES_MAX + RUN_WINDOW_BYTES);
    int r = request_write(run, plan, &err);
    if (r == 0 && plan->user) {
        r = user_write(run, plan->user, &err);
    }
    if (r < 0) {
        finish(run, &(struct run_end){.error = r, .why = &err});
        return NULL;
    }
    run->timeout_ms = plan->timeout_ms;
    if (plan->timeout_ms) {
        (void)snprintf(run->timeout, sizeof(run->timeout), "%lld", (long long)plan->timeout_ms);
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
