/* orphans.h - ends TCP connections whose peer is not in the same network namespace.
 *
 * In a jail's network both ends of every connection exist: connections to the outside end in a
 * socket of the daemon. A restored jail has only its own ends.
 *
 * Owns:    nothing.
 * Blocks:  for the kernel's answers.
 * Threads: one.
 */
#ifndef JAIL_ORPHANS_H
#define JAIL_ORPHANS_H

#include "lib/base/compiler.h"
#include "lib/base/err.h"

/* Works in the network namespace of the caller. Connections that the peer has closed already are
 * left: they can be read to their end. -EOPNOTSUPP when the kernel cannot end connections. */
must_check int orphans_reset(struct err *err);

#endif
