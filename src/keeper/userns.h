/* userns.h - the id maps of a jail's user namespace. Owns nothing; needs CAP_SETUID, CAP_SETGID. */
#ifndef KEEPER_USERNS_H
#define KEEPER_USERNS_H

#include <stdint.h>
#include <sys/types.h>

#include "base/compiler.h"
#include "base/err.h"

/* Ids 0 to KEEPER_UID_RANGE - 1 of the namespace that `pid` is in become those from `base` up.
 * Returns a descriptor of that namespace, for idmapped mounts. */
must_check int userns_map(pid_t pid, uint32_t base, struct err *err);

/* A descriptor of a new namespace with such a map, and no process in it. Needs SIGCHLD at its
 * default. */
must_check int userns_make(uint32_t base, struct err *err);

/* First host id of a plan's range. */
uint32_t userns_base(uint32_t uid_slot);

#endif
