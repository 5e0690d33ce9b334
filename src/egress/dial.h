/* dial.h - a TCP connection to an address of the world, as one descriptor.
 *
 * The guard and the policy have been asked already; the operator's map is applied here.
 *
 * Owns:     the socket until it is handed over. Blocks: never. Threads: the loop's.
 */
#ifndef EGRESS_DIAL_H
#define EGRESS_DIAL_H

#include "egress/internal.h"

struct dial;

/* A connected socket that done owns, or -errno. From the loop, once, and not after dial_cancel().
 */
typedef void dial_done(void *ctx, int fd_or_error);

struct dial *dial_start(struct egress *egress, const struct endpoint *to, dial_done *done,
                        void *ctx);
void dial_cancel(struct dial *dial); /* fine for NULL */

#endif
