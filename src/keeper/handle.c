#include "keeper/handle.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <utlist.h>

#include "keeper/answer.h"
#include "keeper/checkpoint/pack.h"
#include "keeper/checkpoint/restore.h"
#include "keeper/checkpoint/save.h"
#include "keeper/checkpoint/task.h"
#include "keeper/disk/saved.h"
#include "keeper/jail/starting.h"
#include "keeper/listing.h"
#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/fd.h"
#include "lib/base/fdpass.h"
#include "lib/base/log.h"

enum { VOLUME_NAME_SHOWN = KEEPER_ID_BYTES - (int)sizeof("volume-") };

struct ending {
    struct ending *prev, *next;
    char id[KEEPER_ID_BYTES];
    unsigned parts;
    int events_fd; /* of the jail's group, or -1 */
    int64_t deadline_ms;
    int retry_us;
    int64_t look_us; /* when it is looked at again, whatever its group says */
    uint64_t client;
    struct keeper_answer answer;
    struct keeper_request *again; /* to be tried once more when all is gone, or NULL */
};

/* A request whose work is done elsewhere. */
struct pending {
    struct pending *prev, *next;
    struct handler *handler;
    struct task task;
    int64_t deadline_ms; /* then it is told to leave, and a little later killed */
    bool overdue;
    uint64_t client;
    bool second; /* try */
    char group[CGROUP_TASK_BYTES];
    struct keeper_request req;
};

struct handler {
    struct jail_kit *kit;
    handler_answer *answer;
    handler_child *child;
    void *ctx;
    struct ending *endings;
    size_t endings_n;
    struct pending *pendings;
    size_t pendings_n;
    struct startings startings;
    struct listing listing;
    struct listing saved;
};

static starting_done create_over;

struct handler *handler_new(struct jail_kit *kit, handler_answer *answer, handler_child *child,
                            void *ctx)
{
    struct handler *handler = xnew(struct handler);

    *handler = (struct handler){.kit = kit, .answer = answer, .child = child, .ctx = ctx};
    handler->startings = (struct startings){.kit = kit, .done = create_over, .ctx = handler};
    return handler;
}

static void ending_free(struct handler *handler, struct ending *ending)
{
    DL_DELETE(handler->endings, ending);
    handler->endings_n--;
    fd_closep(&ending->events_fd);
    free(ending->again);
    free(ending);
}

static void pending_free(struct pending *pending)
{
    DL_DELETE(pending->handler->pendings, pending);
    pending->handler->pendings_n--;
    task_closep(&pending->task);
    free(pending);
}

void handler_free(struct handler *handler)
{
    if (!handler) {
        return;
    }
    while (handler->endings) {
        ending_free(handler, handler->endings);
    }
    while (handler->pendings) {
        pending_free(handler->pendings);
    }
    startings_free(&handler->startings);
    listing_fini(&handler->listing);
    listing_fini(&handler->saved);
    free(handler);
}

static void answer_plain(struct handler *handler, uint64_t client,
                         const struct keeper_answer *answer)
{
    handler->answer(handler->ctx, client, answer, NULL, 0);
}

/* ---- work done elsewhere ---- */

static const struct pending *pending_of(const struct handler *handler, const char *id)
{
    const struct pending *pending;

    DL_FOREACH (handler->pendings, pending) {
        if (strcmp(pending->req.id, id) == 0) {
            return pending;
        }
    }
    return NULL;
}

/* In the new process: what others wait on must close when the keeper does. */
static void pending_enter(void *ctx)
{
    struct handler *handler = ((struct pending *)ctx)->handler;
    struct ending *ending;
    struct pending *pending;
    struct err err;

    handler->child(handler->ctx);
    DL_FOREACH (handler->endings, ending) {
        fd_closep(&ending->events_fd);
    }
    DL_FOREACH (handler->pendings, pending) {
        task_closep(&pending->task);
    }
    startings_leave(&handler->startings);
    handler->kit->task = ((struct pending *)ctx)->group;
    if (pool_unlock_child(handler->kit->pool, &err) < 0) {
        log_error("%s", err.msg);
        _exit(1);
    }
}

