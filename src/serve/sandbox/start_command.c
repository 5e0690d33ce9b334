#include "serve/sandbox/start_command.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "serve/sandbox/internal.h"

enum { TAIL_BYTES = 120 }; /* of what a failing command wrote last: it goes into the sentence */

struct start_command {
    struct sandbox *sb; /* counted */
    const struct start_command_handler *handler;
    void *ctx;
    char *start_cmd, *ready_cmd, *user, *cwd;
    json_t *env;
    int64_t deadline_ms, limit_ms, settle_ms;
    struct run *service; /* followed until all is ready */
    struct run *check;
    uv_timer_t defer;      /* the beginning and a failure come from the loop, not from a callback */
    uv_timer_t next_check; /* until the next check, or until it counts as up */
    uv_timer_t limit;      /* of all of it, also when the agent says nothing any more */
    unsigned handles;      /* not closed yet; the last one frees */
    bool freed;
    struct err failed; /* code 0: nothing has */
    char tail[TAIL_BYTES];
};

static void on_closed(uv_handle_t *handle)
{
    struct start_command *start = handle->data;

    if (--start->handles > 0) {
        return;
    }
    sandbox_release(start->sb);
    json_decref(start->env);
    free(start->start_cmd);
    free(start->ready_cmd);
    free(start->user);
    free(start->cwd);
    free(start);
}

void start_command_free(struct start_command *start)
{
    if (!start || start->freed) {
        return;
    }
    start->freed = true;
    run_leave(move_ptr(&start->service));
    run_leave(move_ptr(&start->check));
    uv_close((uv_handle_t *)&start->defer, on_closed);
    uv_close((uv_handle_t *)&start->next_check, on_closed);
    uv_close((uv_handle_t *)&start->limit, on_closed);
}

static void finish(struct start_command *start, int error, const struct err *err)
{
    const struct start_command_handler *handler = start->handler;
    void *ctx = start->ctx;
    struct err why = *err;

    start_command_free(start);
    handler->done(ctx, error, &why);
}

static void finish_late(struct start_command *start)
{
    struct err err;

    (void)err_set(&err, ETIMEDOUT, "the %s command '%.100s' did not succeed within %lld s",
                  start->ready_cmd ? "ready" : "start",
                  start->ready_cmd ? start->ready_cmd : start->start_cmd,
                  (long long)start->limit_ms / 1000);
    finish(start, -ETIMEDOUT, &err);
}

/* The code that the agent runs may have taken it over: it may never report the end of a command. */
static void on_limit(uv_timer_t *timer)
{
    finish_late(timer->data);
}

/* ---- the start command ---- */

/* The last line, without what could end the sentence early. */
static void tail_keep(struct start_command *start, struct str data)
{
    while (data.len && data.at[data.len - 1] == '\n') {
        data.len--;
    }
    for (size_t end; (end = str_find(data, '\n')) < data.len;) {
        data = str_skip(data, end + 1);
    }
    if (data.len >= TAIL_BYTES) {
        data = str_skip(data, data.len - TAIL_BYTES + 1);
    }
    if (data.len) {
        (void)str_copy(start->tail, sizeof(start->tail), data);
    }
}

static void on_output(void *ctx, bool is_stderr, struct str data)
{
    struct start_command *start = ctx;

    tail_keep(start, data);
    if (start->handler->output) {
        start->handler->output(start->ctx, is_stderr, data);
    }
}

static void on_next_check(uv_timer_t *timer);

static void on_failed(uv_timer_t *timer)
{
    struct start_command *start = timer->data;

    finish(start, -start->failed.code, &start->failed);
}

/* A failure is told from the loop: the run that ended is still on the stack. */
static void on_service_ended(void *ctx, const struct run_end *end)
{
    struct start_command *start = ctx;

    start->service = NULL;
    if (end->error < 0) {
        (void)err_set(&start->failed, -end->error, "the start command '%.80s' could not be run: %s",
                      start->start_cmd, end->why->msg);
    } else if (end->exit_code != 0) {
        (void)err_set(&start->failed, ECHILD, "the start command '%.80s' ended with %s%s%s",
                      start->start_cmd, end->status, start->tail[0] ? ": " : "", start->tail);
    }
    if (start->failed.code) {
        run_leave(move_ptr(&start->check));
        (void)uv_timer_stop(&start->next_check);
        (void)uv_timer_start(&start->defer, on_failed, 0, 0);
    }
}

