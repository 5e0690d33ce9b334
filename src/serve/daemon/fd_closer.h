/* fd_closer.h - the thread that closes descriptors from jails (lib/base/foreign.h).
 *
 * A close waits when the jail has made the socket linger in the last moment, or has left much
 * memory behind the descriptor. Here that costs other closes FD_CLOSER_WAIT_MS at most: a wait is
 * interrupted by a signal then, and the kernel finishes the connection by itself.
 *
 * Owns:     the thread, its queue, and the handler of SIGURG, which does nothing.
 * Blocks:   fd_closer_stop(), until all is closed.
 * Threads:  start and stop on the loop's; descriptors come from any.
 */
#ifndef DAEMON_FD_CLOSER_H
#define DAEMON_FD_CLOSER_H

#include "lib/base/err.h"

enum {
    FD_CLOSER_WAIT_MS = 100,
};

/* There is one closer in the process. */
must_check int fd_closer_start(struct err *err);
void fd_closer_stop(void); /* fine without a start */

#endif