static int timeout_ms_of(const struct handler *handler, const struct keeper_request *req)
{
    return req->op == KEEPER_PACK ? HANDLE_PACK_TIMEOUT_MS : handler->kit->work_timeout_ms;
}

static void pending_begin(struct handler *handler, uint64_t client,
                          const struct keeper_request *req, task_work *work, bool second)
{
    struct pending *pending = xnew(struct pending);
    struct err err = {0};
    int r = 0;

    *pending = (struct pending){
        .handler = handler,
        .task = TASK_NONE,
        .deadline_ms = clock_mono_ms() + timeout_ms_of(handler, req),
        .client = client,
        .second = second,
        .req = *req,
    };
    if (handler->pendings_n >= HANDLE_WORKS_MAX) {
        r = err_set(&err, EAGAIN, "the keeper does %d long pieces of work already",
                    HANDLE_WORKS_MAX);
    } else if (pending_of(handler, req->id)) {
        r = err_set(&err, EBUSY, "jail %s is just being saved or restored", req->id);
    } else if (req->op == KEEPER_RESTORE) {
        r = restore_mark(handler->kit, req->id, &err);
    }
    const bool marked = r == 0 && req->op == KEEPER_RESTORE;
    DL_APPEND(handler->pendings, pending);
    handler->pendings_n++;
    scoped_fd group =
        r < 0 ? r : cgroups_task_make(handler->kit->groups, req->id, pending->group, &err);
    r = group;
    if (r >= 0) {
        r = task_start(group, pending_enter, work, pending, &pending->task, &err);
    }
    if (r < 0) {
        struct keeper_answer answer = answer_to(req, r, &err);
        if (marked) {
            restore_unmark(handler->kit, req->id);
        }
        answer_plain(handler, client, &answer);
        pending_free(pending);
    }
}

/* ---- ending ---- */

static struct ending *ending_of(const struct handler *handler, const char *id)
{
    struct ending *ending;

    DL_FOREACH (handler->endings, ending) {
        if (strcmp(ending->id, id) == 0) {
            return ending;
        }
    }
    return NULL;
}

static void ending_kill(struct handler *handler, const struct ending *ending)
{
    struct err err;

    if (ending->parts & JAIL_GROUPS && jail_kill(handler->kit, ending->id, &err) < 0) {
        log_warn("kill jail %s: %s", ending->id, err.msg);
    }
}

static void restore_again(struct handler *handler, uint64_t client,
                          const struct keeper_request *req);

/* Reading makes the next change an event, so it comes before the look at what else there is. */
static bool has_processes(const struct ending *ending)
{
    char text[64];
    ssize_t n = pread(ending->events_fd, text, sizeof(text) - 1, 0);

    text[n > 0 ? n : 0] = '\0';
    return cgroup_stat_value(text, "populated") == 1;
}

/* True when it is over, one way or the other. */
static bool ending_step(struct handler *handler, struct ending *ending)
{
    struct err err = {0};
    int r = has_processes(ending) || pending_of(handler, ending->id) ||
                    starting_has(&handler->startings, ending->id)
                ? -EBUSY
                : jail_remove(handler->kit, ending->id, ending->parts, &err);

    if (r == -EBUSY && clock_mono_ms() < ending->deadline_ms) {
        ending_kill(handler, ending); /* each time: a restore may have gone on after the last */
        int next_us = ending->retry_us * 2;
        ending->retry_us = next_us < HANDLE_RETRY_US_MAX ? next_us : HANDLE_RETRY_US_MAX;
        ending->look_us = clock_mono_us() + ending->retry_us;
        return false;
    }
    if (r < 0) {
        if (r == -EBUSY && err.code == 0) {
            (void)err_set(&err, EBUSY, "processes of jail %s do not end", ending->id);
        }
        log_warn("end jail %s: %s", ending->id, err.msg);
        if (ending->answer.status == 0) {
            ending->answer.status = r;
            ending->answer.err = err;
        }
    }
    if (ending->again && r == 0) {
        restore_again(handler, ending->client, ending->again);
    } else {
        answer_plain(handler, ending->client, &ending->answer);
    }
    return true;
}

