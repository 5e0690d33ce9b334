/* confine.h - limits this process, after its start, to its open descriptors and to unix sockets.
 *
 * Blocks:   never.
 * Threads:  before there is a second one.
 */
#ifndef TOOLS_CONFINE_H
#define TOOLS_CONFINE_H

#include <sys/types.h>

#include "lib/base/compiler.h"
#include "lib/base/err.h"

/* Ends with `parent`. -ESRCH: it has ended already. */
must_check int confine_to_parent(pid_t parent, struct err *err);

/* No new privileges, no sockets but streams of the unix kind (so no way to the keeper), no file of
 * any name (so neither the store nor the key that secrets are sealed with, though the user is the
 * same), no TCP, no signals to others, no core dump. A kernel without Landlock leaves files and TCP
 * to the user's rights: -EOPNOTSUPP with the sentence. */
must_check int confine(struct err *err);

#endif
