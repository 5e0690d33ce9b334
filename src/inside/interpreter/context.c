#include "inside/interpreter/context.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <utlist.h>

#include "inside/interpreter/json_read.h"
#include "inside/interpreter/kernel.h"
#include "inside/interpreter/memory.h"
#include "inside/interpreter/result.h"
#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"

enum {
    WHY_BYTES_MAX = 512,
    LIVED_MS_MIN = 1000, /* a kernel that was ready for less is not started again by itself */
};

enum context_state {
    CONTEXT_DOWN,     /* no kernel; one is started when it is needed */
    CONTEXT_STARTING, /* the kernel is not ready yet */
    CONTEXT_IDLE,
    CONTEXT_ASKING,  /* `current` waits for the sandbox's variables */
    CONTEXT_RUNNING, /* the kernel is at work, for `current` or for nobody any more */
};

struct waiter {
    void (*done)(void *ctx, const char *why);
    void *ctx;
    struct waiter *next;
};

struct context {
    uv_loop_t *loop;
    struct sandbox_env *sandbox_env;
    struct spec *spec;
    char id[ID_UUID_LEN + 1];
    char language[SPEC_NAME_LEN_MAX + 1];
    char *cwd;
    const char *run_dir;
    int start_s_max;
    struct kernel *kernel;
    enum context_state state;
    struct execution *queue;
    size_t queued;
    struct execution *current;
    struct waiter *waiters;
    struct err start_err; /* of a start that failed at once */
    uv_timer_t timer;     /* of a start, or of an interrupt */
    uint64_t boot;        /* in which the kernel last drew randomness */
    uint64_t generation;  /* of the variables that the kernel has */
    uint64_t oom_kills;   /* seen when the run began */
    int64_t since_ms;     /* at work, or left by its client */
    int64_t ready_ms;
    bool was_ready;
    bool state_lost; /* the kernel was ended while nobody watched: the next cell is told */
};

static void start(struct context *c);
static void start_limit(struct context *c);
static void next(struct context *c);

/* ---- lines to the client ---- */

static void waiters_tell(struct context *c, const char *why)
{
    struct waiter *waiters = move_ptr(&c->waiters);

    while (waiters) {
        struct waiter *waiter = waiters;
        waiters = waiter->next;
        waiter->done(waiter->ctx, why);
        free(waiter);
    }
}

static struct execution *queue_take(struct context *c)
{
    struct execution *e = c->queue;

    if (e) {
        DL_DELETE(c->queue, e);
        c->queued--;
    }
    return e;
}

static void current_end(struct context *c, const char *name, const char *why, struct str last)
{
    struct execution *e = move_ptr(&c->current);

    if (e) {
        execution_error(e, name, why, last);
        execution_end(e);
    }
}

static void queue_end(struct context *c, const char *name, const char *why, struct str last)
{
    struct execution *e;

    while ((e = queue_take(c))) {
        execution_error(e, name, why, last);
        execution_end(e);
    }
}

/* Why a kernel ended, in words; "" when it just ended well. */
static void end_describe(const struct context *c, const struct kernel_end *end,
                         char out[WHY_BYTES_MAX])
{
    uint64_t oom_kills = memory_oom_kills();

    if (end->signal == SIGKILL && oom_kills > c->oom_kills) {
        (void)snprintf(out, WHY_BYTES_MAX,
                       "The %s kernel ran out of memory and was killed by the system", c->language);
    } else if (end->signal) {
        (void)snprintf(out, WHY_BYTES_MAX, "The %s kernel was ended by signal %d (%s)", c->language,
                       end->signal, strsignal(end->signal));
    } else {
        (void)snprintf(out, WHY_BYTES_MAX, "The %s kernel exited with status %lld", c->language,
                       (long long)end->status);
    }
}

/* ---- the kernel's events ---- */

static void on_ready(void *ctx)
{
    struct context *c = ctx;

    (void)uv_timer_stop(&c->timer);
    c->state = CONTEXT_IDLE;
    c->was_ready = true;
    c->ready_ms = clock_mono_ms();
    waiters_tell(c, NULL);
    next(c);
}

/* A kernel that drops output that nobody takes is still read; execution.h bounds how much is
 * kept. */
static void line_tell(struct context *c, json_t *line)
{
    if (!c->current) {
        json_decref(line);
        return;
    }
    execution_line(c->current, line);
    if (c->spec->waits && execution_is_full(c->current)) {
        kernel_flow(c->kernel, false);
    }
}

static void on_count(void *ctx, int64_t count)
{
    line_tell(ctx, json_pack("{s:s, s:I}", "type", "number_of_executions", "execution_count",
                             (json_int_t)count));
}

static void on_text(void *ctx, bool is_error, struct str text, const char *stamp)
{
    line_tell(ctx, text_make(is_error, text, stamp));
}

