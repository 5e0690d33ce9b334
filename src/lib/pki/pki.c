#include "lib/pki/pki.h"

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/param_build.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "lib/base/alloc.h"
#include "lib/base/buf.h"
#include "lib/base/id.h"
#include "lib/base/str.h"

enum {
    SERIAL_BYTES = 16,
    SCALAR_BYTES = 32,
    POINT_BYTES = 65, /* uncompressed */
    DAY_S = 24 * 3600,
    LIMIT_BYTES = 64, /* of a name's limit, but for the name */
    VERSION_3 = 2,    /* as X.509 counts */
};

#define CURVE "P-256"

/* OpenSSL fails here only without memory: the inputs are ours. */
static void must(bool ok)
{
    if (!ok) {
        abort();
    }
}

void pki_fini(struct pki *pki)
{
    X509_free(pki->cert);
    EVP_PKEY_free(pki->key);
    *pki = (struct pki){0};
}

/* ---- keys ---- */

void pki_key_new(struct pki *out)
{
    *out = (struct pki){.key = EVP_EC_gen(CURVE)};
    must(out->key);
}

/* A number in [1, order): the digest with a counter, until one is in range, which is at once but
 * for one in four thousand million. */
static BIGNUM *scalar_derive(const uint8_t secret[PKI_SECRET_BYTES], const char *label,
                             const EC_GROUP *group)
{
    const BIGNUM *order = EC_GROUP_get0_order(group);
    uint8_t digest[SCALAR_BYTES];
    char text[PKI_NAME_BYTES_MAX + 16];
    BIGNUM *scalar = NULL;

    for (unsigned try = 0; !scalar; try++) {
        int len = snprintf(text, sizeof(text), "%u %s", try, label);
        must(len > 0 && (size_t)len < sizeof(text) &&
             HMAC(EVP_sha256(), secret, PKI_SECRET_BYTES, (const unsigned char *)text, (size_t)len,
                  digest, NULL));
        scalar = BN_bin2bn(digest, sizeof(digest), NULL);
        must(scalar);
        if (BN_is_zero(scalar) || BN_cmp(scalar, order) >= 0) {
            BN_clear_free(scalar);
            scalar = NULL;
        }
    }
    explicit_bzero(digest, sizeof(digest));
    return scalar;
}

static void point_of(const EC_GROUP *group, const BIGNUM *scalar, unsigned char out[POINT_BYTES])
{
    EC_POINT *point = EC_POINT_new(group);

    must(point && EC_POINT_mul(group, point, scalar, NULL, NULL, NULL) == 1 &&
         EC_POINT_point2oct(group, point, POINT_CONVERSION_UNCOMPRESSED, out, POINT_BYTES, NULL) ==
             POINT_BYTES);
    EC_POINT_free(point);
}

static EVP_PKEY *key_from(const BIGNUM *scalar, const unsigned char point[POINT_BYTES])
{
    OSSL_PARAM_BLD *build = OSSL_PARAM_BLD_new();
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_name(NULL, "EC", NULL);
    EVP_PKEY *key = NULL;

    must(build && ctx &&
         OSSL_PARAM_BLD_push_utf8_string(build, OSSL_PKEY_PARAM_GROUP_NAME, CURVE, 0) &&
         OSSL_PARAM_BLD_push_octet_string(build, OSSL_PKEY_PARAM_PUB_KEY, point, POINT_BYTES) &&
         OSSL_PARAM_BLD_push_BN(build, OSSL_PKEY_PARAM_PRIV_KEY, scalar));
    OSSL_PARAM *params = OSSL_PARAM_BLD_to_param(build);
    must(params && EVP_PKEY_fromdata_init(ctx) == 1 &&
         EVP_PKEY_fromdata(ctx, &key, EVP_PKEY_KEYPAIR, params) == 1);
    OSSL_PARAM_free(params);
    OSSL_PARAM_BLD_free(build);
    EVP_PKEY_CTX_free(ctx);
    return key;
}

void pki_key_derive(const uint8_t secret[PKI_SECRET_BYTES], const char *label, struct pki *out)
{
    EC_GROUP *group = EC_GROUP_new_by_curve_name(NID_X9_62_prime256v1);
    unsigned char point[POINT_BYTES];

    must(group);
    BIGNUM *scalar = scalar_derive(secret, label, group);
    point_of(group, scalar, point);
    *out = (struct pki){.key = key_from(scalar, point)};
    BN_clear_free(scalar);
    EC_GROUP_free(group);
}

