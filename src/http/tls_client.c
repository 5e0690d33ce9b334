#include "http/tls_client.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>

#include "base/alloc.h"
#include "http/tls_session.h"

struct tls_trust {
    SSL_CTX *ctx;
};

const struct tls_ops *const tls_client_ops = &tls_session_ops;

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

struct tls_session *tls_client_open(struct tls_trust *trust, const char *name, bool http2,
                                    void (*send)(void *ctx, const void *data, size_t len),
                                    void *ctx)
{
    static const unsigned char protocols[] = "\x02h2\x08http/1.1";
    struct tls_session *s = tls_session_new(trust->ctx, send, ctx);
    SSL *ssl = tls_session_ssl(s);
    size_t skip = http2 ? 0 : 3;

    /* Names are short and protocols are well formed: this fails only without memory. */
    if (name_send(ssl, name) != 1 || SSL_set1_host(ssl, name) != 1 ||
        SSL_set_alpn_protos(ssl, protocols + skip, (unsigned)(sizeof(protocols) - 1 - skip)) != 0) {
        abort();
    }
    SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    SSL_set_connect_state(ssl);
    return s;
}

int tls_client_handshake(struct tls_session *s, struct err *err)
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
