#include "lib/http/hub.h"

#include <assert.h>
#include <utlist.h>

#include "lib/base/alloc.h"
#include "lib/base/busy.h"
#include "lib/base/compiler.h"

static _Thread_local struct hub *hubs;

/* Tasks queued by tasks wait for the next round, so that sockets get their turn in between. */
static void hub_run(struct hub *hub)
{
    busy("what connections send in this turn");
    for (size_t n = hub->tasks_n; n > 0 && hub->tasks; n--) {
        struct hub_task *task = hub->tasks;
        hub_cancel(hub, task);
        task->run(task);
    }
    if (!hub->tasks && hub->refs > 0) {
        uv_idle_stop(&hub->idle);
        uv_check_stop(&hub->check);
    }
}

static void on_idle(uv_idle_t *idle)
{
    hub_run(container_of(idle, struct hub, idle));
}

static void on_check(uv_check_t *check)
{
    hub_run(container_of(check, struct hub, check));
}

struct hub *hub_get(uv_loop_t *loop)
{
    struct hub *hub;

    LL_FOREACH (hubs, hub) {
        if (hub->loop == loop) {
            hub->refs++;
            return hub;
        }
    }
    hub = xnew(struct hub);
    hub->loop = loop;
    hub->refs = 1;
    hub->handles = 2;
    hub->read_bytes = xcalloc(1, HUB_READ_BYTES);
    uv_idle_init(loop, &hub->idle);
    uv_check_init(loop, &hub->check);
    LL_PREPEND(hubs, hub);
    return hub;
}

static void handle_closed(uv_handle_t *handle)
{
    struct hub *hub = handle->data;

    if (--hub->handles == 0) {
        free(hub->read_bytes);
        free(hub->plain_bytes);
        free(hub);
    }
}

void hub_put(struct hub *hub)
{
    assert(hub->refs > 0);
    if (--hub->refs > 0) {
        return;
    }
    assert(!hub->tasks);
    LL_DELETE(hubs, hub);
    hub->idle.data = hub->check.data = hub;
    uv_close((uv_handle_t *)&hub->idle, handle_closed);
    uv_close((uv_handle_t *)&hub->check, handle_closed);
}

void hub_queue(struct hub *hub, struct hub_task *task)
{
    if (task->queued) {
        return;
    }
    task->queued = true;
    DL_APPEND(hub->tasks, task);
    if (hub->tasks_n++ == 0) {
        uv_idle_start(&hub->idle, on_idle);
        uv_check_start(&hub->check, on_check);
    }
}

void hub_cancel(struct hub *hub, struct hub_task *task)
{
    if (!task->queued) {
        return;
    }
    task->queued = false;
    DL_DELETE(hub->tasks, task);
    hub->tasks_n--;
}

char *hub_plain(struct hub *hub)
{
    if (!hub->plain_bytes) {
        hub->plain_bytes = xcalloc(1, HUB_PLAIN_BYTES);
    }
    return hub->plain_bytes;
}