/* With `again`, that request is tried once more instead of an answer. */
static void end_and(struct handler *handler, uint64_t client, const char *id, unsigned parts,
                    const struct keeper_answer *answer, const struct keeper_request *again)
{
    struct ending *ending = xnew(struct ending);

    if (again) {
        ending->again = xnew(struct keeper_request);
        *ending->again = *again;
    }
    memcpy(ending->id, id, strnlen(id, KEEPER_ID_BYTES - 1));
    ending->parts = parts;
    ending->client = client;
    ending->retry_us = HANDLE_RETRY_US_MIN / 2;
    ending->answer = *answer;
    ending->deadline_ms = clock_mono_ms() + HANDLE_END_TIMEOUT_MS;
    ending->events_fd = cgroups_events(handler->kit->groups, id);
    DL_APPEND(handler->endings, ending);
    handler->endings_n++;
    if (ending_step(handler, ending)) {
        ending_free(handler, ending);
    }
}

static void end_begin(struct handler *handler, uint64_t client, const char *id, unsigned parts,
                      const struct keeper_answer *answer)
{
    end_and(handler, client, id, parts, answer, NULL);
}

static void pending_step(struct handler *handler, struct pending *pending);

/* Those that polled tells of, which stand first in the list; the others are not due yet. */
static void endings_settle(struct handler *handler, const struct pollfd *polled, size_t n)
{
    struct ending *ending, *next;
    int64_t now_us = clock_mono_us();
    size_t i = 0;

    DL_FOREACH_SAFE (handler->endings, ending, next) {
        bool due = i == n || polled[i++].revents || now_us >= ending->look_us;
        if (due && ending_step(handler, ending)) {
            ending_free(handler, ending);
        }
    }
}

void handler_settle(struct handler *handler, const struct pollfd *polled)
{
    struct pending *pending, *after;
    size_t endings_n = handler->endings_n;

    startings_step(&handler->startings);
    DL_FOREACH_SAFE (handler->pendings, pending, after) {
        pending_step(handler, pending);
    }
    endings_settle(handler, polled, endings_n);
}

size_t handler_poll_n(const struct handler *handler)
{
    return handler->endings_n + handler->pendings_n + handler->startings.n;
}

void handler_poll(const struct handler *handler, struct pollfd *out)
{
    const struct ending *ending;
    const struct pending *pending;

    DL_FOREACH (handler->endings, ending) {
        *out++ = (struct pollfd){.fd = ending->events_fd, .events = POLLPRI};
    }
    DL_FOREACH (handler->pendings, pending) {
        *out++ = (struct pollfd){.fd = pending->task.socket, .events = POLLIN};
    }
    startings_poll(&handler->startings, out);
}

int handler_timeout_us(const struct handler *handler)
{
    const struct ending *ending;
    int64_t now_us = clock_mono_us(), soonest = HANDLE_WORK_LOOK_US;

    if (handler_poll_n(handler) == 0) {
        return -1;
    }
    DL_FOREACH (handler->endings, ending) {
        int64_t left = ending->look_us > now_us ? ending->look_us - now_us : 0;
        soonest = left < soonest ? left : soonest;
    }
    return (int)soonest;
}

/* ---- the requests ---- */

static void handle_hello(struct handler *handler, uint64_t client, const struct keeper_request *req)
{
    struct err err = {0};
    struct keeper_answer answer = answer_to(req, 0, &err);

    answer_status(handler->kit, &answer.state);
    int r = listing_jails(&handler->listing, handler->kit, &err);
    for (size_t i = 0; r == 0 && i < handler->listing.n; i++) {
        answer.state.jails += cgroups_populated(handler->kit->groups, handler->listing.ids[i]);
    }
    answer_plain(handler, client, &answer);
}

/* In an answer's order; returns how many. */
static uint32_t jail_fds(const struct jail *jail, int out[KEEPER_FDS_MAX])
{
    out[KEEPER_FD_PIDFD] = jail->pidfd;
    out[KEEPER_FD_CHANNEL] = jail->channel;
    out[KEEPER_FD_SOCKET] = jail->sockets[0];
    out[KEEPER_FD_SOCKET_2] = jail->sockets[1];
    out[KEEPER_FD_GATE] = jail->net.tcp;
    out[KEEPER_FD_DNS_UDP] = jail->net.dns_udp;
    return jail->net.tcp < 0 ? KEEPER_FD_GATE : KEEPER_FDS_JAIL;
}

