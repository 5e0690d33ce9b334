/* dial.h - a TCP connection to the world, as one descriptor.
 *
 *      target ─┬─ the operator's map ──────────────────────────────► connect
 *              ├─ the sandbox's proxy ─ its address ─ guard ─► connect ─ (TLS) ─ talk
 *              ├─ the operator's proxy ─ its address ────────► connect ─ talk
 *              └────────────────────────────────────────────────────► connect
 *
 * Policy and guard have been asked about the target already.
 *
 * Owns:     the socket until it is handed over.
 * Blocks:   never.
 * Threads:  the loop's.
 */
#ifndef EGRESS_DIAL_H
#define EGRESS_DIAL_H

#include "serve/egress/internal.h"

struct dial;

/* A connected socket that done owns, or -errno. From the loop, once, and not after dial_cancel().
 */
typedef void dial_done(void *ctx, int fd_or_error);

/* A proxy's failure is written to the sandbox's log. */
struct dial *dial_start(struct egress_net *net, const struct target *to, dial_done *done,
                        void *ctx);
void dial_cancel(struct dial *dial); /* fine for NULL */

/* Chooses an allowed address of a name: `wanted` if it is one of them (NULL: none is preferred),
 * else the first. False: there is none. */
bool dial_choose(const struct egress *egress, const struct address *addresses, size_t n,
                 const struct address *wanted, struct endpoint *to);

/* Whether a connection there would go through the operator's proxy. */
bool dial_is_proxied(const struct egress *egress, const struct target *to);

#endif
