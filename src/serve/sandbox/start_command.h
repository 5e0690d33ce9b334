/* start_command.h - the command that a template runs in every sandbox, and the check that it is up.
 *
 * Owns:     the runs of both commands, the timer between two checks, and that of the whole.
 * Needs:    a sandbox whose agent has its configuration.
 * Blocks:   never.
 * Threads:  the loop's.
 *
 * The start command is left running in the background. The ready command is run again and again
 * until it ends with 0. A start command that fails before that is a failure of the whole; one that
 * ends with 0 has put its service into the background by itself, and the checks go on.
 */
#ifndef SANDBOX_START_COMMAND_H
#define SANDBOX_START_COMMAND_H

#include "serve/sandbox/run.h"

/* Set for a start command that is run once and then saved: whatever it prepares costs no sandbox
 * any time. */
#define START_KEPT_VARIABLE "ATOLL_KEPT"

enum {
    START_POLL_MS = 200,
    START_SETTLE_MS = 300,            /* without a ready command: long enough to fail at once */
    START_READY_LIMIT_MS = 45 * 1000, /* of a create, by default: clients wait for a minute */
    /* The agent ends a command at its limit. After this much more time it is not waited for. */
    START_GRACE_MS = 5 * 1000,
    START_AHEAD_FACTOR = 4, /* times the limit, for a jail made in advance: nobody waits for it */
};

struct start_command_plan { /* borrowed during the call */
    const char *start_cmd;  /* NULL: there is only something to wait for */
    const char *ready_cmd;  /* NULL: it is up when it has run for settle_ms */
    const char *user;       /* of both; NULL: the sandbox's default; likewise */
    const char *cwd;
    const json_t *env; /* on top of the sandbox's; may be NULL */
    int64_t limit_ms;  /* for all of it */
    int64_t settle_ms;
};

/* Takes user, directory and variables from {user, workdir, env}, whose strings must outlive the
 * plan. NULL: the plan stays as it is. */
void start_command_context(struct start_command_plan *plan, const json_t *context);

struct start_command_handler {
    /* Gets the output of the start command; NULL: not wanted. */
    void (*output)(void *ctx, bool is_stderr, struct str data);
    /* Once, never inside start_command_new(): 0, or -errno and a sentence that names the command
     * that failed. -ETIMEDOUT: it was not ready in time. The object is dead afterwards. */
    void (*done)(void *ctx, int error, const struct err *err);
};

struct start_command;

struct start_command *start_command_new(struct sandbox *sb, const struct start_command_plan *plan,
                                        const struct start_command_handler *handler, void *ctx);

/* Nothing is called any more; what runs goes on. Accepts NULL. */
void start_command_free(struct start_command *start);

#endif
