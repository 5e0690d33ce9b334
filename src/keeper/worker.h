/* worker.h - processes of the keeper that start and end jails.
 *
 * Most of what a create and a destroy cost is time in system calls, and one process makes one call
 * at a time. So a keeper on several processors has workers. The keeper still reads every request
 * and decides; a worker gets whole requests, CREATE and DESTROY, carries them out with a handler
 * (handle.h) of its own, and sends the answer back with its descriptors. Requests for one jail
 * never go to two processes at a time: workers_take() sees to that, and all that two processes may
 * do to one jail one after the other goes by the kernel's truth, as after a restart of the keeper.
 *
 * A worker that dies takes nothing along: what it was ending is ended by the keeper, what it was
 * starting is removed and answered as failed, and another worker takes its place. When the keeper
 * dies, its workers end after the system call they are in; the next keeper waits for that
 * (cgroups_task_sweep()).
 *
 * Owns:    the processes, and the requests that they have.
 * Needs:   a handler; jail.h in every worker.
 * Blocks:  never on a worker, except workers_free(), for a moment.
 * Threads: one.
 */
#ifndef KEEPER_WORKER_H
#define KEEPER_WORKER_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/keeper.h"

enum {
    WORKERS_MAX = 32,
    WORKERS_AUTO_MAX = 8,     /* more would only wait for each other in the kernel */
    WORKER_JOBS_MAX = 16,     /* creates that one worker has at a time */
    WORKER_RESTART_MS = 1000, /* between two attempts to replace workers that could not start */
    WORKER_END_TIMEOUT_MS = 2000,
    WORKER_POLLED = 2, /* descriptors of a worker: its socket, and its process */
};

struct handler;
struct workers;

/* How many workers a keeper has: `wanted`, or with 0 as many as it may use processors. Fewer than
 * two are none: the keeper does the work itself. */
size_t workers_count(uint32_t wanted);

/* Starts them. A worker that cannot be started is left out: the keeper works without. */
struct workers *workers_new(struct handler *handler, size_t n);
void workers_free(struct workers *workers);

/* Gives the request to a worker. False when the keeper must carry it out itself. */
bool workers_take(struct workers *workers, uint64_t client, const struct keeper_request *req);

/* Whether a worker has that request for the jail; 0 for op: any. */
bool workers_have(const struct workers *workers, const char *id, uint32_t op);
size_t workers_jobs(const struct workers *workers, uint32_t op);

/* Forwards answers, and replaces workers that have ended. `polled` is what workers_poll() filled.
 */
void workers_settle(struct workers *workers, const struct pollfd *polled);
size_t workers_poll_n(const struct workers *workers);
void workers_poll(const struct workers *workers, struct pollfd *out);

/* In a process that the keeper forked: closes the descriptors of all workers. */
void workers_leave(struct workers *workers);

#endif
