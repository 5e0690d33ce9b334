/* tls_client.h - the client's half of TLS, on a connection that we opened.
 *
 * Owns:     the session. Blocks: never. Threads: the loop's.
 */
#ifndef HTTP_TLS_CLIENT_H
#define HTTP_TLS_CLIENT_H

#include "lib/base/err.h"
#include "lib/http/client_conn.h"
#include "lib/http/internal.h"
#include "lib/http/tls.h"

/* The application protocols that the client offers. */
enum tls_offer { TLS_OFFER_NONE, TLS_OFFER_HTTP1, TLS_OFFER_HTTP2 /* beside HTTP/1.1 */ };

/* Puts TLS on a connection that has carried nothing yet. The server must have a certificate for
 * `name`. `ready` is called once, with the connection's ctx: 0 when the handshake is through and
 * the server is the right one; else, with err, -EACCES (its certificate is not good), -EPROTO (it
 * speaks no TLS that we do) or -ECONNRESET, when only client_conn_close() is left. The trust is
 * used during the call alone. */
void tls_client_secure(struct client_conn *conn, struct tls_trust *trust, const char *name,
                       enum tls_offer offer,
                       void (*ready)(void *ctx, int error, const struct err *err));

#endif
