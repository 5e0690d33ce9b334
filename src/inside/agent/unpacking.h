/* unpacking.h - starts this program again as atoll-unpack, on a socket.
 *
 * Owns:     nothing; the socket is the caller's, the process is reaped as any orphan of the jail's.
 * Blocks:   never. A program that cannot be executed closes its socket without a word.
 * Threads:  the loop's.
 */
#ifndef AGENT_UNPACKING_H
#define AGENT_UNPACKING_H

#include "lib/base/compiler.h"

/* inside/unpack/unpack.h says what goes over the socket. The caller keeps its own descriptor of it.
 */
must_check int unpacking_start(int socket_fd);

#endif
