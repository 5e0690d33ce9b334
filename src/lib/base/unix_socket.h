/* unix_socket.h - stream sockets that have a name below a directory. Each returns the descriptor,
 * which does not block, or -errno. Any thread. */
#ifndef BASE_UNIX_SOCKET_H
#define BASE_UNIX_SOCKET_H

#include "lib/base/compiler.h"
#include "lib/base/err.h"

/* A listening socket of mode 0600; one that a predecessor left there goes. */
must_check int unix_listen(const char *path, struct err *err);

/* -ECONNREFUSED and -ENOENT when nobody listens, -EAGAIN when too many wait already. */
must_check int unix_connect(const char *path, struct err *err);

#endif
