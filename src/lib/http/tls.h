/* tls.h - TLS: certificates and ALPN (h2, http/1.1) for lib/http/server.c, trust for
 * lib/http/client_conn.c.
 *
 * Owns:     OpenSSL's contexts.
 * Blocks:   where files are read.
 * Threads:  the loop's. */
#ifndef HTTP_TLS_H
#define HTTP_TLS_H

#include <stdbool.h>

#include "lib/base/compiler.h"
#include "lib/base/err.h"
#include "lib/base/str.h"

struct tls_context;

/* Reads a PEM chain and its key. Sessions and tickets are off and buffers are released while idle:
 * an idle connection costs about 14 KB. */
must_check int tls_context_new(const char *cert_path, const char *key_path, bool http2,
                               struct tls_context **out, struct err *err);
/* The same for connections from now on; on failure all stays as it was. */
must_check int tls_context_load(struct tls_context *tls, const char *cert_path,
                                const char *key_path, struct err *err);
void tls_context_free(struct tls_context *tls);
/* Whether the certificate is for exactly that name; a wildcard that covers it does not count. */
bool tls_context_names(struct tls_context *tls, struct str name);

struct x509_st;     /* OpenSSL's X509 */
struct evp_pkey_st; /* OpenSSL's EVP_PKEY */

/* The certificate and key for a server of that name, which stay the callee's; false refuses the
 * handshake. */
typedef bool tls_choose(void *ctx, const char *server_name, struct x509_st **cert,
                        struct evp_pkey_st **key);

/* A context with a certificate that is in memory, until another is used. Both are copied. */
struct tls_context *tls_context_new_with(struct x509_st *cert, struct evp_pkey_st *key, bool http2);
void tls_context_use(struct tls_context *tls, struct x509_st *cert, struct evp_pkey_st *key);

/* From now on `choose` is asked first; where it says no, the context's own certificate is used. */
void tls_context_prefer(struct tls_context *tls, tls_choose *choose, void *ctx);

/* A context that asks for each connection. A client that names no server is refused. */
struct tls_context *tls_context_new_choosing(tls_choose *choose, void *ctx, bool http2);

/* ---- the client's side ---- */

/* The authorities that a client trusts: those of this machine, and those in a file (PEM; "":
 * none). */
struct tls_trust;
must_check int tls_trust_new(const char *extra_path, struct tls_trust **out, struct err *err);
/* The authorities in a text (PEM) alone. -EINVAL: there is none in it, or it is too long. */
enum { TLS_PEM_BYTES_MAX = 64 * 1024 };
must_check int tls_trust_new_pem(struct str pem, struct tls_trust **out);
/* Trusts every certificate: for a server inside a sandbox, which is reached over a socket of our
 * own. */
struct tls_trust *tls_trust_anybody(void);
void tls_trust_free(struct tls_trust *trust);

#endif
