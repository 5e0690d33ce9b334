/* handle.h - carries out requests to the keeper that have been checked.
 *
 * Most requests are answered at once, a create when its agent runs (starting.h). A request that
 * waits for processes to exit (destroy, and a create that failed) is kept in a list (ending.c), and
 * handler_settle() answers it when nothing of the jail is left. Long work (save, restore, the copy
 * of a disk) runs in a process of its own (request_task.c, task.h), one per jail at a time, and is
 * answered by handler_settle() too. Most creates and destroys go to workers, where the keeper has
 * some (worker.h), each with a handler of its own. When the client is gone the answer is dropped;
 * the work is still done.
 *
 * Owns:    the lists of ending jails and of work, and the last listings.
 * Blocks:  as jail.h does.
 * Threads: one.
 */
#ifndef KEEPER_HANDLE_H
#define KEEPER_HANDLE_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "keeper/jail/jail.h"
#include "wire/keeper.h"

enum {
    HANDLE_END_TIMEOUT_MS = 30 * 1000,              /* then the answer says what holds the jail */
    HANDLE_TASK_TIMEOUT_MS = 15 * 60 * 1000,        /* then the process is ended (task.h) */
    HANDLE_PACK_TIMEOUT_MS = 6 * 60 * 60 * 1000,    /* it is slow on purpose */
    HANDLE_TRAVEL_TIMEOUT_MS = 12 * 60 * 60 * 1000, /* a client may be slow, but must go on */
    HANDLE_TASKS_MAX = 64,     /* at one time, each one or more processes; a server asks for 16 */
    HANDLE_ENDINGS_MAX = 4096, /* asked for by a server; each holds a descriptor */
    HANDLE_TASK_LOOK_US = 900 * 1000,
    HANDLE_RETRY_US_MIN = 2 * 1000,  /* doubled after each attempt. Mostly an event comes first, */
    HANDLE_RETRY_US_MAX = 10 * 1000, /* but the kernel may delay events of a group by 10 ms */
};

struct handler;

/* Sends an answer to the client with that number. The handler still owns the descriptors. */
typedef void handler_answer(void *ctx, uint64_t client, const struct keeper_answer *answer,
                            const int *fds, size_t fds_n);

/* Called in a process that was forked for long work: closes the descriptors of the caller. */
typedef void handler_child(void *ctx);

struct handler *handler_new(struct jail_shared *shared, handler_answer *answer,
                            handler_child *child, void *ctx);
void handler_free(struct handler *handler);
/* Starts that many workers. */
void handler_workers(struct handler *handler, size_t n);

void handler_request(struct handler *handler, uint64_t client, const struct keeper_request *req);

/* Continues with jails and work that have started or ended. Call it when a descriptor of
 * handler_poll() is ready and after handler_timeout_us(), before any request: `polled` is the array
 * that handler_poll() filled, with the events. */
void handler_settle(struct handler *handler, const struct pollfd *polled);
size_t handler_poll_n(const struct handler *handler);
void handler_poll(const struct handler *handler, struct pollfd *out);
int handler_timeout_us(const struct handler *handler); /* -1: nothing is ending */

#endif
