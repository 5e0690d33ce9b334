/* network.h - a jail's network: loopback, and a way out that leads to the daemon and nowhere else.
 *
 * In the jail's network namespace there is only `lo`. A route makes every address local to it, so
 * a packet never looks for another device; a rule of the namespace's own firewall sends every TCP
 * connection to one port, where the daemon listens; all other packets that are not for the jail
 * itself are refused. The daemon sees where a program wanted to go (SO_ORIGINAL_DST) and dials for
 * it from the host, or does not. Nothing of the host's network is changed or even visible, and
 * with no daemon there is nobody to talk to: it fails closed.
 *
 *      program ── connect 1.1.1.1:443 ──► dnat ──► NETWORK_GATE:NETWORK_TCP_PORT ──► the daemon
 *      program ── UDP ──► NETWORK_GATE:53 ──► the daemon's resolver
 *      program ── TCP ──► NETWORK_GATE:53 ──► dnat, as above: one socket less to hold open
 *
 * Owns:    the firewall's messages, built once.
 * Needs:   nf_tables, and CAP_NET_ADMIN over the namespace.
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

#define NETWORK_GATE "169.254.0.1" /* where the daemon is, seen from inside */
#define NETWORK_SELF "169.254.0.2" /* where connections out come from */
#define NETWORK_GATE6 "fd00:a701::1"
#define NETWORK_SELF6 "fd00:a701::2"

enum {
    NETWORK_OWN_BITS = 30, /* the block of GATE and SELF */
    NETWORK_OWN_BITS6 = 126,
    NETWORK_TCP_PORT = 1, /* no program's own, and never a connection's source port */
    NETWORK_DNS_PORT = 53,
    NETWORK_BACKLOG = 256,
};

struct network;

must_check int network_new(struct network **out, struct err *err);
void network_free(struct network *network);

/* In the jail's first process: brings up loopback, which must work. */
must_check int network_loopback(struct err *err);

/* Likewise, after it: rules first, then addresses, then the routes, so that whatever fails leaves
 * a jail with loopback alone. */
must_check int network_open(const struct network *network, struct err *err);

/* The settings of the namespace the caller is in. */
must_check int network_settings(int proc_fd, struct err *err);

/* The daemon's ends. */
struct network_sockets {
    int tcp;     /* takes every connection out, and names over TCP; both families */
    int dns_udp; /* bound to the gate */
};
#define NETWORK_SOCKETS_NONE ((struct network_sockets){-1, -1})

static inline void network_sockets_closep(struct network_sockets *sockets)
{
    fd_closep(&sockets->tcp);
    fd_closep(&sockets->dns_udp);
}

/* All of the above in the namespace of that process, which is being restored; its sockets too. */
must_check int network_restore(const struct network *network, pid_t pid,
                               struct network_sockets *out, struct err *err);

/* Opens them in the namespace of that process. All are open, or all are -1. */
must_check int network_sockets_open(const struct network *network, int pidfd,
                                    struct network_sockets *out, struct err *err);

enum { NETWORK_INWARD_BYTES = 256 * 1024 }; /* of each buffer; the kernel takes twice that */

/* Opens n TCP sockets there, for connections from outside to what listens in the jail: they are not
 * connected, do not block, and serve both families where there are two. The kernel charges their
 * buffers to the keeper and not to the jail, so they are small. All are open, or all are -1. */
must_check int network_inward_open(const struct network *network, int pidfd, int *out, size_t n,
                                   struct err *err);

/* The address of a name that is no file but of a network namespace; gives its length. */
socklen_t network_name(struct sockaddr_un *out, const char *name);

/* Connects to such a name in the namespace of that process, without waiting. Gives a SOCK_SEQPACKET
 * socket that does not block; -ECONNREFUSED when nobody listens, -EAGAIN when too many wait. */
must_check int network_connect(const struct network *network, int pidfd, const char *name,
                               struct err *err);

/* In the network of `pid`: ends connections whose other end is not there, as a restored jail's to
 * the outside are. What reads from one would wait for ever. */
must_check int network_orphans_reset(const struct network *network, pid_t pid, struct err *err);

#endif
