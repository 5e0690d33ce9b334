#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <utlist.h>

#include "keeper/answer.h"
#include "keeper/checkpoint/fill.h"
#include "keeper/checkpoint/pack.h"
#include "keeper/checkpoint/restore.h"
#include "keeper/checkpoint/save.h"
#include "keeper/checkpoint/zygote.h"
#include "keeper/disk/saved.h"
#include "keeper/internal.h"
#include "lib/base/log.h"

enum { VOLUME_NAME_SHOWN = KEEPER_ID_BYTES - (int)sizeof("volume-") };

/* ---- create ---- */

/* Prepares the disk before the jail has a control group; the keeper starts the jail afterwards. It
 * is a task of its own because its duration depends on the tenant's files. */
static void disk_task(void *ctx, struct task_result *result, int fds[KEEPER_FDS_MAX])
{
    const struct request_task *task = ctx;
    const struct keeper_request *req = &task->req;

    struct jail_shared *shared = task->handler->shared;

    (void)fds;
    if (cgroups_populated(shared->groups, req->id)) {
        result->status = err_set(&result->err, EEXIST, "jail %s exists already", req->id);
    } else if (req->plan.keeps_disk) {
        result->status = pool_disk_reuse(shared->pool, req->id, &result->err);
    } else {
        result->status = saved_disk_copy(shared->pool, req->plan.from, req->id, &result->err);
    }
}

static void create_begin(struct handler *handler, uint64_t client, const struct keeper_request *req)
{
    if (!workers_take(handler->workers, client, req)) {
        starting_begin(&handler->startings, client, req);
    }
}

void handle_create(struct handler *handler, uint64_t client, const struct keeper_request *req)
{
    if (!handler->is_worker && (req->plan.from[0] || req->plan.keeps_disk)) {
        request_task_begin(handler, client, req, disk_task, false);
    } else {
        create_begin(handler, client, req);
    }
}

/* ---- save ---- */

static void save_task(void *ctx, struct task_result *result, int fds[KEEPER_FDS_MAX])
{
    struct request_task *task = ctx;

    result->status = fill_wait(task->handler->shared, task->req.id, &result->err);
    if (result->status == 0) {
        result->status = save_jail(task->handler->shared, task->req.id, &task->req.save, fds,
                                   &result->saved, &result->err);
    }
    for (result->fds_n = 0; result->status == 0 && fds[result->fds_n] >= 0;) {
        result->fds_n++;
    }
}

static bool name_is_being_saved(const struct handler *handler, const char *name)
{
    const struct request_task *task;

    DL_FOREACH (handler->tasks, task) {
        const struct keeper_save *save = &task->req.save;
        if (task->req.op == KEEPER_SAVE && !(save->flags & KEEPER_SAVE_LOOK) &&
            strcmp(save->name, name) == 0) {
            return true;
        }
    }
    return false;
}

/* Refuses a name that is in use. A task that dies without a result may have given its save the
 * final name already, and request_task_clean_up() removes the save of that name: it must be its
 * own. */
static int name_check(const struct handler *handler, const struct keeper_save *save,
                      struct err *err)
{
    if (save->flags & KEEPER_SAVE_LOOK) {
        return 0;
    }
    if (name_is_being_saved(handler, save->name)) {
        return err_set(err, EEXIST, "%s is just being made", save->name);
    }
    return saved_exists(handler->shared->pool, save->name)
               ? err_set(err, EEXIST, "%s exists already", save->name)
               : 0;
}

void handle_save(struct handler *handler, uint64_t client, const struct keeper_request *req)
{
    struct err err = {0};
    int r = name_check(handler, &req->save, &err);

    if (r < 0) {
        struct keeper_answer answer = answer_to(req, r, &err);
        handler_answer_plain(handler, client, &answer);
        return;
    }
    request_task_begin(handler, client, req, save_task, false);
}

/* ---- forget ---- */

static void forget_task(void *ctx, struct task_result *result, int fds[KEEPER_FDS_MAX])
{
    struct request_task *task = ctx;
    struct jail_shared *shared = task->handler->shared;

    (void)fds;
    fill_wait_save(shared, task->req.save.name);
    result->status = saved_forget(shared->pool, task->req.save.name, &result->err);
}