static void on_result(void *ctx, json_t *bundle, bool is_main)
{
    line_tell(ctx, result_make(bundle, is_main));
}

static void on_error(void *ctx, struct str name, struct str value, struct str traceback)
{
    line_tell(ctx, error_make(name, value, traceback));
}

static void on_done(void *ctx)
{
    struct context *c = ctx;
    struct execution *e = move_ptr(&c->current);

    (void)uv_timer_stop(&c->timer);
    kernel_flow(c->kernel, true);
    c->state = CONTEXT_IDLE;
    if (e) {
        execution_end(e);
    }
    next(c);
}

static void kernel_drop(struct context *c)
{
    (void)uv_timer_stop(&c->timer);
    kernel_free(c->kernel);
    c->kernel = NULL;
    c->generation = c->boot = 0;
    c->state = CONTEXT_DOWN;
}

/* The kernel never came up: all that wait for it get an error. */
static void start_failed(struct context *c, const char *why, struct str last)
{
    log_warn("context %s: %s", c->id, why);
    queue_end(c, "KernelStartFailed", why, last);
    kernel_drop(c);
    waiters_tell(c, why);
}

static void on_kernel_exit(void *ctx, const struct kernel_end *end)
{
    struct context *c = ctx;
    char why[WHY_BYTES_MAX];
    bool stays_down = c->state == CONTEXT_IDLE && clock_mono_ms() - c->ready_ms < LIVED_MS_MIN;

    end_describe(c, end, why);
    if (c->state == CONTEXT_STARTING) {
        start_failed(c, why, end->last);
        return;
    }
    log_info("context %s: %s", c->id, why);
    c->state_lost = c->state_lost || (c->state == CONTEXT_RUNNING && !c->current);
    if (c->current) {
        size_t len = strlen(why);
        (void)snprintf(why + len, sizeof(why) - len, " and is started again without its variables");
        current_end(c, "ContextRestarting", why, end->last);
    }
    kernel_drop(c);
    if (!stays_down || c->queue) {
        start(c);
    }
}

static const struct kernel_events events = {
    .on_ready = on_ready,
    .on_count = on_count,
    .on_text = on_text,
    .on_result = on_result,
    .on_error = on_error,
    .on_done = on_done,
    .on_exit = on_kernel_exit,
};

/* ---- the kernel's life ---- */

static bool is_awaited(const struct context *c)
{
    return c->queue || c->waiters;
}

/* A start without a waiting client has no time limit: the machine may be slow, and would be as slow
 * with the next. */
static void on_start_late(uv_timer_t *timer)
{
    struct context *c = container_of(timer, struct context, timer);
    char why[WHY_BYTES_MAX];

    (void)snprintf(why, sizeof(why), "The %s kernel was not ready after %d s", c->language,
                   c->start_s_max);
    if (!is_awaited(c)) {
        log_info("context %s: %s; no client waits for it, so it has more time", c->id, why);
        start_limit(c);
        return;
    }
    start_failed(c, why, STR(""));
}

static void start_limit(struct context *c)
{
    (void)uv_timer_start(&c->timer, on_start_late, (uint64_t)c->start_s_max * 1000, 0);
}

/* A failure is reported from the loop, like every other event. */
static void on_start_failed(uv_timer_t *timer)
{
    struct context *c = container_of(timer, struct context, timer);
    char why[WHY_BYTES_MAX];

    (void)snprintf(why, sizeof(why), "The %s kernel could not be started: %s", c->language,
                   c->start_err.msg);
    start_failed(c, why, STR(""));
}

static void start(struct context *c)
{
    struct kernel_options options = {
        .loop = c->loop,
        .spec = c->spec,
        .cwd = c->cwd,
        .run_dir = c->run_dir,
        .events = &events,
        .ctx = c,
    };

    c->state = CONTEXT_STARTING;
    if (kernel_start(&options, &c->kernel, &c->start_err) < 0) {
        (void)uv_timer_start(&c->timer, on_start_failed, 0, 0);
    } else {
        start_limit(c);
    }
}

/* ---- runs ---- */

static void run(struct context *c)
{
    struct execution *e = c->current;
    bool is_new = c->generation != sandbox_env_generation(c->sandbox_env);
    struct kernel_run run = {
        .code = e->code,
        .lasting = is_new ? sandbox_env_envs(c->sandbox_env) : NULL,
        .env = e->env,
        .fresh = c->boot != sandbox_env_boots(c->sandbox_env),
    };

    c->state = CONTEXT_RUNNING;
    c->since_ms = clock_mono_ms();
    c->generation = sandbox_env_generation(c->sandbox_env);
    c->boot = sandbox_env_boots(c->sandbox_env);
    c->oom_kills = memory_oom_kills();
    if (c->state_lost) {
        c->state_lost = false;
        line_tell(c, text_make(true,
                               STR("The cell before did not stop when its client left: the "
                                   "kernel was started again without its variables.\n"),
                               NULL));
    }
    kernel_run(c->kernel, &run);
}

