/* tls.c - TLS on OpenSSL as a filter: ciphertext goes in by feed(), plaintext comes out by read().
 *
 * OpenSSL uses our own BIO: it reads straight from the bytes that just arrived and writes straight
 * to the socket's queue. hold() copies the bytes that it left, to be read first the next time.
 */
#include "lib/http/tls.h"

#include <assert.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "lib/base/alloc.h"
#include "lib/base/buf.h"
#include "lib/http/tls_session.h"

enum {
    HELD_BYTES_MAX = 256 * 1024, /* several reads: the next one waits until this is used up */
};

/* The part of lib/http/tls.h's context that is OpenSSL's. */
struct context {
    struct tls_context base; /* first: server.c knows only this */
    SSL_CTX *ctx;
    bool http2;
    tls_choose *choose; /* NULL: the context has one certificate for all */
    void *choose_ctx;
    bool must_choose; /* it has none of its own */
};

struct tls_session {
    SSL *ssl;
    struct str lent; /* by feed(), until hold() */
    struct buf held;
    void (*send)(void *ctx, const void *data, size_t len);
    void *send_ctx;
};

/* ---- the BIO between OpenSSL and the socket ---- */

static int bio_write(BIO *bio, const char *data, int len)
{
    struct tls_session *s = BIO_get_data(bio);

    s->send(s->send_ctx, data, (size_t)len);
    return len;
}

static int bio_read(BIO *bio, char *out, int len)
{
    struct tls_session *s = BIO_get_data(bio);
    bool from_held = buf_len(&s->held) > 0;
    struct str from = from_held ? buf_str(&s->held) : s->lent;
    size_t n = from.len < (size_t)len ? from.len : (size_t)len;

    BIO_clear_retry_flags(bio);
    if (n == 0) {
        BIO_set_retry_read(bio);
        return -1;
    }
    memcpy(out, from.at, n);
    if (from_held) {
        buf_consume(&s->held, n);
    } else {
        s->lent = str_skip(s->lent, n);
    }
    return (int)n;
}

static long bio_ctrl(BIO *bio, int cmd, long num, void *ptr)
{
    (void)bio, (void)num, (void)ptr;
    return cmd == BIO_CTRL_FLUSH; /* nothing is kept back here */
}

static BIO_METHOD *bio_method(void)
{
    static BIO_METHOD *method; /* one for the program's life, made by the loop's thread */

    if (!method) {
        method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "connection");
        if (!method || !BIO_meth_set_write(method, bio_write) ||
            !BIO_meth_set_read(method, bio_read) || !BIO_meth_set_ctrl(method, bio_ctrl)) {
            abort();
        }
    }
    return method;
}

/* ---- a session ---- */

struct tls_session *tls_session_new(SSL_CTX *ctx_of, tls_send *send, void *ctx)
{
    struct tls_session *s = xnew(struct tls_session);
    BIO *bio = BIO_new(bio_method());

    s->ssl = SSL_new(ctx_of);
    if (!bio || !s->ssl) {
        abort(); /* fixed-size objects: see lib/base/alloc.h */
    }
    s->send = send;
    s->send_ctx = ctx;
    buf_init(&s->held, HELD_BYTES_MAX);
    BIO_set_data(bio, s);
    BIO_set_init(bio, 1);
    SSL_set_bio(s->ssl, bio, bio);
    return s;
}

SSL *tls_session_ssl(const struct tls_session *s)
{
    return s->ssl;
}

static struct tls_session *session_open(struct tls_context *tls, tls_send *send, void *ctx)
{
    struct context *context = container_of(tls, struct context, base);
    struct tls_session *s = tls_session_new(context->ctx, send, ctx);

    SSL_set_accept_state(s->ssl);
    return s;
}

static void session_free(struct tls_session *s)
{
    SSL_free(s->ssl);
    buf_fini(&s->held);
    free(s);
}

static void session_feed(struct tls_session *s, const char *data, size_t len)
{
    assert(s->lent.len == 0);
    s->lent = (struct str){data, len};
}