static void on_service_started(void *ctx)
{
    struct start_command *start = ctx;
    int64_t wait_ms = start->ready_cmd ? 0 : start->settle_ms;

    (void)uv_timer_start(&start->next_check, on_next_check, (uint64_t)wait_ms, 0);
}

static void run_service(struct start_command *start)
{
    static const struct run_handler handler = {
        .started = on_service_started, .output = on_output, .ended = on_service_ended};
    const struct run_plan plan = {.argv = RUN_SHELL(start->start_cmd),
                                  .user = start->user,
                                  .cwd = start->cwd,
                                  .env = start->env};

    start->service = sandbox_run(start->sb, &plan, &handler, start);
}

/* ---- the ready command ---- */

static void on_checked(void *ctx, const struct run_end *end)
{
    static const struct err none;
    struct start_command *start = ctx;

    start->check = NULL;
    if (end->error == 0 && end->exit_code == 0) {
        finish(start, 0, &none);
    } else if (clock_mono_ms() + START_POLL_MS >= start->deadline_ms) {
        finish_late(start);
    } else {
        (void)uv_timer_start(&start->next_check, on_next_check, START_POLL_MS, 0);
    }
}

static void run_check(struct start_command *start)
{
    static const struct run_handler handler = {.ended = on_checked};
    int64_t left = start->deadline_ms - clock_mono_ms();
    const struct run_plan plan = {.argv = RUN_SHELL(start->ready_cmd),
                                  .user = start->user,
                                  .cwd = start->cwd,
                                  .env = start->env,
                                  .timeout_ms = left > 1 ? left : 1};

    start->check = sandbox_run(start->sb, &plan, &handler, start);
}

static void on_next_check(uv_timer_t *timer)
{
    static const struct err none;
    struct start_command *start = timer->data;

    if (start->ready_cmd) {
        run_check(start);
    } else {
        finish(start, 0, &none);
    }
}

static void on_begin(uv_timer_t *timer)
{
    struct start_command *start = timer->data;

    if (start->start_cmd) {
        run_service(start);
    } else {
        on_next_check(timer);
    }
}

void start_command_context(struct start_command_plan *plan, const json_t *context)
{
    const char *workdir = json_string_value(json_object_get(context, "workdir"));

    if (context) {
        plan->user = json_string_value(json_object_get(context, "user"));
        plan->cwd = workdir && workdir[0] ? workdir : NULL;
        plan->env = json_object_get(context, "env");
    }
}

static int64_t limit_of(const struct start_command_plan *plan)
{
    return plan->ready_cmd || plan->limit_ms > plan->settle_ms ? plan->limit_ms : plan->settle_ms;
}

struct start_command *start_command_new(struct sandbox *sb, const struct start_command_plan *plan,
                                        const struct start_command_handler *handler, void *ctx)
{
    struct start_command *start = xnew(struct start_command);

    *start = (struct start_command){
        .sb = sb,
        .handler = handler,
        .ctx = ctx,
        .start_cmd = xstrdup(plan->start_cmd),
        .ready_cmd = xstrdup(plan->ready_cmd),
        .user = xstrdup(plan->user),
        .cwd = xstrdup(plan->cwd),
        .env = plan->env ? json_deep_copy(plan->env) : NULL,
        .deadline_ms = clock_mono_ms() + plan->limit_ms,
        .limit_ms = plan->limit_ms,
        .settle_ms = plan->settle_ms,
    };
    sandbox_hold(sb);
    if (uv_timer_init(sb->all->use.loop, &start->defer) < 0 ||
        uv_timer_init(sb->all->use.loop, &start->next_check) < 0 ||
        uv_timer_init(sb->all->use.loop, &start->limit) < 0) {
        abort();
    }
    start->defer.data = start->next_check.data = start->limit.data = start;
    start->handles = 3;
    (void)uv_timer_start(&start->limit, on_limit, (uint64_t)limit_of(plan) + START_GRACE_MS, 0);
    (void)uv_timer_start(&start->defer, on_begin, 0, 0);
    return start;
}
