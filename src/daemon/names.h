/* names.h - refuses requests for names that this daemon does not serve (http/hosts.h).
 *
 * Needs:    the settings, for as long as it is used.
 * Blocks:   never. Threads: the loop's.
 */
#ifndef DAEMON_NAMES_H
#define DAEMON_NAMES_H

#include "daemon/config.h"
#include "http/hosts.h"
#include "http/http.h"

enum { NAMES_MACHINE_BYTES = 256 };

struct names {
    struct hosts hosts;
    char machine[NAMES_MACHINE_BYTES];
};

/* *names stays where it is: it points into itself. */
void names_init(struct names *names, const struct config *config);

/* True when it took the exchange and answered 421. */
bool names_refuse(const struct names *names, struct http_exchange *ex);

#endif
