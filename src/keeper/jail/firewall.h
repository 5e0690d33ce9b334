/* firewall.h - the rules of a jail's own network namespace, as netlink messages.
 *
 * Built once with libnftnl and sent as they are for every jail. Sending allocates nothing, so it
 * can be done between clone3() and exec().
 *
 * Owns: the messages. Threads: any.
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
