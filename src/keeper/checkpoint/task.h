/* task.h - long work in a process of its own, while the keeper continues.
 *
 * The process is a fork of the keeper, without its clients and its locks. Its result comes through
 * a socket, with descriptors. A process that ends without a result has failed.
 *
 * A task outlives neither the keeper nor its deadline. When the keeper dies or has waited too
 * long, the task gets TASK_LEAVE_SIGNAL. Most tasks then kill their group, and so themselves:
 * the keeper, or the next one, cleans up. A task that has frozen a jail must release it first: it
 * is "orderly", and has TASK_LEAVE_MS for that before its group is killed.
 *
 * Owns:    in the keeper, the socket and the pidfd; in a task, the signals.
 * Blocks:  never.
 * Threads: one.
 */
#ifndef CHECKPOINT_TASK_H
#define CHECKPOINT_TASK_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "lib/base/compiler.h"
#include "lib/base/err.h"
#include "wire/keeper.h"

enum {
    TASK_LEAVE_MS = 15 * 1000,
    TASK_LEAVE_SIGNAL = SIGUSR1,
    TASK_GROUPS_MAX = 2,
};

/* Forks, with a socket between the two processes: returns the pid, and 0 in the child. *socket is
 * each one's end, *pidfd is set in the parent only. With group_fd the child starts in that v2
 * group, which is milliseconds faster than moving it there; -1: in the caller's. `what` is used in
 * the error sentence. */
must_check pid_t task_fork(const char *what, int group_fd, int *socket, int *pidfd,
                           struct err *err);

struct task_result {
    int32_t status; /* 0 or -errno */
    uint32_t fds_n;
    uint32_t made; /* on failure: the parts to remove, of enum jail_part */
    struct err err;
    struct keeper_jail jail;
    uint32_t channel;     /* as in keeper_answer */
    uint32_t shares;      /* likewise */
    uint32_t zygote_lost; /* a zygote was to be used and did not answer as it should */
    struct keeper_saved saved;
};

/* The body of the task: fills the result, whose descriptors are sent with it. */
typedef void task_function(void *ctx, struct task_result *result, int fds[KEEPER_FDS_MAX]);

struct task {
    int socket; /* readable when there is a result, or none will come; -1: none */
    int pidfd;
};
#define TASK_NONE                                                                                  \
    {                                                                                              \
        .socket = -1, .pidfd = -1                                                                  \
    }

/* Starts the task in that v2 group. `enter` is called first in the new process, to close
 * descriptors that it must not hold. */
must_check int task_start(int group_fd, void (*enter)(void *ctx), task_function *function,
                          void *ctx, struct task *out, struct err *err);

/* Takes the result and its descriptors, which the caller owns. False when there was none; then the
 * result has an error that says so. */
bool task_take(const struct task *task, struct task_result *result, int fds[KEEPER_FDS_MAX]);

/* Asks the task to leave. Does nothing when it has ended. */
void task_leave(const struct task *task);
void task_closep(struct task *task);

/* ---- in the task ---- */

/* Adds a v2 group that is killed when this process leaves: the jail that it is restoring. */
must_check int task_takes_along(int group_fd, struct err *err);

/* From here on the task is orderly: on a request to leave, `leave` (or nothing) is called once,
 * from a signal handler, and must make the current wait end. */
void task_orderly(void (*leave)(void *ctx), void *ctx);

/* Whether an orderly task was asked to leave. Nothing new is begun then. */
bool task_leaving(void);

/* Makes this process end with its parent. The kernel forgets this at each change of credentials:
 * call it again after each. Does not return when the parent is gone. */
void task_die_with_parent(void);

/* Called in a child of a task that executes another program: it is killed when the task
 * ends. */
void task_child_die_with_parent(pid_t parent);

#endif
