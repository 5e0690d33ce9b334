#include "tools/call.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/alloc.h"
#include "lib/base/encode.h"
#include "lib/base/fiber.h"
#include "lib/base/log.h"
#include "lib/base/shares.h"
#include "lib/http/status.h"
#include "tools/internal.h"
#include "tools/schema.h"
#include "tools/text_forms.h"

/* ---- for handlers ---- */

struct tools *call_tools(const struct tool_call *call)
{
    return call->tools;
}

const char *call_team(const struct tool_call *call)
{
    return call->team;
}

int call_was_cancelled(struct err *err)
{
    return err_set(err, ECANCELED, "the call was cancelled");
}

void call_progress(struct tool_call *call, uint32_t done, uint32_t all, const char *fmt, ...)
{
    char text[TOOLS_TEXT_BYTES];
    va_list ap;

    if (call->abandoned || !call->listener->progress) {
        return;
    }
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    call->listener->progress(call->ctx, done, all, text);
}

/* ---- sleeping ---- */

struct sleeper {
    uv_timer_t timer;
    struct fiber *fiber; /* NULL: it waits no more */
    bool over;
};

static void on_slept(uv_timer_t *timer)
{
    struct sleeper *sleeper = timer->data;

    sleeper->over = true;
    fiber_wake(sleeper->fiber);
}

static void on_sleeper_closed(uv_handle_t *handle)
{
    free(handle->data);
}

int call_sleep(struct tool_call *call, int64_t ms)
{
    struct sleeper *sleeper = xnew(struct sleeper);
    int r = 0;

    sleeper->fiber = fiber_self();
    sleeper->timer.data = sleeper;
    (void)uv_timer_init(call->tools->options.loop, &sleeper->timer);
    (void)uv_timer_start(&sleeper->timer, on_slept, ms > 0 ? (uint64_t)ms : 0, 0);
    while (r == 0 && !sleeper->over) {
        r = fiber_park();
    }
    uv_close((uv_handle_t *)&sleeper->timer, on_sleeper_closed);
    return r;
}

/* ---- asking the API ---- */

int call_errno_of(int status)
{
    return status_to_errno(STATUS_TOOLS, status);
}

int call_status_of(int error)
{
    return status_of_errno(STATUS_TOOLS, error);
}

/* The API's own sentence. */
static int api_refused(int status, struct str text, struct err *err)
{
    scoped_json *body = json_loadb(text.at ? text.at : "", text.len, 0, NULL);
    const char *message = json_string_of(body, "message");

    return err_set(err, -call_errno_of(status), "%s", message ? message : http_reason(status));
}

static int api_answer(struct ask *ask, size_t bytes_max, json_t **answer, struct err *err)
{
    scoped_buf(text, bytes_max);

    int r = ask_gather(ask, &text, err);
    if (r < 0) {
        return r;
    }
    if (ask_status(ask) / 100 != 2) {
        return api_refused(ask_status(ask), buf_str(&text), err);
    }
    if (answer) {
        *answer = buf_len(&text) ? json_loadb(buf_at(&text), buf_len(&text), 0, NULL) : NULL;
    }
    return 0;
}

static int api_ask(struct tool_call *call, const char *method, const char *target,
                   const json_t *body, struct ask **out, struct err *err)
{
    const struct http_header headers[] = {
        {STR("x-api-key"), str_of(call->key)},
        {STR("content-type"), STR("application/json")},
    };
    scoped_text text = body ? json_dumps(body, JSON_COMPACT) : NULL;
    const struct ask_plan plan = {.method = method,
                                  .target = target,
                                  .headers = headers,
                                  .headers_n = text ? 2 : 1,
                                  .body = str_of(text)};

    return ask_open(call->tools, &plan, out, err);
}

int call_api(struct tool_call *call, const char *method, const char *target, const json_t *body,
             json_t **answer, struct err *err)
{
    scoped_ask *ask = NULL;

    int r = api_ask(call, method, target, body, &ask, err);
    return r == 0 ? api_answer(ask, CLIENT_ANSWER_BYTES_MAX, answer, err) : r;
}