/* A save that a jail is being filled from is removed when the jail has all its memory. */
void handle_forget(struct handler *handler, uint64_t client, const struct keeper_request *req)
{
    if (!fill_uses(handler->shared, req->save.name)) {
        struct keeper_answer answer = answer_at_once(handler->shared, req);
        handler_answer_plain(handler, client, &answer);
        return;
    }
    struct keeper_request named = *req;
    zygote_forget(handler->shared, req->save.name);
    (void)snprintf(named.id, sizeof(named.id), "forget-%.*s",
                   (int)(sizeof(named.id) - sizeof("forget-")), req->save.name);
    request_task_begin(handler, client, &named, forget_task, false);
}

/* ---- pack ---- */

static void pack_task(void *ctx, struct task_result *result, int fds[KEEPER_FDS_MAX])
{
    struct request_task *task = ctx;

    (void)fds;
    result->status =
        pack_saved(task->handler->shared->pool, task->req.save.name, &result->saved, &result->err);
}

/* The id is one that no jail can have (keeper_request_check): so one packing runs at a time, and
 * restores of the same save are not refused meanwhile. */
void handle_pack(struct handler *handler, uint64_t client, const struct keeper_request *req)
{
    struct keeper_request named = *req;

    memcpy(named.id, "pack-", sizeof("pack-"));
    request_task_begin(handler, client, &named, pack_task, false);
}

/* ---- volumes ---- */

static void volume_task(void *ctx, struct task_result *result, int fds[KEEPER_FDS_MAX])
{
    struct request_task *task = ctx;
    struct keeper_answer answer = answer_at_once(task->handler->shared, &task->req);

    (void)fds;
    result->status = answer.status;
    result->err = answer.err;
}

static void volume_begin(struct handler *handler, uint64_t client, const struct keeper_request *req,
                         task_function *run)
{
    struct keeper_request named = *req;

    (void)snprintf(named.id, sizeof(named.id), "volume-%.*s", VOLUME_NAME_SHOWN, req->volume.name);
    request_task_begin(handler, client, &named, run, false);
}

/* The volume is on the disk when the answer is sent. This is a task of its own because its duration
 * depends on how much the tenants have left to be written. */
void handle_volume_make(struct handler *handler, uint64_t client, const struct keeper_request *req)
{
    volume_begin(handler, client, req, volume_task);
}

static void volume_sync_task(void *ctx, struct task_result *result, int fds[KEEPER_FDS_MAX])
{
    struct request_task *task = ctx;

    (void)fds;
    if (syncfs(pool_fd(task->handler->shared->pool)) < 0) {
        result->status =
            err_sys(&result->err, "write the end of volume %s to the disk", task->req.volume.name);
    }
}

/* The server forgets a volume when it has the answer. The removal must be on the disk by then: a
 * volume that came back after a power cut would never be removed. */
void handle_volume_remove(struct handler *handler, uint64_t client,
                          const struct keeper_request *req)
{
    struct keeper_answer answer = answer_at_once(handler->shared, req);

    if (answer.status < 0) {
        handler_answer_plain(handler, client, &answer);
    } else {
        volume_begin(handler, client, req, volume_sync_task);
    }
}

/* ---- restore ---- */

static void restore_task(void *ctx, struct task_result *result, int fds[KEEPER_FDS_MAX])
{
    struct request_task *task = ctx;
    struct jail jail; /* its descriptors are sent with the result, and close with this process */

    result->status =
        restore_jail(task->handler->shared, task->req.id, &task->req.plan, task->is_retry,
                     task->zygote, task->lazy, &jail, &result->made, &result->err);
    if (result->status < 0) {
        return;
    }
    result->jail = jail.name;
    result->channel = jail.channel_version;
    result->fds_n = handler_jail_fds(&jail, fds);
}

static bool name_is_being_restored(const struct handler *handler, const char *name)
{
    const struct request_task *task;

    DL_FOREACH (handler->tasks, task) {
        if (task->req.op == KEEPER_RESTORE && strcmp(task->req.plan.from, name) == 0) {
            return true;
        }
    }
    return false;
}

/* A paused sandbox, which has its disk, is the only one of its save. */
void handle_restore(struct handler *handler, uint64_t client, const struct keeper_request *req)
{
    const char *from = req->plan.from;
    int zygote = req->plan.keeps_disk
                     ? -1
                     : zygote_use(handler->shared, from, name_is_being_restored(handler, from));

    request_task_begin_with_zygote(handler, client, req, restore_task, false, zygote, zygote < 0);
}

