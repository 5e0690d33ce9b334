/* tls_session.h - a TLS session on OpenSSL, shared by tls.c (server) and tls_client.c. */
#ifndef HTTP_TLS_SESSION_H
#define HTTP_TLS_SESSION_H

#include <openssl/ssl.h>

#include "lib/http/internal.h"
#include "lib/http/tls.h"

typedef void tls_send(void *ctx, const void *data, size_t len);

extern const struct tls_ops tls_session_ops;

/* Neither accepts nor connects yet. */
struct tls_session *tls_session_new(SSL_CTX *ctx_of, tls_send *send, void *ctx);
/* Returns -EINVAL, with OpenSSL's words about a file. */
int tls_fail(struct err *err, const char *what, const char *path);

SSL *tls_session_ssl(const struct tls_session *s);

#endif
