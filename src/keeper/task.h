/* task.h - work that takes long, done in a process of its own while the keeper goes on.
 *
 * The process is a fork of the keeper: it has what the keeper has, less its clients and the lock on
 * the pool, and its result comes through a socket with what descriptors there are. One that ends
 * without a result has failed. It does not end with the keeper: what it leaves, if it is cut short,
 * is mended when the next keeper starts.
 *
 * Owns:    nothing but the socket.
 * Threads: one.
 */
#ifndef KEEPER_TASK_H
#define KEEPER_TASK_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/compiler.h"
#include "base/err.h"
#include "keeper/keeper.h"

/* A fork with a socket between the two: returns its pid, and 0 in the new process; *socket is each
 * one's end. With group_fd, it is in that v2 group from its birth, which is milliseconds sooner
 * than moving it there; -1: in the caller's. `what` is for the sentence. */
must_check pid_t task_fork(const char *what, int group_fd, int *socket, struct err *err);

struct task_result {
    int32_t status; /* 0 or -errno */
    uint32_t fds_n;
    uint32_t made; /* on failure: what there is to undo, of enum jail_part */
    struct err err;
    struct keeper_jail jail;
    struct keeper_saved saved;
};

/* What is done there: fills the result, whose descriptors go along with it. */
typedef void task_work(void *ctx, struct task_result *result, int fds[KEEPER_FDS_MAX]);

/* Returns a socket that can be read when there is a result, or none will come. It is done in that
 * v2 group. `enter` is called first, in the new process, to close what is not its business. */
must_check int task_start(int group_fd, void (*enter)(void *ctx), task_work *work, void *ctx,
                          struct err *err);

/* Takes the result, with its descriptors, which are the caller's. False when there was none; then
 * the result says so. */
bool task_take(int socket, struct task_result *result, int fds[KEEPER_FDS_MAX]);

#endif
