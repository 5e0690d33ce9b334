/* listeners.h - listening sockets that the server is given, because it could not open them itself.
 *
 * Ports below 1024 need a privilege that the server does not have. The supervisor opens them before
 * it drops root; under systemd a socket unit does, and hands them over by LISTEN_FDS.
 *
 * Owns:     the descriptors, until the server takes them.
 * Blocks:   never.
 * Threads:  one; before any other is started.
 */
#ifndef DAEMON_LISTENERS_H
#define DAEMON_LISTENERS_H

#include "lib/base/fd.h"
#include "serve/daemon/config.h"

/* The name of a socket unit's descriptor (FileDescriptorName=) that speaks TLS. Any other is for
 * plain HTTP. */
#define LISTENERS_TLS_NAME "https"

struct listeners {
    int plain; /* -1: the server opens it */
    int tls;   /* likewise */
    int tls6;  /* the other loopback address of the same port (tls_address.h); -1: none */
};
#define LISTENERS_NONE ((struct listeners){-1, -1, -1})

static inline void listeners_closep(struct listeners *listeners)
{
    fd_closep(&listeners->plain);
    fd_closep(&listeners->tls);
    fd_closep(&listeners->tls6);
}

/* Opens the addresses of the settings for which no socket was handed over. A port of 0 is left to
 * the server, which may take the one that its predecessor had. */
must_check int listeners_open(const struct config *config, struct listeners *out, struct err *err);

/* Takes the sockets of systemd's socket activation, if there are any. */
must_check int listeners_inherit(struct listeners *out, struct err *err);

#endif