/* A fault of the daemon is reported as one of ours, not of the sandbox. */
int call_internal(struct tool_call *call, const char *method, const char *target,
                  const json_t *body, json_t **answer, struct err *err)
{
    scoped_ask *ask = NULL;

    int r = api_ask(call, method, target, body, &ask, err);
    r = r == 0 ? api_answer(ask, CLIENT_INTERNAL_BYTES_MAX, answer, err) : r;
    return ask && ask_status(ask) == 500 && r == -EIO ? -EPROTO : r;
}

/* 1: there are more, and *target is where. */
static int list_page(struct tool_call *call, const char *first, struct buf *target, json_t *all,
                     struct err *err)
{
    scoped_ask *ask = NULL;
    scoped_json *page = NULL;

    int r = api_ask(call, "GET", buf_at(target), NULL, &ask, err);
    r = r == 0 ? api_answer(ask, CLIENT_ANSWER_BYTES_MAX, &page, err) : r;
    if (r < 0) {
        return r;
    }
    (void)json_array_extend(all, page);
    buf_clear(target);
    if (!ask_next(ask)[0] || json_array_size(page) == 0) {
        return 0;
    }
    if (buf_printf(target, "%s&nextToken=", first) < 0 ||
        percent_encode(target, str_of(ask_next(ask))) < 0 || buf_append(target, "", 1) < 0) {
        return err_set(err, EINVAL, "the question is too long");
    }
    return 1;
}

int call_api_list(struct tool_call *call, const char *target, size_t most, json_t **answer,
                  struct err *err)
{
    scoped_json *all = json_array();
    scoped_buf(next, HTTP_TARGET_BYTES_MAX);

    int r = buf_append(&next, target, strlen(target) + 1) < 0
                ? err_set(err, EINVAL, "the question is too long")
                : 1;
    while (r > 0 && json_array_size(all) < most) {
        r = list_page(call, target, &next, all, err);
    }
    if (r >= 0) {
        *answer = move_ptr(&all);
    }
    return r < 0 ? r : 0;
}

/* ---- its life ---- */

static void on_call_closed(uv_handle_t *handle)
{
    struct tool_call *call = handle->data;

    json_decref(call->input);
    free(call);
}

static void call_unlink(struct tool_call *call)
{
    struct tools *tools = call->tools;

    if (call->prev) {
        call->prev->next = call->next;
    } else {
        tools->calls = call->next;
    }
    if (call->next) {
        call->next->prev = call->prev;
    }
    tools->calls_n--;
}

static void call_end(struct tool_call *call, int error, json_t *out, const struct err *err)
{
    if (!call->abandoned) {
        call->listener->done(call->ctx, error, out, err);
    }
    json_decref(out);
    call_unlink(call);
    uv_close((uv_handle_t *)&call->begin, on_call_closed);
    tools_call_ended(call->tools);
}

/* An answer that does not match the declared schema is a fault of ours: clients that check it would
 * refuse it with errors that nobody understands. */
static int output_check(const struct tool_call *call, json_t *out, struct err *err)
{
    if (!call->tool) {
        return 0;
    }
    int r = schema_check(tools_output(call->tools, call->tool), out, err);
    if (r < 0) {
        log_error("%s answered what it has not declared: %s", call->tool->name, err->msg);
        return err_set(err, EPROTO, "%s answered what it has not declared", call->tool->name);
    }
    return 0;
}

/* For the audit log: which tool was called, and what came of it. The API records the calls that the
 * tool made itself. A call that was cancelled cannot ask any more, and is not told of. */
