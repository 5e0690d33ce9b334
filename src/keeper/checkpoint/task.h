/* task.h - work that takes long, done in a process of its own while the keeper goes on.
 *
 * The process is a fork of the keeper: it has what the keeper has, less its clients and its locks,
 * and its result comes through a socket with what descriptors there are. One that ends without a
 * result has failed.
 *
 * It does not outlive the keeper, nor its time. When the keeper dies, or has waited for too long,
 * the worker is told to leave (TASK_LEAVE_SIGNAL): most kill their group at once, and so
 * themselves, for what they leave is mended by the keeper, or by the next one. A worker that holds
 * the processes of a jail must let go of them first: it is orderly, and has TASK_LEAVE_MS for that
 * before its group is killed all the same.
 *
 * Owns:    in the keeper, nothing but the socket and the pidfd; in a worker, the signals.
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

/* A fork with a socket between the two: returns its pid, and 0 in the new process; *socket is each
 * one's end, *pidfd the parent's alone. With group_fd, it is in that v2 group from its birth, which
 * is milliseconds sooner than moving it there; -1: in the caller's. `what` is for the sentence. */
must_check pid_t task_fork(const char *what, int group_fd, int *socket, int *pidfd,
                           struct err *err);

struct task_result {
    int32_t status; /* 0 or -errno */
    uint32_t fds_n;
    uint32_t made; /* on failure: what there is to undo, of enum jail_part */
    struct err err;
    struct keeper_jail jail;
    uint32_t channel; /* of keeper_answer */
    struct keeper_saved saved;
};

/* What is done there: fills the result, whose descriptors go along with it. */
typedef void task_work(void *ctx, struct task_result *result, int fds[KEEPER_FDS_MAX]);

struct task {
    int socket; /* can be read when there is a result, or none will come; -1: none */
    int pidfd;
};
#define TASK_NONE                                                                                  \
    {                                                                                              \
        .socket = -1, .pidfd = -1                                                                  \
    }

/* Starts the work in that v2 group. `enter` is called first, in the new process, to close what is
 * not its business. */
must_check int task_start(int group_fd, void (*enter)(void *ctx), task_work *work, void *ctx,
                          struct task *out, struct err *err);

/* Takes the result, with its descriptors, which are the caller's. False when there was none; then
 * the result says so. */
bool task_take(const struct task *task, struct task_result *result, int fds[KEEPER_FDS_MAX]);

/* Tells it to leave. Fine when it has ended. */
void task_leave(const struct task *task);
void task_closep(struct task *task);

/* ---- in the worker ---- */

/* A v2 group that is killed when this process leaves: the jail that it is restoring. */
must_check int task_takes_along(int group_fd, struct err *err);

/* From here on it leaves in order: `leave`, if there is one, is called from a signal's handler,
 * once, and makes whatever the work waits for come to an end. */
void task_orderly(void (*leave)(void *ctx), void *ctx);

/* Whether an orderly one was told to. Nothing new is begun then. */
bool task_leaving(void);

/* A change of credentials makes the kernel forget that this process ends with its parent: called
 * again after each. Does not return when the parent is gone. */
void task_tie(void);

/* In a child of a worker that becomes another program: it is killed when the worker ends. */
void task_tie_child(pid_t parent);

#endif
