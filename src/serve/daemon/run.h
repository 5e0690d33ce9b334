/* run.h - runs a program of the system's and waits: useradd, tar, a recipe. Root's start-up only.
 */
#ifndef DAEMON_RUN_H
#define DAEMON_RUN_H

#include <stddef.h>

#include "lib/base/compiler.h"
#include "lib/base/err.h"

/* Blocks until it has ended. stdin is empty; stderr is ours. 0 when it ended well, else -ECHILD
 * with a sentence. argv[0] is looked up in PATH. */
must_check int run(const char *const *argv, struct err *err);

/* The receiver of output. */
struct run_lines {
    void (*line)(void *ctx, const char *line); /* without its newline; a long one comes in pieces */
    void *ctx;
};

/* Says a line as a program that is run would: to `lines`, or on stderr when that is NULL. */
void run_say(const struct run_lines *lines, const char *fmt, ...) printf_like(2, 3);

/* As run(), for programs that take long and mount: in a pid and a mount namespace of its own, which
 * end with the program and with us, however we die. -EINTR when we are asked to end meanwhile
 * (stop.h): the program and all that it started has ended then. Its output goes to `lines`; NULL:
 * to our stderr. */
must_check int run_contained(const char *const *argv, const struct run_lines *lines,
                             struct err *err);

/* As run(), with what it printed, up to the first newline, in out. */
must_check int run_read(const char *const *argv, char *out, size_t size, struct err *err);

#endif
