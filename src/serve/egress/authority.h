/* authority.h - the certificate authority of one sandbox, which its intercepted connections trust.
 *
 * Only this sandbox trusts it, and only the daemon has its key: it is derived from the daemon's
 * secret and the sandbox's id, and stored nowhere. Certificates for names are made as they are
 * asked for.
 *
 * Owns:     its keys, its certificates, a TLS context. Held by reference.
 * Blocks:   never.
 * Threads:  the loop's.
 */
#ifndef EGRESS_AUTHORITY_H
#define EGRESS_AUTHORITY_H

#include <stdint.h>

#include "lib/http/tls.h"
#include "lib/pki/pki.h"

enum { AUTHORITY_NAMES_MAX = 128 }; /* certificates kept; one more, and all are made anew */

struct authority;

struct authority *authority_new(const uint8_t secret[PKI_SECRET_BYTES], const char *sandbox_id);
struct authority *authority_hold(struct authority *authority);
void authority_release(struct authority *authority);

/* For lib/http/server.h; lives as long as the authority is held. */
struct tls_context *authority_tls(struct authority *authority);

/* The authority's own certificate, without more: PEM, which the caller frees. */
char *authority_pem(const uint8_t secret[PKI_SECRET_BYTES], const char *sandbox_id, char hash[9]);

#endif
