/* identity.h - proofs of a sandbox's identity: workload tokens (JWT-SVID), signed by the daemon.
 *
 * A token names one sandbox and one audience, is signed with ES256, and is good for minutes: it is
 * made for each request that a network rule puts it into. A receiver finds the public key through
 * the issuer's /.well-known/openid-configuration.
 *
 *   iss  the issuer            sub  spiffe://HOST/team/TEAM/sandbox/ID
 *   aud  as the sandbox's creator named it        iat, nbf, exp, jti
 *   sandbox_id, team_id, template_id
 *
 * Owns:     the signing key, derived from the daemon's.
 * Blocks:   never.
 * Threads:  the loop's.
 */
#ifndef SECRETS_IDENTITY_H
#define SECRETS_IDENTITY_H

#include "lib/base/buf.h"
#include "serve/secrets/key.h"

enum { IDENTITY_TOKEN_S = 300, IDENTITY_TOKEN_BYTES_MAX = 8192 };

struct identity;

struct identity *identity_new(const uint8_t key[SECRET_KEY_BYTES]);
void identity_free(struct identity *identity); /* NULL is fine */

/* The issuer: a URL without a slash at its end, below which the keys are published. */
void identity_name(struct identity *identity, const char *issuer);

struct identity_subject {
    const char *sandbox_id, *team_id, *template_id, *audience;
};

/* Appends the token. -ENOBUFS when there is no room. */
must_check int identity_token(const struct identity *identity,
                              const struct identity_subject *subject, struct buf *out);

/* The published documents; the caller frees both. */
char *identity_keys(const struct identity *identity);
char *identity_configuration(const struct identity *identity);

#endif
