#include "serve/sandbox/service.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/alloc.h"
#include "lib/base/fd.h"
#include "lib/base/log.h"
#include "serve/sandbox/internal.h"
#include "wire/channel.h"

struct service {
    struct sandboxes *all; /* counted */
    struct service_handler handler;
    void *ctx;
    char id[ID_SANDBOX_LEN + 1];
    char volume[KEEPER_VOLUME_BYTES];
    uint32_t uid_slot;
    struct keeper_jail jail;
    struct agent_channel *channel; /* NULL: not yet, or broken */
    bool waiting;                  /* for the keeper's answer, which frees a service that is over */
    bool over;                     /* service_free() was called */
};

static void service_destroy(struct service *service)
{
    sandboxes_release(service->all);
    free(service);
}

static void on_broken(void *ctx, const char *why, bool hostile)
{
    struct service *service = ctx;

    (void)hostile; /* its owner frees it now, and its jail ends */
    service->channel = NULL;
    log_warn("service jail %s: the channel to its agent broke: %s", service->id, why);
    service->handler.gone(service->ctx);
}

/* It starts no processes that could be killed for memory, and nobody reads its log. */
static void on_oom(void *ctx)
{
    struct service *service = ctx;

    agent_channel_answer_oom(service->channel, 0);
}

static void on_log(void *ctx, const struct sandbox_log *log)
{
    (void)ctx, (void)log;
}

static const struct agent_channel_handler channel_handler = {
    .on_broken = on_broken, .on_oom = on_oom, .on_log = on_log};

static void on_jail(void *ctx, const struct keeper_answer *answer, int fds[KEEPER_FDS_MAX])
{
    static const struct err none;
    struct service *service = ctx;
    struct err err;

    service->waiting = false;
    if (service->over) {
        service_destroy(service); /* the jail is in the destroy queue already */
        return;
    }
    if (answer->status < 0) {
        service->handler.ready(service->ctx, answer->status, &answer->err);
        return;
    }
    service->jail = answer->jail;
    if (fds[KEEPER_FD_CHANNEL] < 0) { /* this process had no room for it */
        int r = err_set(&err, EMFILE, "the jail's channel did not arrive: too many files are open");
        service->handler.ready(service->ctx, r, &err);
        return;
    }
    const struct agent_channel_jail jail =
        agent_channel_jail(service->all->use.keeper, service->id, CHANNEL_PAST_NONE, answer, fds);
    service->channel = agent_channel_new(service->all->use.loop, move_fd(&fds[KEEPER_FD_CHANNEL]),
                                         &jail, &channel_handler, service);
    service->handler.ready(service->ctx, 0, &none);
}

static void plan(const struct service *service, struct keeper_request *req)
{
    req->op = KEEPER_CREATE;
    memcpy(req->id, service->id, sizeof(service->id));
    memcpy(req->plan.hostname, service->id, sizeof(service->id));
    req->plan.uid_slot = service->uid_slot;
    req->plan.cpu_millis = SERVICE_CPU_MILLIS;
    req->plan.memory_mb = SERVICE_MEMORY_MB;
    req->plan.disk_mb = SERVICE_DISK_MB;
    req->plan.pids = SERVICE_PIDS;
    req->plan.volumes_n = 1;
    memcpy(req->plan.volumes[0].volume, service->volume, sizeof(service->volume));
    memcpy(req->plan.volumes[0].path, CHANNEL_VOLUME, sizeof(CHANNEL_VOLUME));
}

int service_new(struct sandboxes *all, const char *volume, const struct service_handler *handler,
                void *ctx, struct service **out, struct err *err)
{
    struct keeper_request req = {0};

    /* The search for jails that nobody knows would find this one. */
    if (all->adoption != ADOPT_READY) {
        return err_set(err, EAGAIN, "the daemon is still looking for its sandboxes; try again");
    }
    uint32_t slot = slots_take(&all->slots);
    if (slot == SLOT_NONE) {
        return err_set(err, ENOSPC, "this machine runs as many jails as it can (%d)",
                       KEEPER_UID_SLOTS);
    }
    struct service *service = xnew(struct service);
    *service = (struct service){.all = all, .handler = *handler, .ctx = ctx, .uid_slot = slot};
    all->refs++;
    id_sandbox(service->id);
    (void)str_copy(service->volume, sizeof(service->volume), str_of(volume));
    plan(service, &req);
    service->waiting = true;
    keeper_client_ask_for(all->use.keeper, service->volume, &req, on_jail, service);
    *out = service;
    return 0;
}

void service_dial(struct service *service, void (*done)(void *ctx, int fd_or_error), void *ctx)
{
    if (service->channel) {
        agent_channel_connect(service->channel, CHANNEL_PORT_CONTROL, done, ctx);
    } else {
        done(ctx, -ENOTCONN);
    }
}

void service_free(struct service *service)
{
    if (!service) {
        return;
    }
    service->over = true;
    agent_channel_close(move_ptr(&service->channel));
    destroy_jail(service->all, service->id, &service->jail, service->uid_slot);
    if (!service->waiting) {
        service_destroy(service);
    }
}
