/* caps.h - capabilities of this process, and the most that a jail may have.
 *
 * Owns:    nothing.
 * Blocks:  never.
 * Threads: safe between clone3() and exec(): raw system calls, no memory is allocated.
 */
#ifndef JAIL_CAPS_H
#define JAIL_CAPS_H

#include <stdbool.h>
#include <sys/types.h>

#include "lib/base/compiler.h"
#include "lib/base/err.h"

/* Reduces the bounding set to what a jail's root may use in its own user namespace, and empties the
 * inheritable and ambient sets. The next exec() as uid 0 then gains that and no more. */
must_check int caps_bound(struct err *err);

/* Whether the capability is effective in this process. */
bool caps_has(int cap);

/* Sets the filesystem uid and gid, for making files and for access checks, and keeps all permitted
 * capabilities effective: a change away from uid 0 alone would drop some. (0, 0) goes back. */
must_check int caps_act_as(uid_t uid, gid_t gid, struct err *err);

/* Sets the effective uid, which owns user namespaces made afterwards, and keeps all permitted
 * capabilities effective. The kernel charges the owner for the use of a namespace. 0 goes back. */
must_check int caps_own_as(uid_t uid, struct err *err);

#endif
