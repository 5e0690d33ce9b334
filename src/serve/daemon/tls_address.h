/* tls_address.h - where TLS is served, and under which domain, when the operator has not said.
 *
 * SDKs reach https://api.DOMAIN and https://PORT-ID.DOMAIN, on port 443 unless DOMAIN has one. So
 * without a word the daemon serves names below localhost: on port 443 where it may open that and
 * nobody has it, else on 3443, else on any that is free.
 *
 * Owns:     nothing. Blocks: never. Threads: one, before any other is started.
 */
#ifndef DAEMON_TLS_ADDRESS_H
#define DAEMON_TLS_ADDRESS_H

#include <stdbool.h>

#include "serve/daemon/config.h"

enum { TLS_ADDRESS_PORT = 443, TLS_ADDRESS_PORT_ELSE = 3443 };

/* Settles config.tls_listen and config.domain_served. `given` is a socket for TLS that somebody
 * else has opened, or -1. Where no port can be had, TLS is not served, and the log says so; for an
 * operator who has named a certificate that is a failure. */
must_check int tls_address_choose(struct config *config, int given, struct err *err);

/* Whether names below localhost lead to this address and to one of IPv6 as well: 127.0.0.1:PORT
 * does. Puts the other one, [::1]:PORT. Pure. */
bool tls_address_other(const char *address, char *out, size_t size);

#endif
