#include "keeper/handle.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <utlist.h>

#include "keeper/answer.h"
#include "keeper/checkpoint/zygote.h"
#include "keeper/disk/saved.h"
#include "keeper/internal.h"
#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/fd.h"
#include "lib/base/fdpass.h"
#include "lib/base/log.h"

static starting_done create_over;

struct handler *handler_new(struct jail_shared *shared, handler_answer *answer,
                            handler_child *child, void *ctx)
{
    struct handler *handler = xnew(struct handler);

    *handler = (struct handler){.shared = shared, .answer = answer, .child = child, .ctx = ctx};
    handler->startings = (struct startings){.shared = shared, .done = create_over, .ctx = handler};
    return handler;
}

void handler_free(struct handler *handler)
{
    if (!handler) {
        return;
    }
    workers_free(handler->workers);
    while (handler->endings) {
        ending_free(handler, handler->endings);
    }
    while (handler->tasks) {
        request_task_free(handler->tasks);
    }
    startings_free(&handler->startings);
    name_list_fini(&handler->names);
    name_list_fini(&handler->saved);
    free(handler);
}

void handler_workers(struct handler *handler, size_t n)
{
    handler->workers = n ? workers_new(handler, n) : NULL;
}

int handler_leave(struct handler *handler)
{
    struct ending *ending;
    struct request_task *task;
    struct err err;

    handler->child(handler->ctx);
    DL_FOREACH (handler->endings, ending) {
        fd_closep(&ending->events_fd);
    }
    DL_FOREACH (handler->tasks, task) {
        task_closep(&task->process);
    }
    startings_leave(&handler->startings);
    workers_leave(handler->workers);
    int r = pool_unlock_child(handler->shared->pool, &err);
    if (r < 0) {
        log_error("%s", err.msg);
    }
    return r;
}

/* Descriptors of work that is in progress here, and of zygotes, which are looked after; workers
 * wait for requests all the time. */
static size_t busy_n(const struct handler *handler)
{
    return handler->endings_n + handler->tasks_n + handler->startings.n +
           zygotes_poll_n(handler->shared->zygotes);
}

void handler_settle(struct handler *handler, const struct pollfd *polled)
{
    struct request_task *task, *after;
    size_t endings_n = handler->endings_n;

    workers_settle(handler->workers, polled + busy_n(handler));
    startings_step(&handler->startings);
    DL_FOREACH_SAFE (handler->tasks, task, after) {
        request_task_step(handler, task);
    }
    endings_step(handler, polled, endings_n);
    zygotes_step(handler->shared);
}

size_t handler_poll_n(const struct handler *handler)
{
    return busy_n(handler) + workers_poll_n(handler->workers);
}

void handler_poll(const struct handler *handler, struct pollfd *out)
{
    const struct ending *ending;
    const struct request_task *task;

    DL_FOREACH (handler->endings, ending) {
        *out++ = (struct pollfd){.fd = ending->events_fd, .events = POLLPRI};
    }
    DL_FOREACH (handler->tasks, task) {
        *out++ = (struct pollfd){.fd = task->process.socket, .events = POLLIN};
    }
    out += zygotes_poll(handler->shared->zygotes, out);
    startings_poll(&handler->startings, out);
    workers_poll(handler->workers, out + handler->startings.n);
}

int handler_timeout_us(const struct handler *handler)
{
    const struct ending *ending;
    int64_t now_us = clock_mono_us(), soonest = HANDLE_TASK_LOOK_US;

    if (busy_n(handler) == 0) {
        return -1;
    }
    DL_FOREACH (handler->endings, ending) {
        int64_t left = ending->look_us > now_us ? ending->look_us - now_us : 0;
        soonest = left < soonest ? left : soonest;
    }
    return (int)soonest;
}

void handler_answer_plain(struct handler *handler, uint64_t client,
                          const struct keeper_answer *answer)
{
    handler->answer(handler->ctx, client, answer, NULL, 0);
}

/* ---- the requests ---- */

