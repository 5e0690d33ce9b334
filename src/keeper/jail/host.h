/* host.h - limits of the whole host that all sandboxes share.
 *
 * Some counts of the kernel have one limit for the machine and no owner who could be charged:
 * processes, open files, terminals. Each sandbox is bounded on its own, and the host's limit is set
 * so high that the bound of a sandbox is a small part of it.
 *
 * Owns nothing. Needs root to change anything. Does not block.
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
    const char *name; /* of the setting, as sysctl(8) has it */
    const char *path;
    uint64_t wanted;
    const char *what; /* "processes and threads" */
};
extern const struct host_limit host_limits[HOST_LIMITS]; /* the first is kernel.pid_max */

/* The memory of the machine, in bytes. */
must_check int host_memory(uint64_t *out, struct err *err);

/* Its value now; 0 when this kernel has none. */
uint64_t host_limit_read(const struct host_limit *limit);
/* Whether it is high enough, or this process may raise it. */
bool host_limit_is_raisable(const struct host_limit *limit);

/* Raises what is below the wanted value, and logs a sentence for each that was changed or could
 * not be. */
void host_limits_raise(void);

/* Bounds the processes and threads of a control group, that of all jails, to what the host can
 * spare: a quarter of the machine's stays its own. */
void host_pids_limit(int group_fd);

#endif
