/* run.h - a command inside a sandbox, run by its agent.
 *
 * Owns:     the connection to the agent on which the command is followed.
 * Needs:    a sandbox whose agent has its configuration.
 * Blocks:   never.
 * Threads:  the loop's.
 *
 * The process belongs to the jail: it goes on when its run is left. A slow reader slows the
 * command, since output is read only as fast as it is passed on.
 */
#ifndef SANDBOX_RUN_H
#define SANDBOX_RUN_H

#include <jansson.h>

#include "serve/sandbox/sandbox.h"

enum {
    RUN_WINDOW_BYTES = 256 * 1024,
    RUN_GRACE_MS = 5 * 1000, /* after its limit, until the agent is not waited for any more */
};

struct run_plan {            /* borrowed during the call */
    const char *const *argv; /* ends with NULL; the first is looked up in the jail's PATH */
    const char *user;        /* NULL: the sandbox's default user */
    const char *cwd;         /* NULL: the user's, as the sandbox was told */
    const json_t *env;       /* object of strings, on top of the sandbox's own; may be NULL */
    int64_t timeout_ms; /* 0: none. The agent ends the command then; one that does not, is left */
};

/* The command as the user's shell would run it: argv of `bash -l -c COMMAND`. */
#define RUN_SHELL(command)                                                                         \
    (const char *const[])                                                                          \
    {                                                                                              \
        "/bin/bash", "-l", "-c", (command), NULL                                                   \
    }

struct run_end {
    int error;          /* 0: the command ran; otherwise -errno, and `why` has the sentence */
    int exit_code;      /* of a command that ran; -1: a signal ended it */
    const char *status; /* "exit status 2", "signal: killed" */
    bool timed_out;     /* it ran for timeout_ms */
    const struct err *why;
};

struct run_handler { /* each may be NULL but ended */
    void (*started)(void *ctx);
    void (*output)(void *ctx, bool is_stderr, struct str data);
    void (*ended)(void *ctx, const struct run_end *end); /* once; the run is dead afterwards */
};

struct run;

/* NULL: it could not be asked for, and `ended` has been called. */
struct run *sandbox_run(struct sandbox *sb, const struct run_plan *plan,
                        const struct run_handler *handler, void *ctx);

/* Stops following: nothing is called any more, and the command goes on. Accepts NULL. */
void run_leave(struct run *run);

#endif