static int session_hold(struct tls_session *s)
{
    int r = buf_append(&s->held, s->lent.at, s->lent.len);

    s->lent = (struct str){NULL, 0};
    if (buf_len(&s->held) == 0) {
        buf_fini(&s->held);
    }
    return r;
}

/* OpenSSL keeps its errors in a queue of the thread: an error left there would be taken for the
 * next call's. */
static long session_outcome(struct tls_session *s, int r)
{
    switch (SSL_get_error(s->ssl, r)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
        return -EAGAIN;
    case SSL_ERROR_ZERO_RETURN:
        return 0;
    default:
        ERR_clear_error();
        return -EPROTO;
    }
}

static long session_read(struct tls_session *s, char *out, size_t size)
{
    size_t n = 0;

    ERR_clear_error();
    int r = SSL_read_ex(s->ssl, out, size, &n);
    return r == 1 ? (long)n : session_outcome(s, r);
}

/* Our BIO takes everything, so a write is whole or has failed. */
static int session_write(struct tls_session *s, const void *data, size_t len)
{
    size_t n = 0;

    ERR_clear_error();
    int r = SSL_write_ex(s->ssl, data, len, &n);
    if (r == 1) {
        assert(n == len);
        return 0;
    }
    long error = session_outcome(s, r);
    return error ? (int)error : -EPIPE;
}

static void session_shutdown(struct tls_session *s)
{
    if (SSL_is_init_finished(s->ssl)) {
        ERR_clear_error();
        (void)SSL_shutdown(s->ssl); /* sends close_notify; the peer's is not waited for */
        ERR_clear_error();
    }
}

static bool session_is_http2(const struct tls_session *s)
{
    const unsigned char *name = NULL;
    unsigned len = 0;

    SSL_get0_alpn_selected(s->ssl, &name, &len);
    return len == 2 && memcmp(name, "h2", 2) == 0;
}

const struct tls_ops tls_session_ops = {
    .open = session_open,
    .free = session_free,
    .feed = session_feed,
    .hold = session_hold,
    .read = session_read,
    .write = session_write,
    .shutdown = session_shutdown,
    .is_http2 = session_is_http2,
};

/* ---- the context ---- */

/* Chooses the first of our protocols that the client offers; a client that offers none gets no
 * ALPN. */
static int on_alpn(SSL *ssl, const unsigned char **out, unsigned char *out_len,
                   const unsigned char *in, unsigned in_len, void *arg)
{
    static const unsigned char with_http2[] = "\x02h2\x08http/1.1";
    const struct context *context = arg;
    const unsigned char *ours = context->http2 ? with_http2 : with_http2 + 3;
    unsigned ours_len = (unsigned)sizeof(with_http2) - 1 - (context->http2 ? 0 : 3);
    unsigned char *chosen;

    (void)ssl;
    if (SSL_select_next_proto(&chosen, out_len, ours, ours_len, in, in_len) !=
        OPENSSL_NPN_NEGOTIATED) {
        return SSL_TLSEXT_ERR_NOACK;
    }
    *out = chosen;
    return SSL_TLSEXT_ERR_OK;
}

int tls_fail(struct err *err, const char *what, const char *path)
{
    unsigned long code = ERR_get_error(); /* the first, which is the cause of the others */
    const char *reason = ERR_SYSTEM_ERROR(code) ? strerrordesc_np((int)ERR_GET_REASON(code))
                                                : ERR_reason_error_string(code);

    ERR_clear_error();
    return err_set(err, EINVAL, "%s %s: %s", what, path, reason ? reason : "it cannot be used");
}

/* OpenSSL asks while it answers a hello. */
static int on_choose(SSL *ssl, void *arg)
{
    const struct context *context = arg;
    const char *name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
    X509 *cert = NULL;
    EVP_PKEY *key = NULL;

    if (!name || !context->choose(context->choose_ctx, name, &cert, &key)) {
        return !context->must_choose;
    }
    return SSL_use_certificate(ssl, cert) == 1 && SSL_use_PrivateKey(ssl, key) == 1;
}

