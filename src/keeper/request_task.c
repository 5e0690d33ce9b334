#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <utlist.h>

#include "keeper/answer.h"
#include "keeper/checkpoint/restore.h"
#include "keeper/internal.h"
#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/fd.h"
#include "lib/base/fdpass.h"
#include "lib/base/log.h"

void request_task_free(struct request_task *task)
{
    DL_DELETE(task->handler->tasks, task);
    task->handler->tasks_n--;
    task_closep(&task->process);
    free(task);
}

const struct request_task *request_task_of(const struct handler *handler, const char *id)
{
    const struct request_task *task;

    DL_FOREACH (handler->tasks, task) {
        if (strcmp(task->req.id, id) == 0) {
            return task;
        }
    }
    return NULL;
}

/* In the new process. */
static void request_task_enter(void *ctx)
{
    struct handler *handler = ((struct request_task *)ctx)->handler;

    handler->shared->task = ((struct request_task *)ctx)->group;
    if (handler_leave(handler) < 0) {
        _exit(1);
    }
}

static int timeout_ms_of(const struct handler *handler, const struct keeper_request *req)
{
    return req->op == KEEPER_PACK ? HANDLE_PACK_TIMEOUT_MS : handler->shared->task_timeout_ms;
}

void request_task_begin(struct handler *handler, uint64_t client, const struct keeper_request *req,
                        task_function *run, bool is_retry)
{
    request_task_begin_with_zygote(handler, client, req, run, is_retry, -1, false);
}

void request_task_begin_with_zygote(struct handler *handler, uint64_t client,
                                    const struct keeper_request *req, task_function *run,
                                    bool is_retry, int zygote, bool lazy)
{
    struct request_task *task = xnew(struct request_task);
    struct err err = {0};
    int r = 0;

    *task = (struct request_task){
        .handler = handler,
        .process = TASK_NONE,
        .deadline_ms = clock_mono_ms() + timeout_ms_of(handler, req),
        .client = client,
        .is_retry = is_retry,
        .lazy = lazy,
        .zygote = zygote,
        .req = *req,
    };
    if (handler->tasks_n >= HANDLE_TASKS_MAX) {
        r = err_set(&err, EAGAIN, "the keeper does %d long pieces of work already",
                    HANDLE_TASKS_MAX);
    } else if (request_task_of(handler, req->id)) {
        r = err_set(&err, EBUSY, "jail %s is just being saved or restored", req->id);
    } else if (workers_have(handler->workers, req->id, 0)) {
        r = err_set(&err, EBUSY, "jail %s is just being started or ended", req->id);
    } else if (req->op == KEEPER_RESTORE) {
        r = restore_mark(handler->shared, req->id, &err);
    }
    const bool marked = r == 0 && req->op == KEEPER_RESTORE;
    DL_APPEND(handler->tasks, task);
    handler->tasks_n++;
    scoped_fd group =
        r < 0 ? r : cgroups_task_make(handler->shared->groups, req->id, task->group, &err);
    r = group;
    if (r >= 0) {
        r = task_start(group, request_task_enter, run, task, &task->process, &err);
    }
    if (r < 0) {
        struct keeper_answer answer = answer_to(req, r, &err);
        if (marked) {
            restore_unmark(handler->shared, req->id);
        }
        handler_answer_plain(handler, client, &answer);
        request_task_free(task);
    }
}

/* After the deadline the process is asked to let go of the jail; after a second one it is killed.
 */
static void request_task_overdue(struct handler *handler, struct request_task *task)
{
    if (clock_mono_ms() < task->deadline_ms) {
        return;
    }
    if (task->overdue) {
        cgroups_task_kill(handler->shared->groups, task->group);
        return;
    }
    log_warn("work on jail %s takes too long: it is given up", task->req.id);
    task->overdue = true;
    task->deadline_ms = clock_mono_ms() + (int64_t)2 * TASK_LEAVE_MS;
    task_leave(&task->process);
}

static bool request_task_take(struct handler *handler, const struct request_task *task,
                              struct task_result *result, int fds[KEEPER_FDS_MAX])
{
    bool reported = task_take(&task->process, result, fds);

    if (!reported) {
        cgroups_task_kill(handler->shared->groups, task->group);
    }
    if (!reported && task->overdue) {
        result->status = err_set(&result->err, ETIMEDOUT, "it took longer than %d s",
                                 timeout_ms_of(handler, &task->req) / 1000);
    }
    return reported;
}

void request_task_step(struct handler *handler, struct request_task *task)
{
    struct pollfd ready = {.fd = task->process.socket, .events = POLLIN};
    const struct request_task was = *task;
    struct task_result result;
    int fds[KEEPER_FDS_MAX];

    if (poll(&ready, 1, 0) != 1) {
        request_task_overdue(handler, task);
        return;
    }
    bool reported = request_task_take(handler, task, &result, fds);
    request_task_free(task);
    cgroups_task_sweep(handler->shared->groups, 0);
    request_task_over(handler, &was, reported, &result, fds);
    fdpass_close(fds, KEEPER_FDS_MAX);
}
