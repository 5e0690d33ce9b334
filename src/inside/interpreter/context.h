/* context.h - a kernel with a queue: one cell at a time, in the order they came.
 *
 * Owns:     the kernel, the specification; the executions that wait or run, until their end.
 * Needs:    a libuv loop, the sandbox's variables.
 * Blocks:   never.
 * Threads:  the loop's.
 *
 * The kernel is started with the context. A kernel that dies ends the cell it was running with an
 * error, and is started again; a kernel that dies before it is ready is started again when it is
 * next needed. A start has a time limit while a client waits for it. A client that leaves has its
 * cell interrupted; a cell that goes on nevertheless is ended with its kernel as soon as another
 * cell waits (INTERRUPT_MS_MAX).
 */
#ifndef INTERPRETER_CONTEXT_H
#define INTERPRETER_CONTEXT_H

#include <uv.h>

#include "inside/interpreter/execution.h"
#include "inside/interpreter/sandbox_env.h"
#include "inside/interpreter/spec.h"
#include "lib/base/err.h"
#include "lib/base/id.h"

enum {
    CONTEXT_QUEUE_MAX = 256,
    /* After the start of a run: earlier a kernel may not be ready for a signal. */
    INTERRUPT_AFTER_MS = 50,
    INTERRUPT_AGAIN_MS = 500,
    INTERRUPT_MS_MAX = 3500,
};

struct context;

struct context_options {
    uv_loop_t *loop;
    struct sandbox_env *sandbox_env;
    struct spec *spec; /* taken over */
    const char *language;
    const char *cwd;
    const char *run_dir;
    int start_s_max; /* for a start that somebody waits for */
};

struct context *context_new(const struct context_options *options);
const char *context_id(const struct context *c);
const char *context_language(const struct context *c);
const char *context_cwd(const struct context *c);
bool context_has_env(const struct context *c);
bool context_was_ready(const struct context *c); /* ever */

bool context_is_full(const struct context *c); /* no more may wait */
void context_submit(struct context *c, struct execution *e);
void context_leave(struct context *c, struct execution *e);  /* its client is gone */
void context_credit(struct context *c, struct execution *e); /* its client takes more */
void context_env_known(struct context *c);

/* Starts a new kernel; the running cell ends with an error. Then, or when the context was just
 * made, `done` is called once: with NULL when the kernel is ready, else with the reason. */
void context_restart(struct context *c);
void context_when_ready(struct context *c, void (*done)(void *ctx, const char *why), void *ctx);

/* Ends every execution, and tells those that wait for readiness. */
void context_free(struct context *c);

#endif
