/* link.h - the socket between a task and the daemon (wire/travel.h).
 *
 * Owns:    nothing.
 * Blocks:  for the other side, at most TRAVEL_STALL_MS: -ETIMEDOUT then.
 * Threads: one.
 */
#ifndef TRAVEL_LINK_H
#define TRAVEL_LINK_H

#include <stddef.h>
#include <sys/types.h>

#include "lib/base/compiler.h"
#include "lib/base/err.h"
#include "wire/travel.h"

struct link {
    int socket;
    enum travel_kind kind; /* of the last message */
    char body[TRAVEL_BODY_BYTES_MAX];
    size_t at, n; /* what is left of its body */
};

must_check int link_send(int socket, enum travel_kind kind, const void *body, size_t len,
                         struct err *err);
/* Receives the next message. -ECONNRESET when the other side has left. */
must_check int link_receive(struct link *link, struct err *err);
/* Sends the outcome; nothing can be done if nobody hears it. */
void link_end(int socket, struct travel_end *end, int status, const struct err *err);

#endif
