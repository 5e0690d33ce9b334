/* orphans.h - TCP connections whose other end is not in the same network namespace.
 *
 * In a jail's network every connection has both its ends: what leads outside ends in a socket of
 * the daemon's. A restored jail has its own ends only.
 *
 * Owns:    nothing. Blocks for the kernel's answers alone.
 */
#ifndef JAIL_ORPHANS_H
#define JAIL_ORPHANS_H

#include "lib/base/compiler.h"
#include "lib/base/err.h"

/* In the network namespace of the caller. Those that the other end has closed already are left:
 * they can be read to their end. -EOPNOTSUPP when the kernel cannot end connections. */
must_check int orphans_reset(struct err *err);

#endif
