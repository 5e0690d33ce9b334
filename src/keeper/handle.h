/* handle.h - what the keeper does with a request that has been checked.
 *
 * Most requests are answered at once, a create when its agent runs (starting.h). One that must wait
 * for processes to exit (destroy, and a create that failed half way) is kept, and its answer comes
 * out of handler_settle() when nothing of the jail is left. What takes long (save, restore, the
 * copy of a disk) is done in a process of its own (task.h), one for a jail at a time, and answered
 * likewise. An answer nobody waits for any more is dropped: the work is done all the same.
 *
 * Owns:    the lists of ending jails and of work elsewhere, and the last listings. Blocks as jail.h
 * does. One thread.
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
    HANDLE_END_TIMEOUT_MS = 30 * 1000,       /* then the answer says what still holds the jail */
    HANDLE_WORK_TIMEOUT_MS = 15 * 60 * 1000, /* then it is given up (task.h) */
    HANDLE_PACK_TIMEOUT_MS = 6 * 60 * 60 * 1000, /* which is slow on purpose */
    HANDLE_WORKS_MAX = 64,     /* at one time: each is a process, or several. A server has 16 */
    HANDLE_ENDINGS_MAX = 4096, /* that a server asked for; each holds a descriptor */
    HANDLE_WORK_LOOK_US = 900 * 1000,
    HANDLE_RETRY_US_MIN = 2 * 1000, /* doubled after each look: mostly the event comes first, but */
    HANDLE_RETRY_US_MAX = 10 * 1000, /* the kernel holds events of one group back that long */
};

struct handler;

/* `client` is the number a request came with. Descriptors stay the handler's. */
typedef void handler_answer(void *ctx, uint64_t client, const struct keeper_answer *answer,
                            const int *fds, size_t fds_n);

/* Called in a process that was forked for a long piece of work: closes what is the caller's. */
typedef void handler_child(void *ctx);

struct handler *handler_new(struct jail_kit *kit, handler_answer *answer, handler_child *child,
                            void *ctx);
void handler_free(struct handler *handler);

void handler_request(struct handler *handler, uint64_t client, const struct keeper_request *req);

/* Goes on with what has started and what has ended. Call when a descriptor of handler_poll() is
 * ready, and after handler_timeout_us(); before any request, for `polled` is what handler_poll()
 * filled, with its answers. */
void handler_settle(struct handler *handler, const struct pollfd *polled);
size_t handler_poll_n(const struct handler *handler);
void handler_poll(const struct handler *handler, struct pollfd *out);
int handler_timeout_us(const struct handler *handler); /* -1: nothing is ending */

#endif