static void answer_jail(struct handler *handler, uint64_t client, const struct keeper_request *req,
                        const struct jail *jail)
{
    struct keeper_answer answer = answer_to(req, 0, NULL);
    int fds[KEEPER_FDS_MAX];

    answer.jail = jail->name;
    answer.channel = jail->channel_version;
    handler->answer(handler->ctx, client, &answer, fds, jail_fds(jail, fds));
}

/* `made` is what a failure left, or 0. */
static void undo_and_answer(struct handler *handler, uint64_t client, const char *id, unsigned made,
                            const struct keeper_answer *answer)
{
    if (made) {
        end_begin(handler, client, id, made, answer);
    } else {
        answer_plain(handler, client, answer);
    }
}

static void create_over(void *ctx, uint64_t client, const struct keeper_request *req, int status,
                        const struct err *err, const struct jail *jail, unsigned made)
{
    struct handler *handler = ctx;

    if (status == 0) {
        answer_jail(handler, client, req, jail);
        return;
    }
    const struct keeper_answer answer = answer_to(req, status, err);
    undo_and_answer(handler, client, req->id, made, &answer);
}

/* Before the jail has a group: the keeper begins with it when this is done. How much there is to
 * look at on a disk is its tenant's doing. */
static void disk_work(void *ctx, struct task_result *result, int fds[KEEPER_FDS_MAX])
{
    const struct pending *pending = ctx;
    const struct keeper_request *req = &pending->req;

    struct jail_kit *kit = pending->handler->kit;

    (void)fds;
    if (cgroups_populated(kit->groups, req->id)) {
        result->status = err_set(&result->err, EEXIST, "jail %s exists already", req->id);
    } else if (req->plan.keeps_disk) {
        result->status = pool_disk_reuse(kit->pool, req->id, &result->err);
    } else {
        result->status = saved_disk_copy(kit->pool, req->plan.from, req->id, &result->err);
    }
}

static void handle_create(struct handler *handler, uint64_t client,
                          const struct keeper_request *req)
{
    if (req->plan.from[0] || req->plan.keeps_disk) {
        pending_begin(handler, client, req, disk_work, false);
    } else {
        starting_begin(&handler->startings, client, req);
    }
}

static void handle_attach(struct handler *handler, uint64_t client,
                          const struct keeper_request *req)
{
    struct err err = {0};
    scoped(jail_closep) struct jail jail = JAIL_NONE;

    int r = jail_attach(handler->kit, req->id, &req->jail, req->plan.network == 1, &jail, &err);
    if (r == 0) {
        answer_jail(handler, client, req, &jail);
        return;
    }
    struct keeper_answer answer = answer_to(req, r, &err);
    answer_plain(handler, client, &answer);
}

static void handle_sockets(struct handler *handler, uint64_t client,
                           const struct keeper_request *req)
{
    struct err err = {0};
    int fds[KEEPER_SOCKETS_MAX];
    int r = jail_sockets_open(handler->kit, req->id, &req->jail, fds, req->sockets_n, &err);
    struct keeper_answer answer = answer_to(req, r, &err);

    if (r < 0) {
        answer_plain(handler, client, &answer);
        return;
    }
    handler->answer(handler->ctx, client, &answer, fds, req->sockets_n);
    fdpass_close(fds, req->sockets_n);
}

static void handle_destroy(struct handler *handler, uint64_t client,
                           const struct keeper_request *req)
{
    struct keeper_answer answer = answer_to(req, 0, NULL);
    struct ending *earlier = ending_of(handler, req->id);
    struct err err;

    if (handler->endings_n >= HANDLE_ENDINGS_MAX) {
        int r = err_set(&err, EAGAIN, "the keeper ends %d jails already", HANDLE_ENDINGS_MAX);
        answer = answer_to(req, r, &err);
        answer_plain(handler, client, &answer);
        return;
    }
    if (earlier) { /* a jail that is not wanted any more is not tried again */
        free(earlier->again);
        earlier->again = NULL;
    }
    end_begin(handler, client, req->id, JAIL_ALL, &answer);
}