/* ---- certificates ---- */

/* Never negative, never empty: readers refuse such numbers. */
static void serial_draw(X509 *cert)
{
    unsigned char bytes[SERIAL_BYTES];

    id_random(bytes, sizeof(bytes));
    bytes[0] = (unsigned char)((bytes[0] & 0x3f) | 0x40);
    BIGNUM *number = BN_bin2bn(bytes, sizeof(bytes), NULL);
    must(number && BN_to_ASN1_INTEGER(number, X509_get_serialNumber(cert)));
    BN_free(number);
}

static void name_set(X509_NAME *name, const char *common_name)
{
    const unsigned char *organisation = (const unsigned char *)"atoll";
    const unsigned char *common = (const unsigned char *)common_name;

    must(X509_NAME_add_entry_by_txt(name, "O", MBSTRING_UTF8, organisation, -1, -1, 0) == 1);
    if (common_name[0]) {
        must(X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8, common, -1, -1, 0) == 1);
    }
}

static X509 *cert_begin(EVP_PKEY *key, int days)
{
    X509 *cert = X509_new();

    must(cert && X509_set_version(cert, VERSION_3) == 1 &&
         X509_gmtime_adj(X509_getm_notBefore(cert), -PKI_BACKDATE_S) &&
         X509_gmtime_adj(X509_getm_notAfter(cert), (long)days * DAY_S) &&
         X509_set_pubkey(cert, key) == 1);
    serial_draw(cert);
    return cert;
}

