/* kernel.h - a process that runs code in one language, over either transport.
 *
 * Owns:     the process and its connections.
 * Needs:    a libuv loop; a specification (spec.h).
 * Blocks:   never.
 * Threads:  the loop's.
 *
 * Two transports: jupyter.c (ZeroMQ: Python, R, what the user installed) and pipe_kernel.c (lines
 * on descriptors 3 and 4: Node, bash, Java). A kernel runs one thing at a time:
 *
 *   kernel_start ... on_ready
 *   kernel_run ... on_count, on_text, on_result, on_error ... on_done     again and again
 *   on_exit                                 at any time, once; nothing comes after it
 *
 * No event comes inside kernel_start or kernel_run. kernel_free may be called inside any event.
 */
#ifndef INTERPRETER_KERNEL_H
#define INTERPRETER_KERNEL_H

#include <jansson.h>
#include <stdbool.h>
#include <uv.h>

#include "inside/interpreter/spec.h"
#include "lib/base/err.h"
#include "lib/base/str.h"

struct kernel_end {
    int64_t status;
    int signal;      /* 0: it ended by itself, with status */
    struct str last; /* the end of what its process wrote, as bytes */
};

struct kernel_events {
    void (*on_ready)(void *ctx);
    void (*on_count)(void *ctx, int64_t count);
    /* stamp: RFC 3339, or NULL for now. The text is UTF-8. */
    void (*on_text)(void *ctx, bool is_error, struct str text, const char *stamp);
    void (*on_result)(void *ctx, json_t *bundle, bool is_main); /* borrowed, may be changed */
    void (*on_error)(void *ctx, struct str name, struct str value, struct str traceback);
    void (*on_done)(void *ctx);
    void (*on_exit)(void *ctx, const struct kernel_end *end);
};

struct kernel_options {
    uv_loop_t *loop;
    const struct spec *spec; /* borrowed until the kernel is freed */
    const char *cwd;
    const char *run_dir; /* where sockets and connection files may be put */
    const struct kernel_events *events;
    void *ctx;
};

struct kernel_run {
    struct str code;
    json_t *lasting; /* variables to set and leave; NULL: none */
    json_t *env;     /* variables for this run, put back after it; NULL: none */
    bool fresh;      /* first draw new randomness: this may be a clone */
};

struct kernel; /* begins every transport's own */

must_check int kernel_start(const struct kernel_options *options, struct kernel **out,
                            struct err *err);
void kernel_run(struct kernel *kernel, const struct kernel_run *run);
void kernel_interrupt(struct kernel *kernel);

/* Whether runs in it can have variables of their own. */
bool kernel_has_env(const struct spec *spec);

/* Without flow the kernel's output stays where it is, and soon the kernel waits. */
void kernel_flow(struct kernel *kernel, bool flows);

/* Kills. No event comes after it. Accepts NULL. */
void kernel_free(struct kernel *kernel);

#endif
