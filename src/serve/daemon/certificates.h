/* certificates.h - the certificates of the daemon's own TLS.
 *
 * Certificate files of the operator are read again when they change. Without them there is a
 * certificate for the domain, signed by an authority of this daemon's own, whose certificate lies
 * at paths.ca for clients to trust, for our own names alone. Its key comes from the daemon's
 * secret, so it is the same after every start.
 *
 * Owns:     the TLS context.
 * Blocks:   where files are read, which are small.
 * Threads:  the loop's.
 */
#ifndef DAEMON_CERTIFICATES_H
#define DAEMON_CERTIFICATES_H

#include <uv.h>

#include "lib/http/tls.h"
#include "serve/daemon/config.h"
#include "serve/daemon/paths.h"

enum {
    CERTIFICATES_LOOK_MS = 2000,              /* at the operator's files */
    CERTIFICATES_RENEW_MS = 24 * 3600 * 1000, /* of our own: long before it expires */
};

struct certificates;

must_check int certificates_open(uv_loop_t *loop, const struct config *config,
                                 const struct paths *paths, struct certificates **out,
                                 struct err *err);
/* Removes the authority's certificate of an earlier start: clients need none now. */
void certificates_disown(const struct paths *paths);
struct tls_context *certificates_tls(const struct certificates *certificates);
void certificates_close(struct certificates *certificates); /* NULL is fine */

#endif
