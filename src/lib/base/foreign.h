/* foreign.h - descriptors that came out of a jail.
 *
 * A jail may keep a copy of every descriptor that it hands out. So file flags, socket options and
 * the state of the connection are the jail's to change at any moment, also between a check of ours
 * and our next call. From this follow the rules that the functions here and their callers keep:
 *
 *   - A message is received with room for every descriptor that it can bring. The kernel closes
 *     those without room on the receiving thread, and a close may block (SO_LINGER).
 *   - Only a connected TCP socket is taken (foreign_tcp()). A unix socket brings descriptors with
 *     its bytes, which the kernel would close on the reading thread.
 *   - All I/O has MSG_DONTWAIT. O_NONBLOCK belongs to the file, which the jail shares.
 *   - A descriptor is closed by foreign_close() alone, which leaves it to another thread.
 *
 * Owns:     nothing but the name of the closer.
 * Blocks:   never, once a closer is set; before that a close may.
 * Threads:  any; foreign_closer_set() before the first close.
 */
#ifndef BASE_FOREIGN_H
#define BASE_FOREIGN_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "lib/base/compiler.h"
#include "lib/base/err.h"

/* Receives one message from the other end of a unix socket that keeps messages apart, without
 * waiting. *fd is the one descriptor that came with it, or -1. Gives the bytes received, 0 at the
 * end of the connection, or -errno: -EMSGSIZE when the message is longer than iov, -ETOOMANYREFS
 * when more than one descriptor came. After an error no descriptor of the message is left open. */
ssize_t foreign_receive(int socket, struct iovec *iov, size_t iov_n, int *fd);

/* 0 for a TCP socket that is connected, or was until its peer reset it; its linger is switched off
 * then. Otherwise -EPROTOTYPE with a clause that says what it is instead. */
must_check int foreign_tcp(int fd, struct err *err);

/* Closes *fd on the closer's thread, and sets it to -1. reset: the peer of a TCP connection gets
 * RST. Neither the calling thread nor errno notices. */
void foreign_close(int *fd, bool reset);

static inline void foreign_closep(int *fd)
{
    foreign_close(fd, false);
}
#define scoped_foreign scoped(foreign_closep) int

/* The thread that closes descriptors takes them by this call, which must not block. NULL: they are
 * closed by the thread that calls foreign_close(). */
void foreign_closer_set(void (*closer)(int fd, bool reset));

/* The closer's own work. Blocks for as long as the jail likes, or until a signal comes. */
void foreign_close_now(int fd, bool reset);

#endif
