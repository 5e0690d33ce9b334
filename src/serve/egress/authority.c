#include "serve/egress/authority.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/str.h"
#include "lib/base/table.h"

enum {
    LABEL_BYTES = 64,
    RENEW_MS = 24 * 3600 * 1000, /* long before a certificate ends */
};

struct named {
    UT_hash_handle hh;
    struct pki pki;
    int64_t made_ms;
    char name[PKI_NAME_BYTES_MAX + 1];
};

struct authority {
    unsigned refs;
    struct pki ca;
    struct pki key; /* of all certificates, without one itself */
    struct named *named;
    struct tls_context *tls;
};

static void ca_make(const uint8_t secret[PKI_SECRET_BYTES], const char *sandbox_id, struct pki *ca)
{
    char label[LABEL_BYTES];

    (void)snprintf(label, sizeof(label), "sandbox %s", sandbox_id);
    pki_key_derive(secret, label, ca);
    pki_certify_ca(ca, label);
}

static void forget(struct authority *authority)
{
    struct named *named, *next;

    HASH_ITER (hh, authority->named, named, next) {
        HASH_DEL(authority->named, named);
        pki_fini(&named->pki);
        free(named);
    }
}

/* A certificate of that name with the key that all of them share. */
static struct named *named_make(struct authority *authority, const char *name)
{
    struct named *named = xnew(struct named);

    (void)str_copy(named->name, sizeof(named->name), str_of(name));
    named->made_ms = clock_mono_ms();
    named->pki.key = authority->key.key;
    if (pki_certify(&named->pki, &authority->ca, &name, 1) < 0) {
        free(named);
        return NULL;
    }
    named->pki.key = NULL;
    HASH_ADD_STR(authority->named, name, named);
    return named;
}

static bool choose(void *ctx, const char *server_name, struct x509_st **cert,
                   struct evp_pkey_st **key)
{
    struct authority *authority = ctx;
    struct named *named = NULL;
    char name[PKI_NAME_BYTES_MAX + 1] = "";

    if (!str_copy(name, sizeof(name), str_of(server_name))) {
        return false;
    }
    for (char *c = name; *c; c++) {
        *c = char_lower(*c);
    }
    HASH_FIND_STR(authority->named, name, named);
    if ((named && clock_mono_ms() - named->made_ms > RENEW_MS) ||
        (!named && HASH_COUNT(authority->named) >= AUTHORITY_NAMES_MAX)) {
        forget(authority);
        named = NULL;
    }
    named = named ? named : named_make(authority, name);
    if (!named) {
        return false;
    }
    *cert = named->pki.cert;
    *key = authority->key.key;
    return true;
}

struct authority *authority_new(const uint8_t secret[PKI_SECRET_BYTES], const char *sandbox_id)
{
    struct authority *authority = xnew(struct authority);

    authority->refs = 1;
    ca_make(secret, sandbox_id, &authority->ca);
    pki_key_new(&authority->key);
    authority->tls = tls_context_new_choosing(choose, authority, true);
    return authority;
}

struct authority *authority_hold(struct authority *authority)
{
    authority->refs++;
    return authority;
}

void authority_release(struct authority *authority)
{
    if (!authority || --authority->refs > 0) {
        return;
    }
    tls_context_free(authority->tls);
    forget(authority);
    pki_fini(&authority->ca);
    pki_fini(&authority->key);
    free(authority);
}

struct tls_context *authority_tls(struct authority *authority)
{
    return authority->tls;
}

char *authority_pem(const uint8_t secret[PKI_SECRET_BYTES], const char *sandbox_id, char hash[9])
{
    struct pki ca;

    ca_make(secret, sandbox_id, &ca);
    char *pem = pki_cert_pem(&ca);
    pki_subject_hash(&ca, hash);
    pki_fini(&ca);
    return pem;
}
