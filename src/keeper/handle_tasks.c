#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utlist.h>

#include "keeper/answer.h"
#include "keeper/checkpoint/pack.h"
#include "keeper/checkpoint/restore.h"
#include "keeper/checkpoint/save.h"
#include "keeper/checkpoint/zygote.h"
#include "keeper/disk/saved.h"
#include "keeper/internal.h"
#include "keeper/travel/travel.h"
#include "lib/base/fd.h"
#include "lib/base/log.h"
#include "wire/travel.h"

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

    result->status = save_jail(task->handler->shared, task->req.id, &task->req.save, fds,
                               &result->saved, &result->err);
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

/* ---- export and import ---- */

static void export_task(void *ctx, struct task_result *result, int fds[KEEPER_FDS_MAX])
{
    struct request_task *task = ctx;

    (void)fds;
    result->status =
        travel_export(task->handler->shared, &task->req.travel, task->travel_fd, &result->err);
}

static void import_task(void *ctx, struct task_result *result, int fds[KEEPER_FDS_MAX])
{
    struct request_task *task = ctx;

    (void)fds;
    result->status =
        travel_import(task->handler->shared, &task->req.travel, task->travel_fd, &result->err);
}

static bool is_travel(const struct keeper_request *req)
{
    return req->op == KEEPER_EXPORT || req->op == KEEPER_IMPORT;
}

/* An import makes one of two saves, and knows late which. */
static void arrival_names(const char *name, char out[2][KEEPER_SAVED_BYTES])
{
    (void)snprintf(out[0], KEEPER_SAVED_BYTES, "%s", name);
    (void)snprintf(out[1], KEEPER_SAVED_BYTES, "%.*s" KEEPER_SAVED_DISK,
                   KEEPER_SAVED_BYTES - (int)sizeof(KEEPER_SAVED_DISK), name);
}

/* The save must be its own: if the task dies, arrival_abandon() removes it. */
static int arrival_check(const struct handler *handler, const char *name, struct err *err)
{
    const struct request_task *task;
    char names[2][KEEPER_SAVED_BYTES];

    DL_FOREACH (handler->tasks, task) {
        if (task->req.op == KEEPER_IMPORT && strcmp(task->req.travel.name, name) == 0) {
            return err_set(err, EEXIST, "%s is just being made", name);
        }
    }
    arrival_names(name, names);
    for (size_t i = 0; i < countof(names); i++) {
        if (saved_exists(handler->shared->pool, names[i]) ||
            name_is_being_saved(handler, names[i])) {
            return err_set(err, EEXIST, "%s exists already", names[i]);
        }
    }
    return 0;
}

static void arrival_abandon(struct handler *handler, const char *name)
{
    char names[2][KEEPER_SAVED_BYTES];

    arrival_names(name, names);
    saved_abandon(handler->shared->pool, names[0]);
    saved_abandon(handler->shared->pool, names[1]);
}

/* Takes a free place: its id is one that no jail can have. */
static int place_take(const struct handler *handler, char id[KEEPER_ID_BYTES], struct err *err)
{
    for (int i = 1; i <= TRAVEL_TASKS_MAX; i++) {
        (void)snprintf(id, KEEPER_ID_BYTES, "travel-%d", i);
        if (!request_task_of(handler, id)) {
            return 0;
        }
    }
    return err_set(err, EAGAIN, "%d exports or imports are under way: try again later",
                   TRAVEL_TASKS_MAX);
}

/* The answer comes at once, with the socket that the rest is told by. */
void handle_travel(struct handler *handler, uint64_t client, const struct keeper_request *req)
{
    struct keeper_request named = *req;
    struct err err = {0};
    int pair[2] = {-1, -1};
    int r = place_take(handler, named.id, &err);

    if (r == 0 && req->op == KEEPER_IMPORT) {
        r = arrival_check(handler, req->travel.name, &err);
    }
    if (r == 0 && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0) {
        r = err_sys(&err, "make a socket pair");
    }
    scoped_fd theirs = pair[0];
    scoped_fd ours = pair[1];
    struct keeper_answer answer = answer_to(req, r, &err);
    if (r < 0) {
        handler_answer_plain(handler, client, &answer);
    } else if (request_task_begin_with(handler, client, &named,
                                       req->op == KEEPER_EXPORT ? export_task : import_task,
                                       ours)) {
        handler->answer(handler->ctx, client, &answer, &theirs, 1);
    }
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
                     &task->ticket, &jail, &result->made, &result->err);
    result->zygote_lost = task->ticket.lost;
    if (result->status < 0) {
        return;
    }
    result->shares = task->ticket.used;
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
    struct zygote_ticket ticket = ZYGOTE_TICKET_NONE;
    struct err err;

    int r = req->plan.keeps_disk ? 0
                                 : zygote_use(handler->shared, from,
                                              name_is_being_restored(handler, from), &ticket, &err);
    if (r < 0) {
        struct keeper_answer answer = answer_to(req, r, &err);
        handler_answer_plain(handler, client, &answer);
        return;
    }
    request_task_begin_with_zygote(handler, client, req, restore_task, &ticket);
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
    answer.shares = result->shares;
    if (result->zygote_lost) {
        zygote_lost(handler->shared, req->plan.from);
    }
    if (result->status == 0) {
        handler->answer(handler->ctx, client, &answer, fds, result->fds_n);
    } else if (was->ticket.socket >= 0 && result->made && !ending_of(handler, req->id)) {
        log_warn("jail %s is tried once more, without a zygote: %s", req->id, result->err.msg);
        if (result->status == -EIO && !result->zygote_lost) { /* not for what its caller asked */
            zygote_failed(handler->shared, req->plan.from);
        }
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
        if (result->status == 0 && req->op == KEEPER_SAVE && req->save.flags & KEEPER_SAVE_MEMORY &&
            !(req->save.flags & KEEPER_SAVE_LOOK)) {
            zygote_prepare(handler->shared, req->save.name);
        }
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
    } else if (req->op == KEEPER_IMPORT) {
        arrival_abandon(handler, req->travel.name);
    } else if (req->op == KEEPER_EXPORT || req->op == KEEPER_PACK ||
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
    if (is_travel(req)) {
        if (result->status < 0) { /* its request has been answered long ago */
            log_info("%s", result->err.msg);
        }
    } else if (req->op == KEEPER_RESTORE) {
        restore_unmark(handler->shared, req->id);
        restore_done(handler, was, result, fds);
    } else if (req->op == KEEPER_CREATE) {
        create_done(handler, was->client, req, result);
    } else {
        save_done(handler, was->client, req, result, fds);
    }
}
