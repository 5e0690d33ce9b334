/* criu.h - CRIU, which writes processes to files and makes them again: `criu swrk`, a program that
 * is told what to do over a socket and asks back at certain steps.
 *
 * Owns:    the program's process, from criu_start() to criu_stop(). The kernel kills it when its
 *          starter dies; what it was restoring is killed with its group (task_takes_along()).
 * Needs:   root, and a mount namespace with the host's /proc and a /run of its own: CRIU keeps what
 *          it found out about the kernel there. SIGCHLD at its default.
 * Blocks:  criu_run() until it is done.
 */
#ifndef CHECKPOINT_CRIU_H
#define CHECKPOINT_CRIU_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "keeper/checkpoint/ptrace_proxy.h"
#include "lib/base/compiler.h"
#include "lib/base/err.h"

enum {
    CRIU_PATH_BYTES = 1024,
    CRIU_VERSION_MIN = 40200, /* older ones cannot dump a TCP socket on current kernels */
};

#define CRIU_LOG "criu.log"
#define CRIU_PROGRAMS "/run/bin" /* where CRIU looks first for the programs it starts */

/* Where it is. One that was unpacked from another release brings its own libraries. */
struct criu_program {
    char path[CRIU_PATH_BYTES];
    char loader[CRIU_PATH_BYTES]; /* "" for one that is installed */
    char libraries[CRIU_PATH_BYTES];
    int version; /* major * 10000 + minor * 100 + sublevel */
};

/* Whether a seccomp filter holds for a process (0: this one). The kernel does not let such a
 * process suspend the filter of another, which every save does. */
bool criu_is_hindered(pid_t pid);

/* Looks where `make install` puts it, then where `make deps-criu` unpacks it to, then for the
 * system's own, and takes the first that is new enough. -ENOENT with a sentence when there is none.
 * Needs SIGCHLD at its default. */
must_check int criu_find(struct criu_program *out, struct err *err);

struct criu_job {
    pid_t pid; /* dump this one and all below it; 0: restore */
    int images_fd;
    int work_fd;         /* CRIU_LOG is written there */
    bool terse;          /* with what is wrong alone */
    const char *freezer; /* dump: the directory of its frozen group */
    const char *root;    /* restore: where the root filesystem is mounted */
    bool tcp_close;      /* restore: connections are closed rather than continued */
    char **externals;    /* "mnt[...]:..." */
    size_t externals_n;
    /* At each step CRIU tells of; anything but 0 makes it fail. */
    int (*step)(void *ctx, const char *step, pid_t pid);
    void *ctx;
};

/* The program, started and waiting for its job: what it takes to start need not be waited for by a
 * jail that stands still. */
struct criu {
    pid_t pid;
    int pidfd;
    int socket;                 /* -1 when it is not running */
    struct ptrace_proxy *proxy; /* that stands between it and the jail, for a dump; else NULL */
};

/* It begins in that v2 group, or, with -1, in the caller's; `enter` is called in the new process
 * before it is the program. What is restored inherits both. */
must_check int criu_start(const struct criu_program *program, int group_fd, int (*enter)(void *ctx),
                          void *ctx, struct criu *out, struct err *err);
#define CRIU_NONE                                                                                  \
    {                                                                                              \
        .pidfd = -1, .socket = -1                                                                  \
    }
/* Does its one job, after which it ends. The pid that was restored, or 0 when it was a dump. On
 * failure the sentence is short: the log has the reason. */
must_check int criu_run(const struct criu *criu, const struct criu_job *job, struct err *err);
/* For a handler of a signal: the run that it is in fails. Fine when there is none. */
void criu_kill(const struct criu *criu);
/* Ends one that had no job, and waits for the end of any. Fine when there is none. */
void criu_stop(struct criu *criu);

#endif
