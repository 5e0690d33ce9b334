#include "lib/http/tls_client.h"
#include <arpa/inet.h>

#include <errno.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>

#include "lib/base/alloc.h"
#include "lib/http/tls_session.h"

struct tls_trust {
    SSL_CTX *ctx;
};

/* ---- whom to believe ---- */

static SSL_CTX *ctx_new(void)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());

    if (!ctx) {
        abort();
    }
    SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION);
    SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS);
    return ctx;
}

struct tls_trust *tls_trust_anybody(void)
{
    struct tls_trust *trust = xnew(struct tls_trust);

    trust->ctx = ctx_new();
    SSL_CTX_set_verify(trust->ctx, SSL_VERIFY_NONE, NULL);
    return trust;
}

int tls_trust_new(const char *extra_path, struct tls_trust **out, struct err *err)
{
    SSL_CTX *ctx = ctx_new();

    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
    if (SSL_CTX_set_default_verify_paths(ctx) != 1) {
        abort();
    }
    if (extra_path[0] && SSL_CTX_load_verify_file(ctx, extra_path) != 1) {
        SSL_CTX_free(ctx);
        return tls_fail(err, "read the certificate authorities", extra_path);
    }
    *out = xnew(struct tls_trust);
    (*out)->ctx = ctx;
    return 0;
}

/* The number of certificates that were taken. */
static int certificates_add(X509_STORE *store, struct str pem)
{
    BIO *bio = BIO_new_mem_buf(pem.at, (int)pem.len);
    X509 *cert = NULL;
    int n = 0;

    while (bio && (cert = PEM_read_bio_X509(bio, NULL, NULL, NULL))) {
        n += X509_STORE_add_cert(store, cert) == 1;
        X509_free(cert);
    }
    BIO_free(bio);
    ERR_clear_error();
    return n;
}

int tls_trust_new_pem(struct str pem, struct tls_trust **out)
{
    SSL_CTX *ctx = ctx_new();

    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
    if (pem.len > TLS_PEM_BYTES_MAX || certificates_add(SSL_CTX_get_cert_store(ctx), pem) == 0) {
        SSL_CTX_free(ctx);
        return -EINVAL;
    }
    *out = xnew(struct tls_trust);
    (*out)->ctx = ctx;
    return 0;
}

void tls_trust_free(struct tls_trust *trust)
{
    if (trust) {
        SSL_CTX_free(trust->ctx);
        free(trust);
    }
}

/* ---- a session ---- */

/* OpenSSL's own macro casts the name's const away, which it only reads. */
static long name_send(SSL *ssl, const char *name)
{
    return SSL_ctrl(ssl, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name,
                    (void *)(uintptr_t)name);
}

static bool is_address(const char *name)
{
    struct in6_addr any;

    return inet_pton(AF_INET, name, &any) == 1 || inet_pton(AF_INET6, name, &any) == 1;
}

static struct tls_session *session_open(struct tls_trust *trust, const char *name,
                                        struct client_conn *conn)
{
    struct tls_session *s = tls_session_new(trust->ctx, client_conn_send, conn);
    SSL *ssl = tls_session_ssl(s);
    bool ok = is_address(name) ? X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), name) == 1
                               : name_send(ssl, name) == 1 && SSL_set1_host(ssl, name) == 1;

    if (!ok) { /* names are short: this fails only without memory */
        abort();
    }
    SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    SSL_set_connect_state(ssl);
    return s;
}

static void protocols_offer(SSL *ssl, bool http2)
{
    static const unsigned char protocols[] = "\x02h2\x08http/1.1";
    size_t skip = http2 ? 0 : 3;

    if (SSL_set_alpn_protos(ssl, protocols + skip, (unsigned)(sizeof(protocols) - 1 - skip)) != 0) {
        abort(); /* they are well formed: only without memory */
    }
}

static int handshake(struct tls_session *s, struct err *err)
{
    SSL *ssl = tls_session_ssl(s);

    ERR_clear_error();
    int r = SSL_do_handshake(ssl);
    if (r == 1) {
        return 0;
    }
    int why = SSL_get_error(ssl, r);
    if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE) {
        return -EAGAIN;
    }
    long verified = SSL_get_verify_result(ssl);
    const char *reason = ERR_reason_error_string(ERR_peek_last_error());
    ERR_clear_error();
    if (verified != X509_V_OK) {
        return err_set(err, EACCES, "its certificate is not good: %s",
                       X509_verify_cert_error_string(verified));
    }
    return err_set(err, EPROTO, "TLS failed: %s", reason ? reason : "the connection was cut");
}

void tls_client_secure(struct client_conn *conn, struct tls_trust *trust, const char *name,
                       enum tls_offer offer,
                       void (*ready)(void *ctx, int error, const struct err *err))
{
    struct tls_session *s = session_open(trust, name, conn);

    if (offer != TLS_OFFER_NONE) {
        protocols_offer(tls_session_ssl(s), offer == TLS_OFFER_HTTP2);
    }
    client_conn_secure(conn, &tls_session_ops, s, handshake, ready);
}
