/* address.h - whether a network address belongs to this machine. Blocks for a moment: it asks the
 * kernel for the addresses of the interfaces. */
#ifndef WEB_ADDRESS_H
#define WEB_ADDRESS_H

#include <stdbool.h>
#include <sys/socket.h>

/* True for loopback, link-local, unspecified and multicast addresses, for the well-known addresses
 * of metadata services, for every address of an interface of this machine, and for these written
 * as IPv6. Anything but IPv4 and IPv6 is ours too: nothing else can be a stranger. */
bool address_is_own(const struct sockaddr *addr);

#endif
