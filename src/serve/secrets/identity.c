#include "serve/secrets/identity.h"

#include <errno.h>
#include <jansson.h>
#include <openssl/core_names.h>
#include <openssl/ecdsa.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/encode.h"
#include "lib/base/id.h"
#include "lib/pki/pki.h"

enum {
    POINT_BYTES = 65, /* uncompressed: 4, x, y */
    NUMBER_BYTES = 32,
    SIGNATURE_BYTES_MAX = 80, /* as DER has it */
    TEXT_BYTES = 64,
    THUMBPRINT_BYTES_MAX = 4 * TEXT_BYTES,
};

struct identity {
    struct pki pki;
    char *issuer;
    char x[TEXT_BYTES], y[TEXT_BYTES]; /* the public key, as JSON has it */
    char kid[TEXT_BYTES];
};

/* ---- the key ---- */

static void text_of(const void *bytes, size_t len, char out[TEXT_BYTES])
{
    scoped_buf(text, TEXT_BYTES);

    if (base64_encode(&text, bytes, len, BASE64_URL_NOPAD) < 0 ||
        !str_copy(out, TEXT_BYTES, buf_str(&text))) {
        abort(); /* 32 bytes are 43 characters */
    }
}

/* The key's name is its thumbprint (RFC 7638): the digest of the fields in this order. */
static void kid_make(struct identity *identity)
{
    uint8_t digest[SHA256_BYTES];
    scoped_buf(text, THUMBPRINT_BYTES_MAX);

    if (buf_printf(&text, "{\"crv\":\"P-256\",\"kty\":\"EC\",\"x\":\"%s\",\"y\":\"%s\"}",
                   identity->x, identity->y) < 0) {
        abort();
    }
    sha256(buf_at(&text), buf_len(&text), digest);
    text_of(digest, sizeof(digest), identity->kid);
}

struct identity *identity_new(const uint8_t key[SECRET_KEY_BYTES])
{
    struct identity *identity = xnew(struct identity);
    uint8_t point[POINT_BYTES];
    size_t len = 0;

    identity->issuer = xstrdup("");
    pki_key_derive(key, "identity", &identity->pki);
    if (EVP_PKEY_get_octet_string_param(identity->pki.key, OSSL_PKEY_PARAM_PUB_KEY, point,
                                        sizeof(point), &len) != 1 ||
        len != POINT_BYTES) {
        abort();
    }
    text_of(point + 1, NUMBER_BYTES, identity->x);
    text_of(point + 1 + NUMBER_BYTES, NUMBER_BYTES, identity->y);
    kid_make(identity);
    return identity;
}

void identity_name(struct identity *identity, const char *issuer)
{
    free(identity->issuer);
    identity->issuer = xstrdup(issuer);
}

void identity_free(struct identity *identity)
{
    if (identity) {
        pki_fini(&identity->pki);
        free(identity->issuer);
        free(identity);
    }
}

/* ---- tokens ---- */

/* The host of the issuer's URL: what SPIFFE calls the trust domain. */
static struct str issuer_host(const struct identity *identity)
{
    const char *at = strstr(identity->issuer, "://");
    struct str host = str_of(at ? at + 3 : identity->issuer);

    host.len = strcspn(host.at, ":/");
    return host;
}

static json_t *claims_make(const struct identity *identity, const struct identity_subject *subject)
{
    const json_int_t now = clock_wall_ms() / 1000;
    const struct str host = issuer_host(identity);
    char jti[ID_UUID_LEN + 1];

    id_uuid(jti);
    return json_pack("{s:s, s:o, s:s, s:I, s:I, s:I, s:s, s:s, s:s, s:s}", "iss", identity->issuer,
                     "sub",
                     json_sprintf("spiffe://%.*s/team/%s/sandbox/%s", (int)host.len, host.at,
                                  subject->team_id, subject->sandbox_id),
                     "aud", subject->audience, "iat", now, "nbf", now, "exp",
                     now + IDENTITY_TOKEN_S, "jti", jti, "sandbox_id", subject->sandbox_id,
                     "team_id", subject->team_id, "template_id", subject->template_id);
}

/* The two numbers of a signature side by side, as JWS wants them. */
static int signature_make(const struct identity *identity, struct str text,
                          uint8_t out[2 * NUMBER_BYTES])
{
    uint8_t der[SIGNATURE_BYTES_MAX];
    const uint8_t *at = der;
    size_t len = sizeof(der);
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    bool good = ctx && EVP_DigestSignInit(ctx, NULL, EVP_sha256(), NULL, identity->pki.key) == 1 &&
                EVP_DigestSign(ctx, der, &len, (const unsigned char *)text.at, text.len) == 1;
    ECDSA_SIG *sig = good ? d2i_ECDSA_SIG(NULL, &at, (long)len) : NULL;

    good = sig && BN_bn2binpad(ECDSA_SIG_get0_r(sig), out, NUMBER_BYTES) == NUMBER_BYTES &&
           BN_bn2binpad(ECDSA_SIG_get0_s(sig), out + NUMBER_BYTES, NUMBER_BYTES) == NUMBER_BYTES;
    ECDSA_SIG_free(sig);
    EVP_MD_CTX_free(ctx);
    return good ? 0 : -EIO;
}

static int part_add(struct buf *out, json_t *part)
{
    char *text = part ? json_dumps(part, JSON_COMPACT) : NULL;
    int r = text ? base64_encode(out, text, strlen(text), BASE64_URL_NOPAD) : -EINVAL;

    free(text);
    json_decref(part);
    return r;
}

int identity_token(const struct identity *identity, const struct identity_subject *subject,
                   struct buf *out)
{
    uint8_t signature[2 * NUMBER_BYTES];
    scoped_buf(text, IDENTITY_TOKEN_BYTES_MAX);

    int r = part_add(
        &text, json_pack("{s:s, s:s, s:s}", "alg", "ES256", "kid", identity->kid, "typ", "JWT"));
    r = r < 0 ? r : buf_append(&text, ".", 1);
    r = r < 0 ? r : part_add(&text, claims_make(identity, subject));
    r = r < 0 ? r : signature_make(identity, buf_str(&text), signature);
    r = r < 0 ? r : buf_append(&text, ".", 1);
    r = r < 0 ? r : base64_encode(&text, signature, sizeof(signature), BASE64_URL_NOPAD);
    return r < 0 ? r : buf_append(out, buf_at(&text), buf_len(&text));
}

/* ---- published documents ---- */

static char *dump(json_t *json)
{
    char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;

    json_decref(json);
    if (!text) {
        abort(); /* our own texts: only without memory */
    }
    return text;
}

char *identity_keys(const struct identity *identity)
{
    return dump(json_pack("{s:[{s:s, s:s, s:s, s:s, s:s, s:s, s:s}]}", "keys", "kty", "EC", "crv",
                          "P-256", "use", "sig", "alg", "ES256", "kid", identity->kid, "x",
                          identity->x, "y", identity->y));
}

char *identity_configuration(const struct identity *identity)
{
    return dump(json_pack(
        "{s:s, s:o, s:[s], s:[s], s:[s], s:[s,s,s,s,s]}", "issuer", identity->issuer, "jwks_uri",
        json_sprintf("%s/.well-known/jwks.json", identity->issuer), "response_types_supported",
        "id_token", "subject_types_supported", "public", "id_token_signing_alg_values_supported",
        "ES256", "claims_supported", "iss", "sub", "aud", "exp", "sandbox_id"));
}
