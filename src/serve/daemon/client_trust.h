/* client_trust.h - a file of all authorities that a client of this daemon trusts: the host's, and
 * the daemon's own. `atoll env` names it to the SDKs, to curl and to others.
 *
 * Root writes it, in a directory of root's (paths.ca_bundle): the server says which authority is
 * its own, and is believed for one that limits itself to the names that the server may have.
 *
 * Blocks:   for a few files.
 * Threads:  any.
 */
#ifndef DAEMON_CLIENT_TRUST_H
#define DAEMON_CLIENT_TRUST_H

#include "serve/daemon/paths.h"

enum { CLIENT_TRUST_BYTES_MAX = 8 * 1024 * 1024 };

#define CLIENT_TRUST_HOST "/etc/ssl/certs/ca-certificates.crt"

/* Writes the file, if anything has changed. `domain` is what the daemon serves, perhaps with a
 * port. Authorities that SSL_CERT_FILE names stay trusted. -ENOENT when the daemon has no authority
 * of its own; a caller that is not root gets the file that root has made, or -EACCES. */
must_check int client_trust_write(const struct paths *paths, const char *domain, struct err *err);

#endif
