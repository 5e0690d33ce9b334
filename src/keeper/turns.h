/* turns.h - whose request the keeper gets next, among those that take it long.
 *
 * The keeper does a few such things at a time (makes a jail, saves one, restores one), so more than
 * a few in its socket would only be a queue in which the first comer is first, with all he has
 * asked for. Here each owner (a team) has a line of its own, and the lines take turns. An owner may
 * have no more than its share of the slots, so that work that hangs, in jails that one owner has
 * prepared for it, does not take them all.
 *
 * Owns:     the lines. A turn is its user's, and lies in one until turns_next() gives it out.
 * Needs:    nothing. Blocks never. One thread.
 */
#ifndef KEEPER_TURNS_H
#define KEEPER_TURNS_H

#include <stdint.h>

#include "base/shares.h"

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

/* One of those that wait, without a slot, or NULL: for a keeper that went away. */
struct turn *turns_drop(struct turns *turns);

#endif
