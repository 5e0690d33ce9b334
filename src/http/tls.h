/* tls.h - the server's side of TLS for http/server.c: certificates and ALPN (h2, http/1.1). */
#ifndef HTTP_TLS_H
#define HTTP_TLS_H

#include <stdbool.h>

#include "base/compiler.h"
#include "base/err.h"

struct tls_context;

/* Reads a PEM chain and its key. Sessions and tickets are off and buffers are released while idle:
 * an idle connection costs about 14 KB. */
must_check int tls_context_new(const char *cert_path, const char *key_path, bool http2,
                               struct tls_context **out, struct err *err);
void tls_context_free(struct tls_context *tls);

#endif
