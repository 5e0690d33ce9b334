/* criu.h - runs CRIU, which writes processes to files and restores them: `criu swrk`, which takes
 * its job over a socket, and calls back at certain steps.
 *
 * Owns:    the process of CRIU, from criu_start() to criu_stop(). The kernel kills it when its
 *          parent dies; processes that it was restoring are killed with their group
 *          (task_takes_along()).
 * Needs:   root, SIGCHLD at its default, and a mount namespace with the host's /proc and a /run of
 *          its own, where CRIU caches features of the kernel.
 * Blocks:  criu_run() until the job is done.
 * Threads: one.
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
    CRIU_VERSION_MIN = 40200, /* older versions cannot dump a TCP socket on current kernels */
};

#define CRIU_LOG "criu.log"
#define CRIU_PROGRAMS "/run/bin" /* the first directory of CRIU's PATH */

/* The program. A CRIU that was unpacked from another release brings its own libraries. */
struct criu_program {
    char path[CRIU_PATH_BYTES];
    char loader[CRIU_PATH_BYTES]; /* "" for an installed CRIU */
    char libraries[CRIU_PATH_BYTES];
    int version;  /* major * 10000 + minor * 100 + sublevel */
    int zygote;   /* the version of `criu zygote` (criu/README.md), or 0 */
    int lazyfill; /* the version of `criu swrk` with a pager, or 0 */
};

/* Whether a process (0: this one) has a seccomp filter. The kernel does not let such a process
 * suspend the filter of another, which every save does. */
bool criu_is_hindered(pid_t pid);

/* Finds CRIU where `make install` puts it, then where `make deps-criu` unpacks it, then the
 * system's, and takes the first that is new enough. -ENOENT with a sentence when there is none.
 * Needs SIGCHLD at its default. */
must_check int criu_find(struct criu_program *out, struct err *err);

/* Finds a CRIU with our patch, where `make install` puts it, then where `tools/deps criu-zygote`
 * builds it. -ENOENT with a sentence when there is none. Needs SIGCHLD at its default. */
must_check int criu_find_zygote(struct criu_program *out, struct err *err);

/* Becomes CRIU, in this process, with the default signals and no terminal. `words` ends with
 * NULL. */
_Noreturn void criu_exec_clean(const struct criu_program *program, char *const *words);

struct criu_job {
    pid_t pid; /* dump: this process and its descendants; 0: restore */
    int images_fd;
    int work_fd;         /* CRIU_LOG is written there */
    bool terse;          /* log errors only */
    const char *freezer; /* dump: directory of its frozen group */
    const char *root;    /* restore: where the root filesystem is mounted */
    bool tcp_close;      /* restore: connections are closed rather than continued */
    char **externals;    /* "mnt[...]:..." */
    size_t externals_n;
    /* Called at each step that CRIU reports; any result but 0 makes CRIU fail. */
    int (*step)(void *ctx, const char *step, pid_t pid);
    void *ctx;
};

/* A CRIU that was started and waits for its job: so a frozen jail need not wait for the start. */
struct criu {
    pid_t pid;
    int pidfd;
    int socket;                 /* -1 when it is not running */
    struct ptrace_proxy *proxy; /* for a dump; else NULL */
    bool cloned;                /* from a zygote: it is no child of this process */
};

/* CRIU starts in that v2 group, or with -1 in the caller's. `enter` is called in the new process
 * before exec(). Restored processes inherit both. */
must_check int criu_start(const struct criu_program *program, int group_fd, int (*enter)(void *ctx),
                          void *ctx, struct criu *out, struct err *err);
/* The same, for a restore that leaves memory to a pager: its socket, and /dev/userfaultfd. */
must_check int criu_start_lazy(const struct criu_program *program, int group_fd,
                               int (*enter)(void *ctx), void *ctx, const int lazy_fds[2],
                               struct criu *out, struct err *err);
#define CRIU_NONE                                                                                  \
    {                                                                                              \
        .pidfd = -1, .socket = -1                                                                  \
    }
/* Carries out one job, after which CRIU ends. Returns the pid that was restored, or 0 after a dump.
 * On failure the sentence is short: the log has the reason. */
must_check int criu_run(const struct criu *criu, const struct criu_job *job, struct err *err);
/* For a signal handler: makes the current run fail. Does nothing when there is none. */
void criu_kill(const struct criu *criu);
/* Ends a CRIU that had no job, and waits for the end of any. Does nothing when there is none. */
void criu_stop(struct criu *criu);

#endif
