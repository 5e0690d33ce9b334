/* terminal.h - terminals in sandboxes: processes that go on between calls.
 *
 * Nothing that a terminal shows is lost while nobody reads it: the agent keeps it (up to a MiB) for
 * the next reader, and ends a read itself, after the last byte that it sent.
 *
 * Blocks:   the fiber.
 * Threads:  the loop's.
 */
#ifndef TOOLS_TERMINAL_H
#define TOOLS_TERMINAL_H

#include "tools/remote.h"

enum { TERMINAL_OUTPUT_BYTES_MAX = 4 * 1024 * 1024 }; /* of one read; the end is kept */

struct terminal_plan { /* borrowed */
    const char *cwd;   /* NULL: the home directory */
    const json_t *env; /* may be NULL */
    uint16_t cols, rows;
};

struct terminal_output {
    struct buf bytes; /* initialised by who reads */
    bool ended;
    int exit_code; /* when it has ended; -1: a signal */
};

/* Starts a login shell in a terminal. *out has its first output, until it waits for input. A shell
 * whose start fails or is cancelled is killed. */
must_check int terminal_start(struct tool_call *call, const struct remote_sandbox *sandbox,
                              const struct terminal_plan *plan, uint32_t *pid,
                              struct terminal_output *out, struct err *err);

/* -ENOENT with the sentence when no terminal of this module's has that pid. */
must_check int terminal_check(struct tool_call *call, const struct remote_sandbox *sandbox,
                              uint32_t pid, struct err *err);

must_check int terminal_type(struct tool_call *call, const struct remote_sandbox *sandbox,
                             uint32_t pid, struct str keys, struct err *err);

/* Appends to *out the output since the last read and within wait_ms; returns sooner when a shell
 * waits for the next command. */
must_check int terminal_read(struct tool_call *call, const struct remote_sandbox *sandbox,
                             uint32_t pid, int64_t wait_ms, struct terminal_output *out,
                             struct err *err);

/* Appends what was shown without the marks that terminal_start() had the shell put behind its
 * prompts. -ENOBUFS. */
must_check int terminal_unmark(struct str shown, struct buf *out);

#endif