static void handle_hello(struct handler *handler, uint64_t client, const struct keeper_request *req)
{
    struct err err = {0};
    struct keeper_answer answer = answer_to(req, 0, &err);

    answer_status(handler->shared, &answer.state);
    int r = name_list_jails(&handler->names, handler->shared, &err);
    for (size_t i = 0; r == 0 && i < handler->names.n; i++) {
        answer.state.jails += cgroups_populated(handler->shared->groups, handler->names.ids[i]);
    }
    handler_answer_plain(handler, client, &answer);
}

uint32_t handler_jail_fds(const struct jail *jail, int out[KEEPER_FDS_MAX])
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
    handler->answer(handler->ctx, client, &answer, fds, handler_jail_fds(jail, fds));
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
    remove_and_answer(handler, client, req->id, made, &answer);
}

static void handle_attach(struct handler *handler, uint64_t client,
                          const struct keeper_request *req)
{
    struct err err = {0};
    scoped(jail_closep) struct jail jail = JAIL_NONE;

    int r = jail_attach(handler->shared, req->id, &req->jail, req->plan.network == 1, &jail, &err);
    if (r == 0) {
        answer_jail(handler, client, req, &jail);
        return;
    }
    struct keeper_answer answer = answer_to(req, r, &err);
    handler_answer_plain(handler, client, &answer);
}

static void handle_sockets(struct handler *handler, uint64_t client,
                           const struct keeper_request *req)
{
    struct err err = {0};
    int fds[KEEPER_SOCKETS_MAX];
    int r = jail_sockets_open(handler->shared, req->id, &req->jail, fds, req->sockets_n, &err);
    struct keeper_answer answer = answer_to(req, r, &err);

    if (r < 0) {
        handler_answer_plain(handler, client, &answer);
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

    if (handler->endings_n + workers_jobs(handler->workers, KEEPER_DESTROY) >= HANDLE_ENDINGS_MAX) {
        int r = err_set(&err, EAGAIN, "the keeper ends %d jails already", HANDLE_ENDINGS_MAX);
        answer = answer_to(req, r, &err);
        handler_answer_plain(handler, client, &answer);
        return;
    }
    if (earlier) { /* a jail that is to be destroyed is not restored again */
        free(earlier->retry);
        earlier->retry = NULL;
    }
    if (!workers_take(handler->workers, client, req)) {
        ending_begin(handler, client, req->id, JAIL_ALL, &answer);
    }
}

static void handle_list_saved(struct handler *handler, uint64_t client,
                              const struct keeper_request *req)
{
    struct name_list *names = &handler->saved;
    struct err err = {0};
    int r = 0;

    if (!req->save.name[0]) {
        names->n = 0;
        r = saved_each(handler->shared->pool, name_list_add, names, &err);
        name_list_sort(names);
    }
    const char *next = r == 0 ? name_list_after(names, req->save.name) : NULL;
    if (r == 0 && !next) {
        r = err_set(&err, ENOENT, "no more are saved");
    }
    struct keeper_answer answer = answer_to(req, r, &err);
    if (next) {
        memcpy(answer.saved.name, next, strlen(next));
    }
    handler_answer_plain(handler, client, &answer);
}

/* A request from the start, and HELLO, read the names again. All clients in the middle of a listing
 * share the list: they continue after the name they have, in the current list. */
static void handle_list(struct handler *handler, uint64_t client, const struct keeper_request *req)
{
    struct err err = {0};
    int r = req->id[0] ? 0 : name_list_jails(&handler->names, handler->shared, &err);
    const char *next = r == 0 ? name_list_after(&handler->names, req->id) : NULL;

    if (r == 0 && !next) {
        r = err_set(&err, ENOENT, "there are no more jails");
    }
    struct keeper_answer answer = answer_to(req, r, &err);
    if (next) {
        memcpy(answer.id, next, strlen(next) + 1);
    }
    handler_answer_plain(handler, client, &answer);
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
        [KEEPER_FORGET] = handle_forget,
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
    answer = r < 0 ? answer_to(req, r, &err) : answer_at_once(handler->shared, req);
    handler_answer_plain(handler, client, &answer);
}
