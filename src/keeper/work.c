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

void work_free(struct work *work)
{
    DL_DELETE(work->handler->works, work);
    work->handler->works_n--;
    task_closep(&work->task);
    free(work);
}

const struct work *work_of(const struct handler *handler, const char *id)
{
    const struct work *work;

    DL_FOREACH (handler->works, work) {
        if (strcmp(work->req.id, id) == 0) {
            return work;
        }
    }
    return NULL;
}

/* In the new process: closes the keeper's descriptors, so that those which others poll close when
 * the keeper ends. */
static void work_enter(void *ctx)
{
    struct handler *handler = ((struct work *)ctx)->handler;
    struct ending *ending;
    struct work *work;
    struct err err;

    handler->child(handler->ctx);
    DL_FOREACH (handler->endings, ending) {
        fd_closep(&ending->events_fd);
    }
    DL_FOREACH (handler->works, work) {
        task_closep(&work->task);
    }
    startings_leave(&handler->startings);
    handler->shared->task = ((struct work *)ctx)->group;
    if (pool_unlock_child(handler->shared->pool, &err) < 0) {
        log_error("%s", err.msg);
        _exit(1);
    }
}

static int timeout_ms_of(const struct handler *handler, const struct keeper_request *req)
{
    return req->op == KEEPER_PACK ? HANDLE_PACK_TIMEOUT_MS : handler->shared->work_timeout_ms;
}

void work_begin(struct handler *handler, uint64_t client, const struct keeper_request *req,
                task_work *run, bool is_retry)
{
    struct work *work = xnew(struct work);
    struct err err = {0};
    int r = 0;

    *work = (struct work){
        .handler = handler,
        .task = TASK_NONE,
        .deadline_ms = clock_mono_ms() + timeout_ms_of(handler, req),
        .client = client,
        .is_retry = is_retry,
        .req = *req,
    };
    if (handler->works_n >= HANDLE_WORKS_MAX) {
        r = err_set(&err, EAGAIN, "the keeper does %d long pieces of work already",
                    HANDLE_WORKS_MAX);
    } else if (work_of(handler, req->id)) {
        r = err_set(&err, EBUSY, "jail %s is just being saved or restored", req->id);
    } else if (req->op == KEEPER_RESTORE) {
        r = restore_mark(handler->shared, req->id, &err);
    }
    const bool marked = r == 0 && req->op == KEEPER_RESTORE;
    DL_APPEND(handler->works, work);
    handler->works_n++;
    scoped_fd group =
        r < 0 ? r : cgroups_task_make(handler->shared->groups, req->id, work->group, &err);
    r = group;
    if (r >= 0) {
        r = task_start(group, work_enter, run, work, &work->task, &err);
    }
    if (r < 0) {
        struct keeper_answer answer = answer_to(req, r, &err);
        if (marked) {
            restore_unmark(handler->shared, req->id);
        }
        handler_answer_plain(handler, client, &answer);
        work_free(work);
    }
}

/* After the deadline the process is asked to let go of the jail; after a second one it is killed.
 */
static void work_overdue(struct handler *handler, struct work *work)
{
    if (clock_mono_ms() < work->deadline_ms) {
        return;
    }
    if (work->overdue) {
        cgroups_task_kill(handler->shared->groups, work->group);
        return;
    }
    log_warn("work on jail %s takes too long: it is given up", work->req.id);
    work->overdue = true;
    work->deadline_ms = clock_mono_ms() + (int64_t)2 * TASK_LEAVE_MS;
    task_leave(&work->task);
}

static bool work_take(struct handler *handler, const struct work *work, struct task_result *result,
                      int fds[KEEPER_FDS_MAX])
{
    bool reported = task_take(&work->task, result, fds);

    if (!reported) {
        cgroups_task_kill(handler->shared->groups, work->group);
    }
    if (!reported && work->overdue) {
        result->status = err_set(&result->err, ETIMEDOUT, "it took longer than %d s",
                                 timeout_ms_of(handler, &work->req) / 1000);
    }
    return reported;
}

void work_step(struct handler *handler, struct work *work)
{
    struct pollfd ready = {.fd = work->task.socket, .events = POLLIN};
    const struct work was = *work;
    struct task_result result;
    int fds[KEEPER_FDS_MAX];

    if (poll(&ready, 1, 0) != 1) {
        work_overdue(handler, work);
        return;
    }
    bool reported = work_take(handler, work, &result, fds);
    work_free(work);
    cgroups_task_sweep(handler->shared->groups, 0);
    work_over(handler, &was, reported, &result, fds);
    fdpass_close(fds, KEEPER_FDS_MAX);
}
