#include "keeper/jail/starting.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "lib/base/alloc.h"
#include "lib/base/clock.h"

struct starting {
    struct starting *prev, *next;
    uint64_t client;
    struct keeper_request req;
    struct jail jail;
    unsigned made;
    int socket; /* connected to its first process */
    int64_t deadline_ms;
};

static void starting_free(struct startings *all, struct starting *it)
{
    DL_DELETE(all->list, it);
    all->n--;
    jail_closep(&it->jail);
    fd_closep(&it->socket);
    free(it);
}

static void tell(struct startings *all, const struct starting *it, int status,
                 const struct err *err)
{
    all->done(all->ctx, it->client, &it->req, status, err, &it->jail, it->made);
}

/* The process has reported, or its time is up. */
static void finish(struct startings *all, struct starting *it)
{
    struct err err = {0};
    int r = jail_finish(all->shared, it->req.id, &it->req.plan, it->socket, &it->jail, &err);

    tell(all, it, r, &err);
    starting_free(all, it);
}

static bool is_there(const struct starting *it)
{
    struct pollfd ready = {.fd = it->socket, .events = POLLIN};

    return poll(&ready, 1, 0) != 0;
}

static void begin(struct startings *all, struct starting *it)
{
    struct err err = {0};
    const struct keeper_request *req = &it->req;

    DL_APPEND(all->list, it);
    all->n++;
    int r = jail_begin(all->shared, req->id, &req->plan, &it->jail, &it->socket, &it->made, &err);
    if (r < 0) {
        tell(all, it, r, &err);
        starting_free(all, it);
        return;
    }
    it->deadline_ms = clock_mono_ms() + JAIL_START_TIMEOUT_MS;
}

/* Work may have been done before: with plan.from, the disk exists. */
static void refuse(struct startings *all, struct starting *it)
{
    struct err err = {0};
    int r = err_set(&err, EAGAIN, "%d jails wait to be started already", STARTING_QUEUED_MAX);

    it->made = it->req.plan.from[0] && !it->req.plan.keeps_disk ? JAIL_DISK : 0;
    tell(all, it, r, &err);
    free(it);
}

void starting_begin(struct startings *all, uint64_t client, const struct keeper_request *req)
{
    struct starting *it = xnew(struct starting);

    *it = (struct starting){.client = client, .req = *req, .socket = -1, .jail = JAIL_NONE};
    if (all->n < STARTING_MAX && !all->queue) {
        begin(all, it);
    } else if (all->queue_n < STARTING_QUEUED_MAX) {
        DL_APPEND(all->queue, it);
        all->queue_n++;
    } else {
        refuse(all, it);
    }
}

static bool list_has(const struct starting *list, const char *id)
{
    const struct starting *it;

    DL_FOREACH (list, it) {
        if (strcmp(it->req.id, id) == 0) {
            return true;
        }
    }
    return false;
}

bool starting_has(const struct startings *all, const char *id)
{
    return list_has(all->list, id) || list_has(all->queue, id);
}

void startings_step(struct startings *all)
{
    struct starting *it, *next;
    int64_t now_ms = clock_mono_ms();

    DL_FOREACH_SAFE (all->list, it, next) {
        if (is_there(it) || now_ms >= it->deadline_ms) {
            finish(all, it);
        }
    }
    while (all->n < STARTING_MAX && (it = all->queue)) {
        DL_DELETE(all->queue, it);
        all->queue_n--;
        begin(all, it);
    }
}

void startings_poll(const struct startings *all, struct pollfd *out)
{
    const struct starting *it;

    DL_FOREACH (all->list, it) {
        *out++ = (struct pollfd){.fd = it->socket, .events = POLLIN};
    }
}

void startings_leave(struct startings *all)
{
    struct starting *it;

    DL_FOREACH (all->list, it) {
        fd_closep(&it->socket);
        jail_closep(&it->jail);
    }
}

/* The first processes continue, as after the keeper's death: the server finds the jails by
 * listing. */
void startings_free(struct startings *all)
{
    while (all->list) {
        starting_free(all, all->list);
    }
    while (all->queue) {
        struct starting *it = all->queue;
        DL_DELETE(all->queue, it);
        free(it);
    }
}
