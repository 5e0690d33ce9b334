/* spawn.h - starts one program as a user of the jail.
 *
 * Owns:     nothing; the descriptors it makes are the caller's.
 * Blocks:   until the program has been executed or has failed to, so that the error of a missing
 *           program or directory can be told in a sentence.
 * Threads:  the loop's.
 */
#ifndef AGENT_SPAWN_H
#define AGENT_SPAWN_H

#include <stdbool.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "lib/base/compiler.h"
#include "lib/base/err.h"

struct user;

struct spawn_plan {
    const struct user *user;
    const char *cwd;
    char *const *argv;
    char *const *envp;
    struct rlimit nofile;
    bool pty;
    unsigned short cols; /* of the terminal */
    unsigned short rows;
    bool with_stdin; /* without: /dev/null */
};

/* Non-blocking, close-on-exec; -1 where there is none. With a terminal, `in` and `out` are both its
 * master, and there is no `err`. */
struct spawned {
    pid_t pid;
    int in;
    int out;
    int err;
};

/* Failures by code: ENOENT, ENOTDIR, EACCES and so on of the directory or the program, E2BIG,
 * EAGAIN for the limit of processes. */
must_check int spawn(const struct spawn_plan *plan, struct spawned *out, struct err *err);

#endif