void restore_retry(struct handler *handler, uint64_t client, const struct keeper_request *req,
                   bool tcp_close)
{
    request_task_begin(handler, client, req, restore_task, tcp_close);
}

static void restore_done(struct handler *handler, const struct request_task *was,
                         const struct task_result *result, const int *fds)
{
    const struct keeper_request *req = &was->req;
    const uint64_t client = was->client;
    struct keeper_answer answer = answer_to(req, result->status, &result->err);

    answer.jail = result->jail;
    answer.channel = result->channel;
    if (result->status == 0) {
        handler->answer(handler->ctx, client, &answer, fds, result->fds_n);
    } else if (was->lazy && result->made && !ending_of(handler, req->id)) {
        log_warn("jail %s is tried once more, with its memory at once: %s", req->id,
                 result->err.msg);
        ending_begin_with_retry(handler, client, req->id, result->made, &answer, req, false);
    } else if (was->zygote >= 0 && result->made && !ending_of(handler, req->id)) {
        log_warn("jail %s is tried once more, without a zygote: %s", req->id, result->err.msg);
        zygote_failed(handler->shared, req->plan.from);
        ending_begin_with_retry(handler, client, req->id, result->made, &answer, req, false);
    } else if (result->status == -EIO && !was->is_retry && !req->plan.keeps_disk &&
               !ending_of(handler, req->id)) {
        log_warn("jail %s is tried once more, without its connections: %s", req->id,
                 result->err.msg);
        ending_begin_with_retry(handler, client, req->id, JAIL_ALL, &answer, req, true);
    } else {
        remove_and_answer(handler, client, req->id, result->made, &answer);
    }
}

static void save_done(struct handler *handler, uint64_t client, const struct keeper_request *req,
                      const struct task_result *result, const int *fds)
{
    struct keeper_answer answer = answer_to(req, result->status, &result->err);

    answer.saved = result->saved;
    if (result->status == 0 && req->op == KEEPER_SAVE && req->save.flags & KEEPER_SAVE_STOP &&
        !(req->save.flags & KEEPER_SAVE_LOOK)) {
        ending_begin(handler, client, req->id, JAIL_GROUPS, &answer);
    } else {
        handler->answer(handler->ctx, client, &answer, fds, result->fds_n);
    }
}

static void create_done(struct handler *handler, uint64_t client, const struct keeper_request *req,
                        const struct task_result *result)
{
    if (result->status == 0) {
        create_begin(handler, client, req);
        return;
    }
    const struct keeper_answer answer = answer_to(req, result->status, &result->err);
    remove_and_answer(handler, client, req->id, result->made, &answer);
}

/* ---- the end of a task ---- */

/* The process died without a result: the request failed, and what was begun is removed. */
static void request_task_clean_up(struct handler *handler, const struct keeper_request *req,
                                  struct task_result *result)
{
    if (req->op == KEEPER_SAVE) {
        cgroups_thaw(handler->shared->groups, req->id);
        if (!(req->save.flags & KEEPER_SAVE_LOOK)) {
            saved_abandon(handler->shared->pool, req->save.name);
        }
    } else if (req->op == KEEPER_PACK || req->op == KEEPER_FORGET ||
               req->op == KEEPER_VOLUME_MAKE || req->op == KEEPER_VOLUME_REMOVE) {
        return;
    } else if (req->op == KEEPER_RESTORE) {
        result->made = req->plan.keeps_disk ? JAIL_GROUPS : JAIL_ALL;
    } else if (!req->plan.keeps_disk) {
        result->made = JAIL_DISK;
    }
}

void request_task_over(struct handler *handler, const struct request_task *was, bool reported,
                       struct task_result *result, const int *fds)
{
    const struct keeper_request *req = &was->req;

    if (!reported) {
        request_task_clean_up(handler, req, result);
    }
    if (req->op == KEEPER_RESTORE) {
        restore_unmark(handler->shared, req->id);
        restore_done(handler, was, result, fds);
    } else if (req->op == KEEPER_CREATE) {
        create_done(handler, was->client, req, result);
    } else {
        save_done(handler, was->client, req, result, fds);
    }
}
