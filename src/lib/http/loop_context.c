#include "lib/http/loop_context.h"

#include <assert.h>
#include <utlist.h>

#include "lib/base/alloc.h"
#include "lib/base/busy.h"
#include "lib/base/compiler.h"

static _Thread_local struct loop_context *contexts;

/* Tasks queued by tasks wait for the next round, so that sockets get their turn in between. */
static void tasks_run(struct loop_context *context)
{
    busy("writes of connections");
    for (size_t n = context->tasks_n; n > 0 && context->tasks; n--) {
        struct loop_task *task = context->tasks;
        loop_task_cancel(context, task);
        task->run(task);
    }
    if (!context->tasks && context->refs > 0) {
        uv_idle_stop(&context->idle);
        uv_check_stop(&context->check);
    }
}

static void on_idle(uv_idle_t *idle)
{
    tasks_run(container_of(idle, struct loop_context, idle));
}

static void on_check(uv_check_t *check)
{
    tasks_run(container_of(check, struct loop_context, check));
}

struct loop_context *loop_context_get(uv_loop_t *loop)
{
    struct loop_context *context;

    LL_FOREACH (contexts, context) {
        if (context->loop == loop) {
            context->refs++;
            return context;
        }
    }
    context = xnew(struct loop_context);
    context->loop = loop;
    context->refs = 1;
    context->handles = 2;
    context->read_bytes = xcalloc(1, LOOP_READ_BYTES);
    uv_idle_init(loop, &context->idle);
    uv_check_init(loop, &context->check);
    LL_PREPEND(contexts, context);
    return context;
}

static void handle_closed(uv_handle_t *handle)
{
    struct loop_context *context = handle->data;

    if (--context->handles == 0) {
        free(context->read_bytes);
        free(context->plain_bytes);
        buf_fini(&context->spare);
        free(context);
    }
}

void loop_context_put(struct loop_context *context)
{
    assert(context->refs > 0);
    if (--context->refs > 0) {
        return;
    }
    assert(!context->tasks);
    LL_DELETE(contexts, context);
    context->idle.data = context->check.data = context;
    uv_close((uv_handle_t *)&context->idle, handle_closed);
    uv_close((uv_handle_t *)&context->check, handle_closed);
}

void loop_task_queue(struct loop_context *context, struct loop_task *task)
{
    if (task->queued) {
        return;
    }
    task->queued = true;
    DL_APPEND(context->tasks, task);
    if (context->tasks_n++ == 0) {
        uv_idle_start(&context->idle, on_idle);
        uv_check_start(&context->check, on_check);
    }
}

void loop_task_cancel(struct loop_context *context, struct loop_task *task)
{
    if (!task->queued) {
        return;
    }
    task->queued = false;
    DL_DELETE(context->tasks, task);
    context->tasks_n--;
}

void loop_context_lend(struct loop_context *context, struct buf *out)
{
    size_t max = out->max;

    *out = context->spare;
    out->max = max;
    buf_clear(out);
    context->spare = (struct buf){0};
}

void loop_context_return(struct loop_context *context, struct buf *out)
{
    if (out->cap > context->spare.cap && out->cap <= LOOP_SPARE_BYTES_MAX) {
        struct buf larger = *out;
        *out = context->spare;
        out->max = larger.max;
        context->spare = larger;
    }
    buf_fini(out);
}

char *loop_context_plain(struct loop_context *context)
{
    if (!context->plain_bytes) {
        context->plain_bytes = xcalloc(1, LOOP_PLAIN_BYTES);
    }
    return context->plain_bytes;
}
