/* network.h - a jail's network: loopback, and a way out that leads to the daemon and nowhere else.
 *
 * The jail's network namespace has only `lo`. A route makes every address local, so a packet never
 * looks for another device. A rule of the namespace's own firewall redirects every TCP connection
 * to one port, where the daemon listens; all other packets that are not for the jail itself are
 * refused. The daemon reads the original destination (SO_ORIGINAL_DST) and connects from the host,
 * or refuses. The host's network is neither changed nor visible, and without a daemon no connection
 * is possible: it fails closed.
 *
 *      program ── connect 1.1.1.1:443 ──► dnat ──► NETWORK_GATE:NETWORK_TCP_PORT ──► the daemon
 *      program ── UDP ──► NETWORK_GATE:53 ──► the daemon's resolver
 *      program ── TCP ──► NETWORK_GATE:53 ──► dnat, as above: one socket less to hold open
 *
 * Owns:    the firewall's messages, built once.
 * Needs:   nf_tables, and CAP_NET_ADMIN over the namespace.
 * Blocks:  for the kernel's answers.
 * Threads: one: network_sockets_open() enters the jail's namespace with the calling thread.
 */
#ifndef JAIL_NETWORK_H
#define JAIL_NETWORK_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#include "lib/base/compiler.h"
#include "lib/base/err.h"
#include "lib/base/fd.h"

#define NETWORK_GATE "169.254.0.1" /* the daemon's address inside */
#define NETWORK_SELF "169.254.0.2" /* source address of connections to the outside */
#define NETWORK_GATE6 "fd00:a701::1"
#define NETWORK_SELF6 "fd00:a701::2"

enum {
    NETWORK_OWN_BITS = 30, /* the block of GATE and SELF */
    NETWORK_OWN_BITS6 = 126,
    NETWORK_TCP_PORT = 1, /* used by no program, and never a source port */
    NETWORK_DNS_PORT = 53,
    NETWORK_BACKLOG = 256,
};

struct network;

must_check int network_new(struct network **out, struct err *err);
void network_free(struct network *network);

/* Called in the jail's first process: brings up loopback, which must work. */
must_check int network_loopback(struct err *err);

/* Called after it, likewise. Sets the rules first, then addresses, then routes: any failure leaves
 * a jail with loopback only. */
must_check int network_open(const struct network *network, struct err *err);

/* Sets the settings of the caller's namespace. */
must_check int network_settings(int proc_fd, struct err *err);

/* The daemon's sockets in the jail. */
struct network_sockets {
    int tcp;     /* accepts every connection to the outside, and DNS over TCP; both families */
    int dns_udp; /* bound to the gate */
};
#define NETWORK_SOCKETS_NONE ((struct network_sockets){-1, -1})

static inline void network_sockets_closep(struct network_sockets *sockets)
{
    fd_closep(&sockets->tcp);
    fd_closep(&sockets->dns_udp);
}

/* All of the above, and the sockets, in the namespace of a process that is being restored. */
must_check int network_restore(const struct network *network, pid_t pid,
                               struct network_sockets *out, struct err *err);

/* Opens them in the namespace of that process. All are open, or all are -1. */
must_check int network_sockets_open(const struct network *network, int pidfd,
                                    struct network_sockets *out, struct err *err);

enum { NETWORK_INWARD_BYTES = 256 * 1024 }; /* size of each buffer; the kernel uses twice that */

/* Opens n TCP sockets there, for connections from outside to servers in the jail. They are not
 * connected, do not block, and work with both families where both exist. The kernel charges their
 * buffers to the keeper, not to the jail, so they are small. All are open, or all are -1. */
must_check int network_inward_open(const struct network *network, int pidfd, int *out, size_t n,
                                   struct err *err);

/* Fills in an abstract address, which belongs to a network namespace and not to a file system;
 * returns its length. */
socklen_t network_name(struct sockaddr_un *out, const char *name);

/* Connects to such an address in the namespace of that process, without waiting. Returns a
 * non-blocking SOCK_SEQPACKET socket; -ECONNREFUSED when no one listens, -EAGAIN when the backlog
 * is full. */
must_check int network_connect(const struct network *network, int pidfd, const char *name,
                               struct err *err);

/* Ends connections in the network of `pid` whose peer is not there, such as those of a restored
 * jail to the outside. A program that reads from one would wait for ever. */
must_check int network_orphans_reset(const struct network *network, pid_t pid, struct err *err);

#endif
