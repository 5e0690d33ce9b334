/* host.h - limits of the whole host that all sandboxes share.
 *
 * Some counts of the kernel have one limit for the machine and are charged to no owner: processes,
 * open files, terminals. Each sandbox has its own limit, and the host's limit is raised so that one
 * sandbox can use only a small part of it.
 *
 * Owns:    nothing.
 * Needs:   root to change anything.
 * Blocks:  never.
 * Threads: one.
 */
#ifndef JAIL_HOST_H
#define JAIL_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/compiler.h"
#include "lib/base/err.h"

enum { HOST_LIMITS = 4 };

struct host_limit {
    const char *name; /* name of the setting for sysctl(8) */
    const char *path;
    uint64_t wanted;
    const char *what; /* "processes and threads" */
};
extern const struct host_limit host_limits[HOST_LIMITS]; /* the first is kernel.pid_max */

/* The memory of the machine, in bytes. */
must_check int host_memory(uint64_t *out, struct err *err);

/* The current value; 0 when this kernel has no such limit. */
uint64_t host_limit_read(const struct host_limit *limit);
/* Whether the limit is high enough, or this process may raise it. */
bool host_limit_is_raisable(const struct host_limit *limit);

/* Raises all limits that are too low, and logs a sentence for each that was changed or could not
 * be. */
void host_limits_raise(void);

/* Limits the processes and threads of the control group of all jails: a quarter of the machine's
 * limit stays for the host. */
void host_pids_limit(int group_fd);

#endif
