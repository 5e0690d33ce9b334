/* remote.h - runs a program in a sandbox, from here: its input, its outputs, its end.
 *
 * The program goes on when the connection is lost: it is found again by its pid, and the output of
 * the meantime comes from the agent. Only when the sandbox is gone, or the network stays away, is a
 * run given up.
 *
 * Owns:     the connections of a run.
 * Needs:    SIGPIPE ignored.
 * Blocks:   until the program has ended.
 * Threads:  any, one run each; signals are of one thread alone (struct remote_signals).
 */
#ifndef CLI_REMOTE_H
#define CLI_REMOTE_H

#include <stdatomic.h>

#include "cli/link.h"
#include "lib/rpc/process.h"

enum {
    REMOTE_SIGNALLED =
        128, /* the exit code of a program that a signal ended: this and its number */
};

/* SIGINT, SIGTERM, SIGHUP and SIGWINCH as a descriptor: none of them ends us while it exists. */
struct remote_signals {
    int fd; /* -1: none */
};
must_check int remote_signals_open(struct remote_signals *out, struct err *err);
void remote_signals_close(struct remote_signals *signals);

struct remote_plan { /* borrowed */
    const struct link *link;
    const char *user;            /* NULL: the sandbox's default */
    uint32_t attach_pid;         /* not 0: of a program that runs already, and is left alone */
    struct process_plan process; /* the program to start otherwise */
    int input; /* a descriptor that is read to its end; -1: the program has no input */
    /* Looked at when the input ends. Set: its source failed before it was read whole, so the
     * program is killed. NULL: the source cannot fail. */
    const atomic_bool *input_spoilt;
    const atomic_bool *cancelled; /* set: the program is killed, and the run fails; or NULL */
    bool terminal;                /* input is a terminal: its size goes along */
    bool detach;                  /* the program goes on alone as soon as it has begun */
    bool ends_at_once; /* a signal ends the run, and the program is left to its sandbox */
    /* While the run lasts, the end of the sandbox is moved: it is at least that far ahead. 0: the
     * end is not moved. */
    int keep_alive_s;
    const struct remote_signals *signals; /* NULL: they are another thread's */
    /* Takes output; a negative answer ends the program and the run. */
    int (*output)(void *ctx, bool is_stderr, struct str data);
    void (*sent)(void *ctx, size_t bytes); /* input was delivered; may be NULL */
    void *ctx;
};

struct remote_end {
    uint32_t pid;
    int code;         /* as a shell has it */
    bool interrupted; /* a signal to us was the end of it */
    bool unstartable; /* there is no such program, or it cannot be started: the error says which */
    bool unknown;     /* there is no process of that pid to attach to */
};

must_check int remote_run(const struct remote_plan *plan, struct remote_end *end, struct err *err);

/* For `output`: everything to our own stdout and stderr, unbuffered. */
int remote_print(void *ctx, bool is_stderr, struct str data);
int remote_print_aside(void *ctx, bool is_stderr, struct str data); /* all to our stderr */

/* Writes all of it, also where the descriptor does not block. */
must_check int remote_write(int fd, struct str data);

/* The number of a signal in an agent's words ("signal: killed"), or 0. Pure. */
int remote_signal_number(const char *status);

#endif
