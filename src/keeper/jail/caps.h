/* caps.h - capabilities of this process, and what a jail may ever hold.
 *
 * Owns nothing. Safe between clone3() and exec(): raw system calls, no memory.
 */
#ifndef JAIL_CAPS_H
#define JAIL_CAPS_H

#include <stdbool.h>
#include <sys/types.h>

#include "lib/base/compiler.h"
#include "lib/base/err.h"

/* Cuts the bounding set down to what a jail's root may use in its own user namespace, and empties
 * the inheritable and ambient sets. The next exec() as uid 0 then gains that and no more. */
must_check int caps_bound(struct err *err);

/* Whether this process has it in effect. */
bool caps_has(int cap);

/* Files are made as, and access is checked as, this owner, with all permitted capabilities kept
 * effective: changing the filesystem uid away from 0 would drop some. (0, 0) goes back. */
must_check int caps_act_as(uid_t uid, gid_t gid, struct err *err);

/* User namespaces are made as this owner: the effective uid, with all permitted capabilities kept
 * effective. The kernel charges the owner for what a namespace uses. 0 goes back. */
must_check int caps_own_as(uid_t uid, struct err *err);

#endif
