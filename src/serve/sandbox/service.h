/* service.h - a jail that is no sandbox: for the daemon's own work on what tenants made.
 *
 * It has an empty root, no network, and one volume at CHANNEL_VOLUME; its pid 1 is the agent, as in
 * any jail. So hostile names and trees are read where they can do no harm. No list shows this jail.
 * A jail that a dead daemon left is destroyed when the next daemon starts.
 *
 * Owns:     the jail, its uid range, the channel to its agent.
 * Needs:    adoption to be over.
 * Blocks:   never.
 * Threads:  the loop's.
 */
#ifndef SANDBOX_SERVICE_H
#define SANDBOX_SERVICE_H

#include "serve/sandbox/sandbox.h"

enum {
    SERVICE_MEMORY_MB = 256,
    SERVICE_DISK_MB = 16,
    SERVICE_PIDS = 32,
    SERVICE_CPU_MILLIS = 1000,
};

struct service;

struct service_handler {
    /* Once, never inside service_new(): it can be dialed, or it could not be started. */
    void (*ready)(void *ctx, int error, const struct err *err);
    /* Once, after a good `ready`: it has ended by itself. */
    void (*gone)(void *ctx);
};

/* -EAGAIN before adoption is over, -ENOSPC when all uid ranges are taken. */
must_check int service_new(struct sandboxes *all, const char *volume,
                           const struct service_handler *handler, void *ctx, struct service **out,
                           struct err *err);

/* A socket to the agent on which it takes the daemon's own requests; as sandbox_dial(). */
void service_dial(struct service *service, void (*done)(void *ctx, int fd_or_error), void *ctx);

/* The jail ends. Dials that wait are told -ENOTCONN. NULL is fine. */
void service_free(struct service *service);

#endif
