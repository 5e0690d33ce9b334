/* firewall.h - the rules of a jail's own network namespace, as netlink messages.
 *
 * They are built once with libnftnl, and sent unchanged for every jail. Sending allocates no
 * memory, so it can be done between clone3() and exec().
 *
 * Owns:    the messages.
 * Blocks:  for the kernel's answer.
 * Threads: any.
 */
#ifndef JAIL_FIREWALL_H
#define JAIL_FIREWALL_H

#include "lib/base/compiler.h"
#include "lib/base/err.h"

struct firewall;

struct firewall *firewall_new(void);
void firewall_free(struct firewall *firewall);

/* Loads the rules into the namespace of the calling process: all of them, or none. */
must_check int firewall_load(const struct firewall *firewall, struct err *err);

#endif
