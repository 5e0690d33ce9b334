/* child.h - a process we started: its group, its two outputs as raw bytes, its end.
 *
 * Owns:     the process and every process of its session, our ends of its pipes.
 * Needs:    a libuv loop. Blocks: never. Threads: the loop's.
 *
 * The child leads a session of its own, so that a signal reaches what it started. Output is read
 * only while it flows (child_flow): a program that writes faster than its reader reads is stopped
 * by its full pipe.
 */
#ifndef CHILD_CHILD_H
#define CHILD_CHILD_H

#include <stdbool.h>
#include <uv.h>

#include "lib/base/err.h"
#include "lib/base/str.h"

enum {
    CHILD_PIPE_BYTES = 64 * 1024, /* what a pipe holds, and what is read of one in a go */
    CHILD_TAIL_BYTES = 4 * 1024,  /* of the last output, kept for the report of its end */
    CHILD_INHERITED = 2,          /* descriptors 3 and 4 of the child */
};

struct child;

struct child_handler {
    void (*on_output)(void *ctx, bool is_error, struct str bytes);
    void (*on_exit)(void *ctx, int64_t status, int signal); /* all output was handed out before */
};

struct child_user {
    uid_t uid;
    gid_t gid;
};

struct child_options {
    uv_loop_t *loop;
    char **argv;
    char **env; /* ended by NULL */
    const char *cwd;
    int input;                      /* its standard input, borrowed; -1: /dev/null */
    int inherited[CHILD_INHERITED]; /* -1: none; borrowed */
    const struct child_user *user;  /* NULL: ours */
    bool tail_of_errors;            /* the tail is of standard error alone */
    const struct child_handler *handler;
    void *ctx;
};

must_check int child_start(const struct child_options *options, struct child **out,
                           struct err *err);

void child_signal(struct child *child, int signal); /* to the group */
void child_flow(struct child *child, bool flows);

/* Hands out what its pipes hold at this moment, whether it flows or not. */
void child_drain(struct child *child);

/* Its last output since the start or the last clear: bytes, perhaps no UTF-8. */
struct str child_tail(const struct child *child);
void child_tail_clear(struct child *child);

/* Kills the rest of its session. No callback comes after it. Accepts NULL. */
void child_free(struct child *child);

#endif