static void next(struct context *c)
{
    if (c->state == CONTEXT_DOWN && c->queue) {
        start(c);
    }
    if (c->state != CONTEXT_IDLE || !c->queue) {
        return;
    }
    c->current = queue_take(c);
    c->state = CONTEXT_ASKING;
    if (sandbox_env_ask(c->sandbox_env, execution_token(c->current))) {
        run(c);
    }
}

void context_env_known(struct context *c)
{
    if (c->state != CONTEXT_ASKING) {
        return;
    }
    if (c->current) {
        run(c);
    } else {
        c->state = CONTEXT_IDLE;
        next(c);
    }
}

bool context_is_full(const struct context *c)
{
    return c->queued >= CONTEXT_QUEUE_MAX;
}

void context_submit(struct context *c, struct execution *e)
{
    if (c->state == CONTEXT_STARTING && c->kernel && !is_awaited(c)) {
        start_limit(c);
    }
    e->context = c;
    DL_APPEND(c->queue, e);
    c->queued++;
    next(c);
}

void context_credit(struct context *c, struct execution *e)
{
    if (c->current == e && c->kernel) {
        kernel_flow(c->kernel, true);
    }
}

/* ---- interrupts ---- */

static void on_still_running(uv_timer_t *timer)
{
    struct context *c = container_of(timer, struct context, timer);

    if (c->queue && clock_mono_ms() - c->since_ms >= INTERRUPT_MS_MAX) {
        log_warn("context %s: the cell does not stop; its kernel is started again", c->id);
        kernel_drop(c);
        c->state_lost = true;
        start(c);
    } else {
        kernel_interrupt(c->kernel);
    }
}

void context_leave(struct context *c, struct execution *e)
{
    e->context = NULL;
    if (c->current != e) {
        DL_DELETE(c->queue, e);
        c->queued--;
        return;
    }
    c->current = NULL;
    if (c->state == CONTEXT_RUNNING) {
        int64_t now = clock_mono_ms();
        int64_t wait = c->since_ms + INTERRUPT_AFTER_MS - now;
        c->since_ms = now;
        kernel_flow(c->kernel, true);
        (void)uv_timer_start(&c->timer, on_still_running, (uint64_t)(wait > 0 ? wait : 0),
                             INTERRUPT_AGAIN_MS);
    }
}

/* ---- the context's life ---- */

struct context *context_new(const struct context_options *options)
{
    struct context *c = xnew(struct context);

    *c = (struct context){
        .loop = options->loop,
        .sandbox_env = options->sandbox_env,
        .spec = options->spec,
        .cwd = xstrdup(options->cwd),
        .run_dir = options->run_dir,
        .start_s_max = options->start_s_max,
    };
    id_uuid(c->id);
    (void)str_copy(c->language, sizeof(c->language), str_of(options->language));
    (void)uv_timer_init(c->loop, &c->timer);
    start(c);
    return c;
}

const char *context_id(const struct context *c)
{
    return c->id;
}

const char *context_language(const struct context *c)
{
    return c->language;
}

const char *context_cwd(const struct context *c)
{
    return c->cwd;
}

bool context_has_env(const struct context *c)
{
    return kernel_has_env(c->spec);
}

bool context_was_ready(const struct context *c)
{
    return c->was_ready;
}

void context_restart(struct context *c)
{
    current_end(c, "ContextRestarting", "Context was restarted", STR(""));
    waiters_tell(c, "The context was restarted again");
    kernel_drop(c);
    c->state_lost = false;
    start(c);
}

void context_when_ready(struct context *c, void (*done)(void *ctx, const char *why), void *ctx)
{
    struct waiter *waiter = xnew(struct waiter);

    *waiter = (struct waiter){.done = done, .ctx = ctx, .next = c->waiters};
    c->waiters = waiter;
}

static void on_closed(uv_handle_t *handle)
{
    struct context *c = container_of((uv_timer_t *)handle, struct context, timer);

    spec_free(c->spec);
    free(c->cwd);
    free(c);
}

void context_free(struct context *c)
{
    static const char gone[] =
        "Connection to the execution was closed before the execution was finished";

    current_end(c, "UnexpectedEndOfExecution", gone, STR(""));
    queue_end(c, "UnexpectedEndOfExecution", gone, STR(""));
    waiters_tell(c, "The context was removed");
    kernel_drop(c);
    uv_close((uv_handle_t *)&c->timer, on_closed);
}