static void call_report(struct tool_call *call, int error, const struct err *why)
{
    const char *sandbox = json_string_of(call->input, "sandbox_id");
    struct err err;

    if (!call->tool || call->cancelled) {
        return;
    }
    scoped_json *body = json_pack("{s:s, s:s}", "name", call->tool->name, "sandbox",
                                  sandbox && strlen(sandbox) < ID_UUID_LEN ? sandbox : "");
    if (body && error < 0) {
        (void)json_object_set_new(body, "status", json_integer(call_status_of(error)));
        (void)json_object_set_new(body, "error", json_sentence(why->msg));
    }
    if (call_internal(call, "POST", "/internal/tool-calls", body, NULL, &err) < 0) {
        log_warn("%s is missing in the audit log: %s", call->tool->name, err.msg);
    }
}

static void call_main(void *arg)
{
    struct tool_call *call = arg;
    struct err err = {0};
    json_t *out = NULL;

    call->fiber = fiber_self();
    int r = call->run(call, call->input, &out, &err);
    call_report(call, r, &err);
    call->fiber = NULL;
    if (r >= 0) {
        r = output_check(call, out, &err);
    }
    call_end(call, r < 0 ? r : 0, out, &err);
}

static void on_begin(uv_timer_t *timer)
{
    struct tool_call *call = timer->data;
    struct err err;

    if (call->cancelled) {
        call_end(call, call_was_cancelled(&err), NULL, &err);
    } else if (!fiber_start(call_main, call)) {
        call_end(call, err_set(&err, EBUSY, "too much is under way: try again later"), NULL, &err);
    }
}

static int call_admit(const struct tools *tools, const char *team, struct err *err)
{
    size_t of_team = 0;

    for (const struct tool_call *call = tools->calls; call; call = call->next) {
        of_team += strcmp(call->team, team) == 0;
    }
    if (tools->stopping) {
        return err_set(err, EAGAIN, "the daemon is stopping");
    }
    size_t left = tools->calls_n < TOOLS_CALLS_MAX ? TOOLS_CALLS_MAX - tools->calls_n : 0;
    if (of_team >= TOOLS_CALLS_PER_TEAM_MAX || of_team >= SHARES_WEIGHT * left) {
        return err_set(err, EBUSY, "%zu tool calls are under way already: try again later",
                       of_team > 0 ? of_team : tools->calls_n);
    }
    return 0;
}

static struct tool_call *call_new(struct tools *tools, const struct tools_who *who, json_t *input)
{
    struct tool_call *call = xnew(struct tool_call);

    call->tools = tools;
    call->input = input;
    (void)snprintf(call->team, sizeof(call->team), "%s", who->team);
    (void)str_copy(call->key, sizeof(call->key), who->key);
    call->begin.data = call;
    (void)uv_timer_init(tools->options.loop, &call->begin);
    (void)uv_timer_start(&call->begin, on_begin, 0, 0);
    call->next = tools->calls;
    if (call->next) {
        call->next->prev = call;
    }
    tools->calls = call;
    tools->calls_n++;
    return call;
}

int call_start_run(struct tools *tools, tool_run *run, const struct tools_who *who, json_t *input,
                   const struct call_listener *listener, void *ctx, struct tool_call **out,
                   struct err *err)
{
    int r = call_admit(tools, who->team, err);

    if (r < 0) {
        json_decref(input);
        return r;
    }
    struct tool_call *call = call_new(tools, who, input);
    call->run = run;
    call->listener = listener;
    call->ctx = ctx;
    *out = call;
    return 0;
}

int call_start(struct tools *tools, const struct tool *tool, const struct tools_who *who,
               json_t *input, const struct call_listener *listener, void *ctx,
               struct tool_call **out, struct err *err)
{
    int r = input_take(tools_input(tools, tool), input, err);

    if (r < 0) {
        json_decref(input);
        return r;
    }
    r = call_start_run(tools, tool->run, who, input, listener, ctx, out, err);
    if (r == 0) {
        (*out)->tool = tool;
    }
    return r;
}

void call_cancel(struct tool_call *call)
{
    call->cancelled = true;
    if (call->fiber) {
        fiber_cancel(call->fiber);
    }
}

void call_abandon(struct tool_call *call)
{
    call->abandoned = true;
    call_cancel(call);
}