static int extension_add(X509 *cert, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX ctx;

    X509V3_set_ctx_nodb(&ctx);
    X509V3_set_ctx(&ctx, issuer, cert, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    if (!extension) {
        return -EINVAL;
    }
    must(X509_add_ext(cert, extension, -1) == 1);
    X509_EXTENSION_free(extension);
    return 0;
}

static bool is_address(const char *name)
{
    unsigned char bytes[sizeof(struct in6_addr)];

    return inet_pton(AF_INET, name, bytes) == 1 || inet_pton(AF_INET6, name, bytes) == 1;
}

/* No comma and no other sign that the extension's own language knows. */
static bool name_ok(const char *name)
{
    size_t len = strlen(name);

    return len > 0 && len <= PKI_NAME_BYTES_MAX &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.*:") ==
               len;
}

static int alternatives_add(X509 *cert, X509 *issuer, const char *const *names, size_t n)
{
    scoped_buf(text, (n + 1) * (PKI_NAME_BYTES_MAX + sizeof("DNS:,")));
    int r = n > 0 ? 0 : -EINVAL;

    for (size_t i = 0; i < n && r == 0; i++) {
        r = name_ok(names[i]) ? buf_printf(&text, "%s%s:%s", i ? "," : "",
                                           is_address(names[i]) ? "IP" : "DNS", names[i])
                              : -EINVAL;
    }
    r = r < 0 ? r : buf_append(&text, "", 1);
    return r < 0 ? r : extension_add(cert, issuer, NID_subject_alt_name, buf_at(&text));
}

/* ---- authorities ---- */

/* An address stands for itself alone, a name for all below it as well. */
static int limit_put(struct buf *text, const char *name)
{
    const char *mask = !is_address(name)   ? ""
                       : strchr(name, ':') ? "/ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"
                                           : "/255.255.255.255";

    return name_ok(name) && name[0] != '*'
               ? buf_printf(text, ",permitted;%s:%s%s", mask[0] ? "IP" : "DNS", name, mask)
               : -EINVAL;
}

static int limits_add(X509 *cert, const char *const *names, size_t n)
{
    scoped_buf(text, (n + 1) * (PKI_NAME_BYTES_MAX + LIMIT_BYTES));
    int r = buf_printf(&text, "critical");

    for (size_t i = 0; i < n && r >= 0; i++) {
        r = limit_put(&text, names[i]);
    }
    r = r < 0 ? r : buf_append(&text, "", 1);
    return r < 0 ? r : extension_add(cert, cert, NID_name_constraints, buf_at(&text));
}

int pki_certify_ca_for(struct pki *ca, const char *common_name, const char *const *names, size_t n)
{
    X509 *cert = cert_begin(ca->key, PKI_CA_DAYS);
    int r = n > 0 ? limits_add(cert, names, n) : 0;

    if (r < 0) {
        X509_free(cert);
        return r;
    }
    name_set(X509_get_subject_name(cert), common_name);
    must(X509_set_issuer_name(cert, X509_get_subject_name(cert)) == 1 &&
         extension_add(cert, cert, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") == 0 &&
         extension_add(cert, cert, NID_key_usage, "critical,keyCertSign,cRLSign") == 0 &&
         extension_add(cert, cert, NID_subject_key_identifier, "hash") == 0 &&
         X509_sign(cert, ca->key, EVP_sha256()) > 0);
    X509_free(ca->cert);
    ca->cert = cert;
    return 0;
}

void pki_certify_ca(struct pki *ca, const char *common_name)
{
    must(pki_certify_ca_for(ca, common_name, NULL, 0) == 0);
}

static bool is_one_of(const ASN1_IA5STRING *text, const char *const *names, size_t n)
{
    size_t len = (size_t)ASN1_STRING_length(text);
    bool found = false;

    for (size_t i = 0; i < n && !found; i++) {
        found = strlen(names[i]) == len &&
                strncasecmp(names[i], (const char *)ASN1_STRING_get0_data(text), len) == 0;
    }
    return found;
}

/* Both kinds must be limited: a kind without a limit is not limited at all. */
static bool limits_hold(const NAME_CONSTRAINTS *limits, const char *const *names, size_t n)
{
    bool has_name = false, has_address = false;

    for (int i = 0; i < sk_GENERAL_SUBTREE_num(limits->permittedSubtrees); i++) {
        const GENERAL_NAME *base = sk_GENERAL_SUBTREE_value(limits->permittedSubtrees, i)->base;
        if (base->type == GEN_DNS && !is_one_of(base->d.dNSName, names, n)) {
            return false;
        }
        has_name = has_name || base->type == GEN_DNS;
        has_address = has_address || base->type == GEN_IPADD;
    }
    return has_name && has_address;
}

bool pki_ca_is_for(const char *pem, const char *const *names, size_t n)
{
    BIO *bio = BIO_new_mem_buf(pem, -1);
    X509 *cert = bio ? PEM_read_bio_X509(bio, NULL, NULL, NULL) : NULL;
    int critical = 0;
    NAME_CONSTRAINTS *limits =
        cert ? X509_get_ext_d2i(cert, NID_name_constraints, &critical, NULL) : NULL;
    bool good = limits && critical == 1 && limits_hold(limits, names, n);

    NAME_CONSTRAINTS_free(limits);
    X509_free(cert);
    BIO_free(bio);
    ERR_clear_error();
    return good;
}

/* ---- what they sign ---- */

int pki_certify(struct pki *leaf, const struct pki *ca, const char *const *names, size_t n)
{
    X509 *cert = cert_begin(leaf->key, PKI_LEAF_DAYS);
    int r = alternatives_add(cert, ca->cert, names, n);

    if (r < 0) {
        X509_free(cert);
        return r;
    }
    /* An address there would be taken for a name where names are limited. */
    bool named = strlen(names[0]) <= ub_common_name && !is_address(names[0]);
    name_set(X509_get_subject_name(cert), named ? names[0] : "");
    must(X509_set_issuer_name(cert, X509_get_subject_name(ca->cert)) == 1 &&
         extension_add(cert, ca->cert, NID_basic_constraints, "critical,CA:FALSE") == 0 &&
         extension_add(cert, ca->cert, NID_key_usage, "critical,digitalSignature") == 0 &&
         extension_add(cert, ca->cert, NID_ext_key_usage, "serverAuth") == 0 &&
         extension_add(cert, ca->cert, NID_authority_key_identifier, "keyid") == 0 &&
         X509_sign(cert, ca->key, EVP_sha256()) > 0);
    X509_free(leaf->cert);
    leaf->cert = cert;
    return 0;
}

/* ---- as text ---- */

char *pki_cert_pem(const struct pki *pki)
{
    BIO *bio = BIO_new(BIO_s_mem());
    char *text = NULL;

    must(bio && PEM_write_bio_X509(bio, pki->cert) == 1);
    long len = BIO_get_mem_data(bio, &text);
    must(len > 0);
    char *copy = xcalloc(1, (size_t)len + 1);
    memcpy(copy, text, (size_t)len);
    BIO_free(bio);
    return copy;
}

void pki_subject_hash(const struct pki *pki, char out[9])
{
    (void)snprintf(out, 9, "%08lx", X509_subject_name_hash(pki->cert) & 0xffffffffUL);
}
