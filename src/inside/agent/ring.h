/* ring.h - output without a reader so far: pieces of known kind, the oldest dropped first.
 *
 * Takes no memory while it is empty. `limit` bounds the bytes kept; the buffer beneath may be twice
 * that, so that its content is moved once per `limit` bytes and not once per piece.
 */
#ifndef AGENT_RING_H
#define AGENT_RING_H

#include "lib/base/buf.h"

struct ring {
    struct buf records;
    size_t limit;
    size_t bytes;    /* of output, without the records' heads */
    size_t last_len; /* of the newest piece; 0: there is none that may grow */
    int last_kind;
};

void ring_init(struct ring *ring, size_t limit);
void ring_fini(struct ring *ring);

/* Adds at the end. Pieces of one kind are joined up to `piece_max` bytes, and longer ones are cut.
 */
void ring_push(struct ring *ring, int kind, struct str bytes, size_t piece_max);

/* The oldest piece, valid until the ring is next touched; false when it is empty. */
bool ring_peek(const struct ring *ring, int *kind, struct str *piece);
void ring_drop(struct ring *ring); /* that piece */

/* The piece at *at, which begins as 0 and is moved behind it; false when there is none. */
bool ring_next(const struct ring *ring, size_t *at, int *kind, struct str *piece);

#endif