static void save_work(void *ctx, struct task_result *result, int fds[KEEPER_FDS_MAX])
{
    struct pending *pending = ctx;

    (void)fds;
    result->status = save_jail(pending->handler->kit, pending->req.id, &pending->req.save,
                               &result->saved, &result->err);
}

static bool name_pending(const struct handler *handler, const char *name)
{
    const struct pending *pending;

    DL_FOREACH (handler->pendings, pending) {
        const struct keeper_save *save = &pending->req.save;
        if (pending->req.op == KEEPER_SAVE && !(save->flags & KEEPER_SAVE_LOOK) &&
            strcmp(save->name, name) == 0) {
            return true;
        }
    }
    return false;
}

/* A worker that ends without a word may have given its save the name already. Whatever is found
 * under it then must be that save: so a name that is in use never gets as far as a worker. */
static int name_check(const struct handler *handler, const struct keeper_save *save,
                      struct err *err)
{
    if (save->flags & KEEPER_SAVE_LOOK) {
        return 0;
    }
    if (name_pending(handler, save->name)) {
        return err_set(err, EEXIST, "%s is just being made", save->name);
    }
    return saved_exists(handler->kit->pool, save->name)
               ? err_set(err, EEXIST, "%s exists already", save->name)
               : 0;
}

static void handle_save(struct handler *handler, uint64_t client, const struct keeper_request *req)
{
    struct err err = {0};
    int r = name_check(handler, &req->save, &err);

    if (r < 0) {
        struct keeper_answer answer = answer_to(req, r, &err);
        answer_plain(handler, client, &answer);
        return;
    }
    pending_begin(handler, client, req, save_work, false);
}

static void pack_work(void *ctx, struct task_result *result, int fds[KEEPER_FDS_MAX])
{
    struct pending *pending = ctx;

    (void)fds;
    result->status = pack_saved(pending->handler->kit->pool, pending->req.save.name, &result->saved,
                                &result->err);
}

/* One at a time, and not in the way of whoever restores from the same: under a name that no jail
 * can have (keeper_request_check). */
static void handle_pack(struct handler *handler, uint64_t client, const struct keeper_request *req)
{
    struct keeper_request named = *req;

    memcpy(named.id, "pack-", sizeof("pack-"));
    pending_begin(handler, client, &named, pack_work, false);
}

static void volume_work(void *ctx, struct task_result *result, int fds[KEEPER_FDS_MAX])
{
    struct pending *pending = ctx;
    struct keeper_answer answer = answer_at_once(pending->handler->kit, &pending->req);

    (void)fds;
    result->status = answer.status;
    result->err = answer.err;
}

static void volume_begin(struct handler *handler, uint64_t client, const struct keeper_request *req,
                         task_work *work)
{
    struct keeper_request named = *req;

    (void)snprintf(named.id, sizeof(named.id), "volume-%.*s", VOLUME_NAME_SHOWN, req->volume.name);
    pending_begin(handler, client, &named, work, false);
}

/* It is on the disk when it is answered, and how much waits to be written is the tenants' doing. */
static void handle_volume_make(struct handler *handler, uint64_t client,
                               const struct keeper_request *req)
{
    volume_begin(handler, client, req, volume_work);
}

static void settle_work(void *ctx, struct task_result *result, int fds[KEEPER_FDS_MAX])
{
    struct pending *pending = ctx;

    (void)fds;
    if (syncfs(pool_fd(pending->handler->kit->pool)) < 0) {
        result->status = err_sys(&result->err, "write the end of volume %s to the disk",
                                 pending->req.volume.name);
    }
}

/* The server forgets a volume when this is answered: if the volume came back with a power cut,
 * nobody would ever remove it. */
static void handle_volume_remove(struct handler *handler, uint64_t client,
                                 const struct keeper_request *req)
{
    struct keeper_answer answer = answer_at_once(handler->kit, req);

    if (answer.status < 0) {
        answer_plain(handler, client, &answer);
    } else {
        volume_begin(handler, client, req, settle_work);
    }
}

