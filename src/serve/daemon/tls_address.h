/* tls_address.h - the address and domain of TLS when the operator has not set them.
 *
 * SDKs reach https://api.DOMAIN and https://PORT-ID.DOMAIN, on port 443 unless DOMAIN has one. So
 * by default the daemon serves names below localhost: on port 443 if it may open that and it is
 * free, else on 3443, else on any free port.
 *
 * Owns:     nothing.
 * Blocks:   never.
 * Threads:  one, before any other is started.
 */
#ifndef DAEMON_TLS_ADDRESS_H
#define DAEMON_TLS_ADDRESS_H

#include <stdbool.h>

#include "serve/daemon/config.h"

enum { TLS_ADDRESS_PORT = 443, TLS_ADDRESS_PORT_ELSE = 3443 };

/* Settles config.tls_listen and config.domain_served. `given` is a socket for TLS that somebody
 * else has opened, or -1. If no port is available, TLS is not served, and the log says so; for an
 * operator who has named a certificate that is a failure. */
must_check int tls_address_choose(struct config *config, int given, struct err *err);

/* Whether names below localhost resolve to this address and to an IPv6 address as well, as with
 * 127.0.0.1:PORT. Writes the other one, [::1]:PORT. Pure. */
bool tls_address_other(const char *address, char *out, size_t size);

#endif
