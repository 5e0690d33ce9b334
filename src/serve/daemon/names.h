/* names.h - refuses requests for names that this daemon does not serve (lib/http/hosts.h).
 *
 * Needs:    the settings, for as long as it is used.
 * Blocks:   never.
 * Threads:  the loop's.
 */
#ifndef DAEMON_NAMES_H
#define DAEMON_NAMES_H

#include "lib/http/hosts.h"
#include "lib/http/http.h"
#include "lib/http/tls.h"
#include "serve/daemon/config.h"

enum { NAMES_MACHINE_BYTES = 256 };

struct names {
    struct hosts hosts;
    char machine[NAMES_MACHINE_BYTES];
    struct tls_context *tls; /* its certificate names the daemon; NULL: none */
};

/* *names stays where it is: it points into itself. */
void names_init(struct names *names, const struct config *config);
/* From now on the names in that certificate are served, too. */
void names_certified(struct names *names, struct tls_context *tls);

/* True when it took the exchange and answered 421. */
bool names_refuse(const struct names *names, struct http_exchange *ex);

#endif