static void restore_work(void *ctx, struct task_result *result, int fds[KEEPER_FDS_MAX])
{
    struct pending *pending = ctx;
    struct jail jail; /* what it holds goes along with the result, and closes with this process */

    result->status = restore_jail(pending->handler->kit, pending->req.id, &pending->req.plan,
                                  pending->second, &jail, &result->made, &result->err);
    if (result->status < 0) {
        return;
    }
    result->jail = jail.name;
    result->channel = jail.channel_version;
    result->fds_n = jail_fds(&jail, fds);
}

static void handle_restore(struct handler *handler, uint64_t client,
                           const struct keeper_request *req)
{
    pending_begin(handler, client, req, restore_work, false);
}

static void restore_again(struct handler *handler, uint64_t client,
                          const struct keeper_request *req)
{
    pending_begin(handler, client, req, restore_work, true);
}

static void restore_done(struct handler *handler, uint64_t client, const struct keeper_request *req,
                         bool second, const struct task_result *result, const int *fds)
{
    struct keeper_answer answer = answer_to(req, result->status, &result->err);

    answer.jail = result->jail;
    answer.channel = result->channel;
    if (result->status == 0) {
        handler->answer(handler->ctx, client, &answer, fds, result->fds_n);
    } else if (result->status == -EIO && !second && !req->plan.keeps_disk &&
               !ending_of(handler, req->id)) {
        log_warn("jail %s is tried once more, without its connections: %s", req->id,
                 result->err.msg);
        end_and(handler, client, req->id, JAIL_ALL, &answer, req);
    } else {
        undo_and_answer(handler, client, req->id, result->made, &answer);
    }
}

static void save_done(struct handler *handler, uint64_t client, const struct keeper_request *req,
                      const struct task_result *result)
{
    struct keeper_answer answer = answer_to(req, result->status, &result->err);

    answer.saved = result->saved;
    if (result->status == 0 && req->op == KEEPER_SAVE && req->save.flags & KEEPER_SAVE_STOP &&
        !(req->save.flags & KEEPER_SAVE_LOOK)) {
        end_begin(handler, client, req->id, JAIL_GROUPS, &answer);
    } else {
        answer_plain(handler, client, &answer);
    }
}

static void create_done(struct handler *handler, uint64_t client, const struct keeper_request *req,
                        const struct task_result *result)
{
    if (result->status == 0) {
        starting_begin(&handler->startings, client, req);
        return;
    }
    const struct keeper_answer answer = answer_to(req, result->status, &result->err);
    undo_and_answer(handler, client, req->id, result->made, &answer);
}

/* Work that ended without a word leaves what it had begun, and it failed: nothing of it stays. */
static void pending_mend(struct handler *handler, const struct keeper_request *req,
                         struct task_result *result)
{
    if (req->op == KEEPER_SAVE) {
        cgroups_thaw(handler->kit->groups, req->id);
        if (!(req->save.flags & KEEPER_SAVE_LOOK)) {
            saved_abandon(handler->kit->pool, req->save.name);
        }
    } else if (req->op == KEEPER_PACK || req->op == KEEPER_VOLUME_MAKE ||
               req->op == KEEPER_VOLUME_REMOVE) {
        return;
    } else if (req->op == KEEPER_RESTORE) {
        result->made = req->plan.keeps_disk ? JAIL_GROUPS : JAIL_ALL;
    } else if (!req->plan.keeps_disk) {
        result->made = JAIL_DISK;
    }
}

/* Its time is up: it may let go of the jail in order, and then it is killed. */
static void pending_overdue(struct handler *handler, struct pending *pending)
{
    if (clock_mono_ms() < pending->deadline_ms) {
        return;
    }
    if (pending->overdue) {
        cgroups_task_kill(handler->kit->groups, pending->group);
        return;
    }
    log_warn("work on jail %s takes too long: it is given up", pending->req.id);
    pending->overdue = true;
    pending->deadline_ms = clock_mono_ms() + (int64_t)2 * TASK_LEAVE_MS;
    task_leave(&pending->task);
}

static bool pending_take(struct handler *handler, const struct pending *pending,
                         struct task_result *result, int fds[KEEPER_FDS_MAX])
{
    bool told = task_take(&pending->task, result, fds);

