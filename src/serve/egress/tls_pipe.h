/* tls_pipe.h - TLS on a connection that others read and write as a plain descriptor.
 *
 *      the user ─ socket pair ─ pipe ─ TLS ─ server
 *
 * Owns:     the connection and its end of the pair. Frees itself when both are closed: the user of
 *           the other end closes that, or the server leaves.
 * Blocks:   never.
 * Threads:  the loop's.
 */
#ifndef EGRESS_TLS_PIPE_H
#define EGRESS_TLS_PIPE_H

#include <uv.h>

#include "lib/base/err.h"

struct tls_pipe;
struct tls_trust;

/* The other end, which the callee owns, once the server has shown a certificate for `name`; or
 * -errno with a clause that says why not. From the loop, once, and not after tls_pipe_cancel(). */
typedef void tls_pipe_ready(void *ctx, int fd_or_error, const struct err *err);

/* Takes the descriptor over, also on failure. The trust is used during the call alone. */
must_check int tls_pipe_start(uv_loop_t *loop, int fd, struct tls_trust *trust, const char *name,
                              tls_pipe_ready *ready, void *ctx, struct tls_pipe **out,
                              struct err *err);
/* Before `ready`; NULL is fine. */
void tls_pipe_cancel(struct tls_pipe *pipe);

#endif
