/* shares.h - places of one kind (requests under way, slots of a queue), shared by accounts.
 *
 * No account has a fixed number, because the number of accounts is not known. An account may take
 * one more place while it holds fewer than SHARES_WEIGHT times as many as are free. So a single
 * account gets two thirds of all places, two greedy accounts get two fifths each, n get 2/(2n+1)
 * each; and some places always stay free for the next account.
 *
 * The parts of an account (the sandboxes of a team) are limited in the same way: a part may hold as
 * many places as its account could still take.
 *
 * Owns:     the accounts, each as long as it holds a place.
 * Needs:    nothing. Blocks never. One thread.
 */
#ifndef BASE_SHARES_H
#define BASE_SHARES_H

#include <stdint.h>

#include "lib/base/compiler.h"

enum { SHARES_WEIGHT = 2 };

struct share; /* an account that holds places */

struct shares {
    uint32_t capacity;
    uint32_t used;
    uint64_t refused;
    struct share *accounts;
};

/* All zeros but the capacity is a valid one. */
void shares_init(struct shares *shares, uint32_t capacity);
void shares_fini(struct shares *shares); /* when no place is held any more */

/* How many places the account may take before it has its share. */
uint32_t shares_room(const struct shares *shares, const char *account);

/* Takes a place: 0 and *out, which goes to share_give(), or -EBUSY when the account has its share.
 */
must_check int shares_take(struct shares *shares, const char *account, struct share **out);
/* The same for a part of the account that holds `part_held` places already. -EDQUOT: the part has
 * its share. */
must_check int shares_take_part(struct shares *shares, const char *account, uint32_t part_held,
                                struct share **out);
/* Takes a place even if none is free: for a holder that is about to replace another. */
struct share *shares_take_anyway(struct shares *shares, const char *account);
void share_give(struct share *share); /* NULL is fine */

#endif
