/* Certificates of our own: what OpenSSL's verifier says of them. */
#include <errno.h>
#include <openssl/evp.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "lib/pki/pki.h"

static const uint8_t secret[PKI_SECRET_BYTES] = "thirty-two bytes of some secret";

static void ca_make(const char *label, struct pki *ca)
{
    pki_key_derive(secret, label, ca);
    pki_certify_ca(ca, label);
}

/* X509_V_OK or why not, for a server of that name. */
static int verify(const struct pki *ca, const struct pki *leaf, const char *name)
{
    X509_STORE *store = X509_STORE_new();
    X509_STORE_CTX *ctx = X509_STORE_CTX_new();

    X509_STORE_add_cert(store, ca->cert);
    X509_STORE_CTX_init(ctx, store, leaf->cert, NULL);
    X509_STORE_CTX_set_default(ctx, "ssl_server");
    X509_VERIFY_PARAM_set1_host(X509_STORE_CTX_get0_param(ctx), name, 0);
    int ok = X509_verify_cert(ctx);
    int why = X509_STORE_CTX_get_error(ctx);
    X509_STORE_CTX_free(ctx);
    X509_STORE_free(store);
    return ok == 1 ? X509_V_OK : why;
}

static void a_leaf_is_good_for_its_names_alone(void)
{
    const char *const names[] = {"api.example.com", "*.sub.example.com"};
    struct pki ca, leaf;

    ca_make("one", &ca);
    pki_key_new(&leaf);
    CHECK_INT(pki_certify(&leaf, &ca, names, 2), 0);
    CHECK_INT(verify(&ca, &leaf, "api.example.com"), X509_V_OK);
    CHECK_INT(verify(&ca, &leaf, "x.sub.example.com"), X509_V_OK);
    CHECK_INT(verify(&ca, &leaf, "example.com"), X509_V_ERR_HOSTNAME_MISMATCH);
    pki_fini(&leaf);
    pki_fini(&ca);
}

static void a_derived_key_comes_back_and_others_differ(void)
{
    const char *const names[] = {"api.example.com"};
    struct pki first, again, other, leaf;

    ca_make("sandbox one", &first);
    ca_make("sandbox one", &again);
    ca_make("sandbox two", &other);
    CHECK_INT(EVP_PKEY_eq(first.key, again.key), 1);
    CHECK_INT(EVP_PKEY_eq(first.key, other.key), 0);

    pki_key_new(&leaf);
    CHECK_INT(pki_certify(&leaf, &again, names, 1), 0);
    CHECK_INT(verify(&first, &leaf, "api.example.com"), X509_V_OK);
    CHECK(verify(&other, &leaf, "api.example.com") != X509_V_OK);
    pki_fini(&first);
    pki_fini(&again);
    pki_fini(&other);
    pki_fini(&leaf);
}

static void names_that_are_none_are_refused(void)
{
    static const char *const bad[] = {"", "a,DNS:b", "a b", "a\nb", "a;b", "a/b"};
    struct pki ca, leaf;

    ca_make("one", &ca);
    pki_key_new(&leaf);
    for (size_t i = 0; i < countof(bad); i++) {
        CHECK_INT(pki_certify(&leaf, &ca, &bad[i], 1), -EINVAL);
    }
    CHECK_INT(pki_certify(&leaf, &ca, NULL, 0), -EINVAL);
    pki_fini(&leaf);
    pki_fini(&ca);
}

static void addresses_and_long_names_can_be_certified(void)
{
    char longest[PKI_NAME_BYTES_MAX + 1];
    const char *names[] = {longest, "127.0.0.1", "::1"};
    struct pki ca, leaf;

    memset(longest, 'a', PKI_NAME_BYTES_MAX);
    longest[PKI_NAME_BYTES_MAX] = '\0';
    for (size_t i = 60; i < PKI_NAME_BYTES_MAX; i += 60) {
        longest[i] = '.';
    }
    ca_make("one", &ca);
    pki_key_new(&leaf);
    CHECK_INT(pki_certify(&leaf, &ca, names, 3), 0);
    CHECK_INT(verify(&ca, &leaf, longest), X509_V_OK);
    CHECK_INT(X509_check_ip_asc(leaf.cert, "127.0.0.1", 0), 1);
    CHECK_INT(X509_check_ip_asc(leaf.cert, "127.0.0.2", 0), 0);
    pki_fini(&leaf);
    pki_fini(&ca);
}