static SSL_CTX *ctx_new(struct context *context)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());

    if (!ctx) {
        abort();
    }
    SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION);
    SSL_CTX_set_options(ctx, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_num_tickets(ctx, 0);
    SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_alpn_select_cb(ctx, on_alpn, context);
    if (context->choose) {
        SSL_CTX_set_cert_cb(ctx, on_choose, context);
    }
    return ctx;
}

/* Open sessions keep the old certificate. */
static void ctx_replace(struct context *context, SSL_CTX *ctx)
{
    SSL_CTX_free(context->ctx);
    context->ctx = ctx;
}

static struct context *context_new(bool http2)
{
    struct context *context = xnew(struct context);

    context->base.ops = &tls_session_ops;
    context->http2 = http2;
    context->ctx = ctx_new(context);
    return context;
}

static int files_use(SSL_CTX *ctx, const char *cert_path, const char *key_path, struct err *err)
{
    if (SSL_CTX_use_certificate_chain_file(ctx, cert_path) != 1) {
        return tls_fail(err, "read the certificate", cert_path);
    }
    if (SSL_CTX_use_PrivateKey_file(ctx, key_path, SSL_FILETYPE_PEM) != 1) {
        return tls_fail(err, "read the key", key_path);
    }
    return SSL_CTX_check_private_key(ctx) == 1
               ? 0
               : tls_fail(err, "match the certificate to the key", key_path);
}

int tls_context_load(struct tls_context *tls, const char *cert_path, const char *key_path,
                     struct err *err)
{
    struct context *context = container_of(tls, struct context, base);
    SSL_CTX *ctx = ctx_new(context);
    int r = files_use(ctx, cert_path, key_path, err);

    if (r < 0) {
        SSL_CTX_free(ctx);
    } else {
        ctx_replace(context, ctx);
    }
    return r;
}

int tls_context_new(const char *cert_path, const char *key_path, bool http2,
                    struct tls_context **out, struct err *err)
{
    struct context *context = context_new(http2);
    int r = tls_context_load(&context->base, cert_path, key_path, err);

    if (r < 0) {
        tls_context_free(&context->base);
        return r;
    }
    *out = &context->base;
    return 0;
}

void tls_context_use(struct tls_context *tls, X509 *cert, EVP_PKEY *key)
{
    struct context *context = container_of(tls, struct context, base);
    SSL_CTX *ctx = ctx_new(context);

    if (SSL_CTX_use_certificate(ctx, cert) != 1 || SSL_CTX_use_PrivateKey(ctx, key) != 1) {
        abort(); /* they were made for each other */
    }
    ctx_replace(context, ctx);
}

struct tls_context *tls_context_new_with(X509 *cert, EVP_PKEY *key, bool http2)
{
    struct context *context = context_new(http2);

    tls_context_use(&context->base, cert, key);
    return &context->base;
}

void tls_context_prefer(struct tls_context *tls, tls_choose *choose, void *ctx)
{
    struct context *context = container_of(tls, struct context, base);

    context->choose = choose;
    context->choose_ctx = ctx;
    SSL_CTX_set_cert_cb(context->ctx, on_choose, context);
}

struct tls_context *tls_context_new_choosing(tls_choose *choose, void *ctx, bool http2)
{
    struct context *context = context_new(http2);

    context->must_choose = true;
    tls_context_prefer(&context->base, choose, ctx);
    return &context->base;
}

bool tls_context_names(struct tls_context *tls, struct str name)
{
    struct context *context = container_of(tls, struct context, base);
    X509 *cert = SSL_CTX_get0_certificate(context->ctx);

    return cert && name.len > 0 &&
           X509_check_host(cert, name.at, name.len,
                           X509_CHECK_FLAG_NO_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT,
                           NULL) == 1;
}

void tls_context_free(struct tls_context *tls)
{
    if (tls) {
        struct context *context = container_of(tls, struct context, base);
        SSL_CTX_free(context->ctx);
        free(context);
    }
}
