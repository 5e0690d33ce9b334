/* jail_tcp.h - TCP connections into a jail's network, made from outside.
 *
 * They are made from sockets that the keeper opened there. No process of the jail has a copy of the
 * daemon's end, so no process inside can change its state or hold its lock. (A process that sends
 * from pages that come slowly, in a thread that gets no time, would block every other user of that
 * socket for as long as it likes, whatever the flags of the call.)
 *
 * Owns:     the sockets it was given, until it hands over a connection.
 * Needs:    a loop.
 * Blocks:   never.
 * Threads:  the loop's.
 */
#ifndef SANDBOX_JAIL_TCP_H
#define SANDBOX_JAIL_TCP_H

#include <stdint.h>
#include <uv.h>

enum { JAIL_TCP_TIMEOUT_MS = 5000 };

struct jail_tcp; /* a connection that is being made */

/* ours: the daemon's end, or -errno; -ETIMEDOUT after JAIL_TCP_TIMEOUT_MS. theirs: of a pair, the
 * agent's end; else -1. Both are the callee's. Called once, perhaps before the call that began it
 * returns, and not after jail_tcp_cancel(). */
typedef void jail_tcp_done(void *ctx, int ours, int theirs);

enum jail_tcp_family { JAIL_TCP_IPV4, JAIL_TCP_IPV6 };

/* Connects to what listens on that port of the jail's loopback. NULL: done was called already. */
struct jail_tcp *jail_tcp_connect(uv_loop_t *loop, int socket, uint16_t port,
                                  enum jail_tcp_family family, jail_tcp_done *done, void *ctx);

/* Connects two sockets to each other. Unlike those of a unix pair, one end can be saved with the
 * jail while the other is outside. A process inside that connects to the port in that moment is not
 * accepted as either end. NULL: done was called already. */
struct jail_tcp *jail_tcp_pair(uv_loop_t *loop, const int sockets[2], jail_tcp_done *done,
                               void *ctx);

/* Accepts NULL. */
void jail_tcp_cancel(struct jail_tcp *tcp);

#endif
