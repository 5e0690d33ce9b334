/* pki.h - certificates that this program makes itself: authorities, and what they sign. ECDSA on
 * P-256 throughout.
 *
 * Owns:     the key and the certificate of an authority.
 * Blocks:   never; making a certificate takes a tenth of a millisecond.
 * Threads:  any; objects are not shared.
 *
 * A derived authority is not stored: the same secret and label give the same key again, so programs
 * that trust it still do after a restart of the daemon.
 */
#ifndef PKI_PKI_H
#define PKI_PKI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/compiler.h"
#include "lib/base/err.h"

enum {
    PKI_SECRET_BYTES = 32,
    PKI_NAME_BYTES_MAX = 253,
    PKI_CA_DAYS = 3650,
    PKI_LEAF_DAYS = 90,
    PKI_BACKDATE_S = 24 * 3600, /* clocks of clients may be behind */
};

struct x509_st;     /* OpenSSL's X509 */
struct evp_pkey_st; /* OpenSSL's EVP_PKEY */

/* A certificate and its key. */
struct pki {
    struct x509_st *cert;
    struct evp_pkey_st *key;
};

void pki_fini(struct pki *pki);

/* A key drawn at random, without a certificate. */
void pki_key_new(struct pki *out);

/* The key that `secret` has for `label`: always the same. */
void pki_key_derive(const uint8_t secret[PKI_SECRET_BYTES], const char *label, struct pki *out);

/* Gives a key the certificate of an authority that signs itself. */
void pki_certify_ca(struct pki *ca, const char *common_name);

/* The same for an authority that is believed for these names, those below them, and these addresses
 * alone (name constraints). -EINVAL when one cannot stand in a certificate. */
must_check int pki_certify_ca_for(struct pki *ca, const char *common_name, const char *const *names,
                                  size_t n);

/* Whether the certificate of an authority limits itself to addresses and to names among these. */
bool pki_ca_is_for(const char *pem, const char *const *names, size_t n);

/* Gives a key a certificate for these DNS names ("*.example.com" is one) or addresses, signed by
 * the authority. -EINVAL when a name cannot stand in one. */
must_check int pki_certify(struct pki *leaf, const struct pki *ca, const char *const *names,
                           size_t n);

/* The certificate as PEM; the caller frees it. */
char *pki_cert_pem(const struct pki *pki);

/* By what name OpenSSL looks for an authority in a directory of them: eight hex digits. */
void pki_subject_hash(const struct pki *pki, char out[9]);

#endif
