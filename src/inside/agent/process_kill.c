/* process_kill.c - a client that kills a process gets its answer when the process is gone: the
 * kernel takes its time. */
#include <stdlib.h>
#include <utlist.h>

#include "inside/agent/process.h"
#include "lib/base/alloc.h"

enum { KILL_ANSWER_MS_MAX = 1000 }; /* one that the kernel cannot end keeps nobody waiting */

struct killing {
    struct process *process;
    struct rpc_call *call;
    uv_timer_t patience;
    struct killing *prev, *next;
};

static void on_closed(uv_handle_t *handle)
{
    free(container_of((uv_timer_t *)handle, struct killing, patience));
}

static void killing_detach(struct killing *killing)
{
    DL_DELETE(killing->process->killings, killing);
    uv_close((uv_handle_t *)&killing->patience, on_closed);
}

static void killing_answer(struct killing *killing)
{
    Process__SendSignalResponse response;

    process__send_signal_response__init(&response);
    rpc_reply(killing->call, &response.base);
    killing_detach(killing);
}

static void on_patience(uv_timer_t *timer)
{
    killing_answer(container_of(timer, struct killing, patience));
}

static void on_gone(void *ctx)
{
    killing_detach(ctx);
}

void killing_await(struct process *p, struct rpc_call *call)
{
    static const struct rpc_watch watch = {.gone = on_gone};
    struct killing *killing = xnew(struct killing);

    *killing = (struct killing){.process = p, .call = call};
    (void)uv_timer_init(p->table->agent->loop, &killing->patience);
    (void)uv_timer_start(&killing->patience, on_patience, KILL_ANSWER_MS_MAX, 0);
    rpc_watch(call, &watch, killing);
    DL_APPEND(p->killings, killing);
}

void killings_end(struct process *p)
{
    while (p->killings) {
        killing_answer(p->killings);
    }
}
