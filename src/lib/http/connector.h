/* connector.h - connects a TCP socket to an address, within a time.
 *
 * Owns:     the socket, until it is handed over.
 * Needs:    a libuv loop.
 * Blocks:   never.
 * Threads:  the loop's.
 */
#ifndef HTTP_CONNECTOR_H
#define HTTP_CONNECTOR_H

#include <sys/socket.h>
#include <uv.h>

struct connector; /* a connection that is being made */

/* A connected socket, which the callee owns, or -errno: -ETIMEDOUT after timeout_ms. Called once,
 * from the loop, and not after connector_cancel(). */
typedef void connector_done(void *ctx, int fd_or_error);

/* Connects a new TCP socket to an IPv4 or IPv6 address. timeout_ms 0: as long as the kernel tries.
 */
struct connector *connector_start(uv_loop_t *loop, const struct sockaddr *to, uint64_t timeout_ms,
                                  connector_done *done, void *ctx);
void connector_cancel(struct connector *connector); /* accepts NULL */

#endif
