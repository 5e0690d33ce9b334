/* turns.h - the order in which long requests go to the keeper.
 *
 * The keeper does only a few long things at a time (makes a jail, saves one, restores one). If all
 * requests went to its socket at once, those of the first owner would come first. Here each owner
 * (a team) has a queue of its own, and the queues take turns. An owner may have no more than its
 * share of the slots, so work that hangs does not take them all.
 *
 * Owns:     the queues. A turn belongs to its user, and is in a queue until turns_next() returns
 *           it.
 * Needs:    nothing.
 * Blocks:   never.
 * Threads:  one.
 */
#ifndef KEEPER_TURNS_H
#define KEEPER_TURNS_H

#include <stdint.h>

#include "lib/base/shares.h"

enum { KEEPER_TURNS_MAX = 16 }; /* at the keeper at one time, of all owners */

struct turn {
    struct turn *prev, *next;
    struct share *slot; /* NULL: it has none */
};

struct turns {
    struct shares slots;
    struct line *lines; /* the next to be asked first */
    uint32_t waiting_n;
};

void turns_init(struct turns *turns);

/* Takes its place at the end of the owner's line. */
void turns_add(struct turns *turns, const char *owner, struct turn *turn);

/* The next that may go, which has a slot from then on, or NULL. */
struct turn *turns_next(struct turns *turns);
void turn_over(struct turn *turn); /* gives the slot back; fine for one that has none */

/* Takes a waiting request out, without a slot for it; NULL: none waits. For a keeper that went
 * away. */
struct turn *turns_drop(struct turns *turns);

#endif