    if (!told) {
        cgroups_task_kill(handler->kit->groups, pending->group);
    }
    if (!told && pending->overdue) {
        result->status = err_set(&result->err, ETIMEDOUT, "it took longer than %d s",
                                 timeout_ms_of(handler, &pending->req) / 1000);
    }
    return told;
}

/* Goes on with what waited for the work, once that is over. */
static void pending_step(struct handler *handler, struct pending *pending)
{
    struct pollfd ready = {.fd = pending->task.socket, .events = POLLIN};
    const struct pending was = *pending;
    struct task_result result;
    int fds[KEEPER_FDS_MAX];

    if (poll(&ready, 1, 0) != 1) {
        pending_overdue(handler, pending);
        return;
    }
    bool told = pending_take(handler, pending, &result, fds);
    pending_free(pending);
    if (!told) {
        pending_mend(handler, &was.req, &result);
    }
    if (was.req.op == KEEPER_RESTORE) {
        restore_unmark(handler->kit, was.req.id);
    }
    cgroups_task_sweep(handler->kit->groups, 0);
    if (was.req.op == KEEPER_CREATE) {
        create_done(handler, was.client, &was.req, &result);
    } else if (was.req.op == KEEPER_RESTORE) {
        restore_done(handler, was.client, &was.req, was.second, &result, fds);
    } else {
        save_done(handler, was.client, &was.req, &result);
    }
    fdpass_close(fds, KEEPER_FDS_MAX);
}

static void handle_list_saved(struct handler *handler, uint64_t client,
                              const struct keeper_request *req)
{
    struct listing *listing = &handler->saved;
    struct err err = {0};
    int r = 0;

    if (!req->save.name[0]) {
        listing->n = 0;
        r = saved_each(handler->kit->pool, listing_add, listing, &err);
        listing_sort(listing);
    }
    const char *next = r == 0 ? listing_after(listing, req->save.name) : NULL;
    if (r == 0 && !next) {
        r = err_set(&err, ENOENT, "no more are saved");
    }
    struct keeper_answer answer = answer_to(req, r, &err);
    if (next) {
        memcpy(answer.saved.name, next, strlen(next));
    }
    answer_plain(handler, client, &answer);
}

/* A listing is read anew by whoever begins, and by HELLO, and serves all who are in the middle:
 * they go on behind the name they have, in whichever listing there is by then. */
static void handle_list(struct handler *handler, uint64_t client, const struct keeper_request *req)
{
    struct err err = {0};
    int r = req->id[0] ? 0 : listing_jails(&handler->listing, handler->kit, &err);
    const char *next = r == 0 ? listing_after(&handler->listing, req->id) : NULL;

    if (r == 0 && !next) {
        r = err_set(&err, ENOENT, "there are no more jails");
    }
    struct keeper_answer answer = answer_to(req, r, &err);
    if (next) {
        memcpy(answer.id, next, strlen(next) + 1);
    }
    answer_plain(handler, client, &answer);
}

void handler_request(struct handler *handler, uint64_t client, const struct keeper_request *req)
{
    static void (*const ops[])(struct handler *, uint64_t, const struct keeper_request *) = {
        [KEEPER_HELLO] = handle_hello,
        [KEEPER_CREATE] = handle_create,
        [KEEPER_ATTACH] = handle_attach,
        [KEEPER_DESTROY] = handle_destroy,
        [KEEPER_LIST] = handle_list,
        [KEEPER_SAVE] = handle_save,
        [KEEPER_RESTORE] = handle_restore,
        [KEEPER_LIST_SAVED] = handle_list_saved,
        [KEEPER_PACK] = handle_pack,
        [KEEPER_SOCKETS] = handle_sockets,
        [KEEPER_VOLUME_MAKE] = handle_volume_make,
        [KEEPER_VOLUME_REMOVE] = handle_volume_remove,
    };
    struct keeper_answer answer;
    struct err err = {0};

    int r = keeper_request_check(req, &err);
    if (r == 0 && req->op < countof(ops) && ops[req->op]) {
        ops[req->op](handler, client, req);
        return;
    }
    answer = r < 0 ? answer_to(req, r, &err) : answer_at_once(handler->kit, req);
    answer_plain(handler, client, &answer);
}
