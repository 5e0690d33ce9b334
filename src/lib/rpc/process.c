#include "lib/rpc/process.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/encode.h"
#include "lib/base/json_text.h"

/* ---- what is asked ---- */

static json_t *request_json(const struct process_plan *plan)
{
    json_t *process = json_pack("{ss}", "cmd", plan->argv[0]);
    json_t *args = json_array();

    if (!process) {
        json_decref(args);
        return NULL; /* a word that is no UTF-8 */
    }
    for (size_t i = 1; plan->argv[i]; i++) {
        if (json_array_append_new(args, json_string(plan->argv[i])) < 0) {
            json_decref(args);
            json_decref(process);
            return NULL;
        }
    }
    (void)json_object_set_new(process, "args", args);
    if (plan->cwd) {
        (void)json_object_set_new(process, "cwd", json_string(plan->cwd));
    }
    if (plan->env) {
        (void)json_object_set_new(process, "envs", json_deep_copy(plan->env));
    }
    json_t *request = json_pack("{sosb}", "process", process, "stdin", plan->takes_input);
    if (plan->tag) {
        (void)json_object_set_new(request, "tag", json_string(plan->tag));
    }
    if (plan->cols > 0) {
        (void)json_object_set_new(
            request, "pty",
            json_pack("{s{sisi}}", "size", "cols", (int)plan->cols, "rows", (int)plan->rows));
    }
    return request;
}

/* Takes the request over. */
static int request_frame(json_t *request, struct buf *out, struct err *err)
{
    char *text = request ? json_dumps(request, JSON_COMPACT) : NULL;
    size_t len = text ? strlen(text) : 0;
    char head[FRAME_HEAD_BYTES];
    int r = 0;

    json_decref(request);
    frame_head(head, 0, len);
    if (!text || buf_append(out, head, sizeof(head)) < 0 || buf_append(out, text, len) < 0) {
        r = err_set(err, EMSGSIZE, "the command is no text, or longer than %zu bytes", out->max);
    }
    free(text);
    return r;
}

int process_request(const struct process_plan *plan, struct buf *out, struct err *err)
{
    return request_frame(request_json(plan), out, err);
}

int process_request_connect(uint32_t pid, struct buf *out, struct err *err)
{
    return request_frame(json_pack("{s{sI}}", "process", "pid", (json_int_t)pid), out, err);
}

int process_user(const char *user, char out[PROCESS_USER_BYTES], struct err *err)
{
    scoped_buf(text, PROCESS_USER_BYTES);
    char plain[PROCESS_USER_BYTES / 2];

    int n = snprintf(plain, sizeof(plain), "%s:", user);
    if (n >= (int)sizeof(plain) || buf_printf(&text, "Basic ") < 0 ||
        base64_encode(&text, plain, (size_t)n, BASE64_STD) < 0 ||
        !str_copy(out, PROCESS_USER_BYTES, buf_str(&text))) {
        return err_set(err, EINVAL, "the user's name is longer than %zu bytes", sizeof(plain) - 2);
    }
    return 0;
}

/* ---- what comes ---- */

void process_event_init(struct process_event *event)
{
    *event = (struct process_event){0};
    buf_init(&event->data, PROCESS_MESSAGE_BYTES_MAX);
}

void process_event_fini(struct process_event *event)
{
    buf_fini(&event->data);
}

static void take_output(const json_t *data, struct process_event *out)
{
    static const char *const streams[] = {"stdout", "stderr", "pty"};

    for (size_t i = 0; i < countof(streams); i++) {
        const json_t *text = json_object_get(data, streams[i]);
        struct str encoded = {json_string_value(text), json_string_length(text)};

        if (json_is_string(text) && base64_decode(&out->data, encoded) == 0) {
            out->news = PROCESS_OUTPUT;
            out->is_stderr = i == 1;
        }
    }
}

static void take_end(const json_t *end, struct process_event *out)
{
    const char *status = json_string_value(json_object_get(end, "status"));

    out->news = PROCESS_ENDED;
    out->exit_code = (int)json_integer_value(json_object_get(end, "exitCode"));
    (void)snprintf(out->status, sizeof(out->status), "%s", status ? status : "");
}

/* {} or what went wrong. */
static void take_last(const json_t *message, struct process_event *out)
{
    const json_t *error = json_object_get(message, "error");
    const char *code = json_string_value(json_object_get(error, "code"));
    const char *text = json_string_value(json_object_get(error, "message"));

    out->news = PROCESS_LAST;
    if (error) {
        bool ours = code && strcmp(code, "invalid_argument") == 0;

        (void)err_set(&out->why, ours ? EINVAL : EPROTO, "%s",
                      text && text[0] ? text
                      : code          ? code
                                      : "the sandbox gave no reason");
        (void)snprintf(out->kind, sizeof(out->kind), "%s", code ? code : "unknown");
        out->late = code && strcmp(code, "deadline_exceeded") == 0;
    }
}

/* NULL for what is no message of an agent's. A megabyte of brackets would take a hundred of memory,
 * and the loop's time. */
static json_t *message_parse(struct str text)
{
    return json_text_values(text) > PROCESS_VALUES_MAX ? NULL
                                                       : json_loadb(text.at, text.len, 0, NULL);
}

void process_event(const struct frame *frame, struct process_event *out)
{
    json_t *message = message_parse(frame->message);
    const json_t *event = json_object_get(message, "event");
    const json_t *start = json_object_get(event, "start");
    const json_t *data = json_object_get(event, "data");
    const json_t *end = json_object_get(event, "end");

    out->news = PROCESS_NOTHING;
    out->late = false;
    out->why.code = 0;
    buf_clear(&out->data);
    if (frame->flags & FRAME_END) {
        take_last(message, out);
    } else if (start) {
        out->news = PROCESS_STARTED;
        out->pid = (uint32_t)json_integer_value(json_object_get(start, "pid"));
    } else if (data) {
        take_output(data, out);
    } else if (end) {
        take_end(end, out);
    }
    json_decref(message);
}
