/* userns.h - a jail's user namespace: its owner and its id maps.
 *
 * The owner of a user namespace is the effective uid of its creator. Pending signals, inotify
 * instances and watches, message queues and locked memory of a namespace count for its owner too.
 * So each jail's namespace belongs to the first id of its own range: a jail that exhausts the
 * limits of its owner takes nothing from root or from another jail.
 *
 * Owns:    nothing.
 * Needs:   CAP_SETUID, CAP_SETGID.
 * Blocks:  never.
 * Threads: one.
 */
#ifndef JAIL_USERNS_H
#define JAIL_USERNS_H

#include <stdint.h>
#include <sys/types.h>

#include "lib/base/compiler.h"
#include "lib/base/err.h"

struct clone_args;

/* clone3() with CLONE_NEWUSER; the namespace belongs to `base`. Returns the pid, and 0 in the new
 * process, whose effective uid is `base`. */
must_check pid_t userns_clone(struct clone_args *args, uint32_t base, struct err *err);

/* Maps ids 0 to KEEPER_UID_RANGE - 1 of the namespace of `pid` to those from `base` up. Returns a
 * descriptor of that namespace, for idmapped mounts. */
must_check int userns_map(pid_t pid, uint32_t base, struct err *err);

/* Returns a descriptor of a new namespace with such an owner and map, and no process in it. Needs
 * SIGCHLD at its default. */
must_check int userns_make(uint32_t base, struct err *err);

/* The owner of the namespace of `pid`. */
must_check int userns_owner(pid_t pid, uid_t *out, struct err *err);

/* First host id of a plan's range. */
uint32_t userns_base(uint32_t uid_slot);

#endif