static void the_text_is_pem_and_the_hash_is_its_subject(void)
{
    struct pki ca;
    char hash[9];

    ca_make("one", &ca);
    char *pem = pki_cert_pem(&ca);
    CHECK(strncmp(pem, "-----BEGIN CERTIFICATE-----\n", 28) == 0);
    CHECK(strstr(pem, "PRIVATE") == NULL);
    pki_subject_hash(&ca, hash);
    CHECK_INT((long long)strspn(hash, "0123456789abcdef"), 8);
    free(pem);
    pki_fini(&ca);
}

static void an_authority_with_limits_is_believed_for_its_names_alone(void)
{
    const char *const own[] = {"localhost", "box.test", "127.0.0.1", "::1"};
    const char *const good[] = {"localhost", "8000-id.localhost", "api.box.test", "127.0.0.1"};
    const char *const bad[] = {"example.com", "notlocalhost", "192.0.2.1"};
    struct pki ca, leaf;

    pki_key_new(&ca);
    CHECK_INT(pki_certify_ca_for(&ca, "limited", own, countof(own)), 0);
    pki_key_new(&leaf);
    for (size_t i = 0; i < countof(good); i++) {
        CHECK_INT(pki_certify(&leaf, &ca, &good[i], 1), 0);
        CHECK_INT(verify(&ca, &leaf, i == 3 ? NULL : good[i]), X509_V_OK);
    }
    for (size_t i = 0; i < countof(bad); i++) {
        CHECK_INT(pki_certify(&leaf, &ca, &bad[i], 1), 0);
        CHECK_INT(verify(&ca, &leaf, i == 2 ? NULL : bad[i]), X509_V_ERR_PERMITTED_VIOLATION);
    }
    CHECK_INT(pki_certify_ca_for(&ca, "limited", (const char *const[]){"a,DNS:b"}, 1), -EINVAL);
    pki_fini(&ca);
    pki_fini(&leaf);
}

static bool text_is_for(const struct pki *ca, const char *const *names, size_t n)
{
    char *pem = pki_cert_pem(ca);
    bool is = pki_ca_is_for(pem, names, n);

    free(pem);
    return is;
}

static void an_authority_shows_its_limits(void)
{
    const char *const own[] = {"box.test", "localhost", "127.0.0.1"};
    struct pki ca;

    pki_key_new(&ca);
    CHECK_INT(pki_certify_ca_for(&ca, "limited", own, 3), 0);
    CHECK(text_is_for(&ca, own, 2));
    CHECK(!text_is_for(&ca, own + 1, 1)); /* box.test is one too many */
    CHECK_INT(pki_certify_ca_for(&ca, "limited", own, 2), 0);
    CHECK(!text_is_for(&ca, own, 2)); /* every address is as good */
    pki_certify_ca(&ca, "not limited");
    CHECK(!text_is_for(&ca, own, 2));
    CHECK(!pki_ca_is_for("nothing", own, 2));
    pki_fini(&ca);
}

int main(void)
{
    static const struct check_test tests[] = {
        {"a leaf is good for its names alone", a_leaf_is_good_for_its_names_alone},
        {"a derived key comes back and others differ", a_derived_key_comes_back_and_others_differ},
        {"names that are none are refused", names_that_are_none_are_refused},
        {"addresses and long names can be certified", addresses_and_long_names_can_be_certified},
        {"an authority with limits is believed for its names alone",
         an_authority_with_limits_is_believed_for_its_names_alone},
        {"an authority shows its limits", an_authority_shows_its_limits},
        {"the text is pem and the hash is its subject",
         the_text_is_pem_and_the_hash_is_its_subject},
    };
    return check_run(tests, countof(tests));
}
