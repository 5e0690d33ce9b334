/* starting.h - jails whose first process is on its way to the agent.
 *
 * Between the moment it is handed its root and the moment it is the agent there is nothing for the
 * keeper to do: others are served meanwhile, so that several jails come up side by side.
 *
 * Owns:    the list, and of each jail what has been made of it.
 * Needs:   jail.h.
 * Blocks:  as jail_begin(). While STARTING_MAX are on their way, others wait for their turn.
 * Threads: one.
 */
#ifndef JAIL_STARTING_H
#define JAIL_STARTING_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>

#include "keeper/jail/jail.h"

enum { STARTING_MAX = 4, STARTING_QUEUED_MAX = 64 };

/* Once for each: status 0, and `jail` is the agent's; or -errno and err, and `made` is to be
 * undone. Descriptors of the jail stay the list's. */
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

/* -EAGAIN, to done, when STARTING_QUEUED_MAX wait already. */
void starting_begin(struct startings *all, uint64_t client, const struct keeper_request *req);
/* Also of those that wait. */
bool starting_has(const struct startings *all, const char *id);

/* Goes on with those that are there, or took too long, and begins with others in their place. */
void startings_step(struct startings *all);
void startings_poll(const struct startings *all, struct pollfd *out); /* n of them */

/* In a process forked for other work: those that wait are the keeper's alone. */
void startings_leave(struct startings *all);
void startings_free(struct startings *all);

#endif
