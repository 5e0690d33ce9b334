/* tls_client.h - the client's half of TLS as a filter, like that of the server in internal.h.
 *
 * Owns:     the session. Blocks: never. Threads: the loop's.
 */
#ifndef HTTP_TLS_CLIENT_H
#define HTTP_TLS_CLIENT_H

#include "lib/base/err.h"
#include "lib/http/internal.h"
#include "lib/http/tls.h"

/* Towards a server that must have a certificate for `name`. http2: it is offered beside HTTP/1.1.
 */
struct tls_session *tls_client_open(struct tls_trust *trust, const char *name, bool http2,
                                    void (*send)(void *ctx, const void *data, size_t len),
                                    void *ctx);

/* The same for what is no HTTP. */
struct tls_session *tls_client_open_bare(struct tls_trust *trust, const char *name,
                                         void (*send)(void *ctx, const void *data, size_t len),
                                         void *ctx);

/* 0 when the handshake is through and the server is who it should be; -EAGAIN until then; -EACCES
 * when its certificate is not good, -EPROTO when it speaks no TLS that we do, each with err. */
must_check int tls_client_handshake(struct tls_session *s, struct err *err);

/* What it does from then on. */
extern const struct tls_ops *const tls_client_ops;

#endif
