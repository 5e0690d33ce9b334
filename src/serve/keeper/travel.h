/* travel.h - the daemon's end of the socket that KEEPER_EXPORT and KEEPER_IMPORT answer with
 * (wire/travel.h), on a libuv loop.
 *
 * Owns:    the socket.
 * Blocks:  never.
 * Threads: the loop's.
 */
#ifndef KEEPER_TRAVEL_H
#define KEEPER_TRAVEL_H

#include <stdbool.h>
#include <uv.h>

#include "lib/base/str.h"
#include "wire/travel.h"

struct keeper_travel_link;

struct keeper_travel_handler {
    /* A message came: META or BYTES. */
    void (*message)(void *ctx, enum travel_kind kind, struct str body);
    /* The message of keeper_travel_send() has left. */
    void (*sent)(void *ctx);
    /* Once: the outcome. -ECONNRESET in it when the keeper went away. Nothing comes after it. */
    void (*end)(void *ctx, const struct travel_end *end);
};

/* Takes the descriptor over. Messages come once keeper_travel_read() allows them. */
struct keeper_travel_link *keeper_travel_link_new(uv_loop_t *loop, int fd,
                                                  const struct keeper_travel_handler *handler,
                                                  void *ctx);
void keeper_travel_read(struct keeper_travel_link *link, bool wanted);
/* Copies. One at a time: the next when `sent` was called. At most TRAVEL_BODY_BYTES_MAX. */
void keeper_travel_send(struct keeper_travel_link *link, enum travel_kind kind, struct str body);
/* No callback comes any more. The keeper gives up what it was doing. Allowed in callbacks. */
void keeper_travel_link_free(struct keeper_travel_link *link);

#endif
