/* starting.h - jails whose first process is on its way to become the agent.
 *
 * The keeper has nothing to do between sending the root and the start of the agent: it serves other
 * requests meanwhile, so that several jails start side by side.
 *
 * Owns:    the list, and the parts of each jail that were made.
 * Needs:   jail.h.
 * Blocks:  as jail_begin(). While STARTING_MAX jails start, others wait in a queue.
 * Threads: one.
 */
#ifndef JAIL_STARTING_H
#define JAIL_STARTING_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>

#include "keeper/jail/jail.h"

enum { STARTING_MAX = 4, STARTING_QUEUED_MAX = 64 };

/* Called once for each jail. Status 0: the agent runs, and `jail` has its descriptors, which the
 * list owns. Else -errno with err, and `made` has the parts to remove. */
typedef void starting_done(void *ctx, uint64_t client, const struct keeper_request *req, int status,
                           const struct err *err, const struct jail *jail, unsigned made);

struct starting;
struct startings {
    struct jail_shared *shared;
    starting_done *done;
    void *ctx;
    struct starting *list; /* the oldest first */
    size_t n;
    struct starting *queue; /* not begun; the oldest first */
    size_t queue_n;
};

/* Calls done with -EAGAIN when STARTING_QUEUED_MAX jails wait already. */
void starting_begin(struct startings *all, uint64_t client, const struct keeper_request *req);
/* True for jails in the queue too. */
bool starting_has(const struct startings *all, const char *id);

/* Continues with jails that have started or took too long, and starts others from the queue. */
void startings_step(struct startings *all);
void startings_poll(const struct startings *all, struct pollfd *out); /* n of them */

/* Called in a process forked for other work: drops the queue and the list, which belong to the
 * keeper. */
void startings_leave(struct startings *all);
void startings_free(struct startings *all);

#endif
