/* listing.h - names, sorted: of the jails that left a trace, or of what was saved.
 *
 * Owns:    the names.
 * Needs:   nothing for what is given to it; the kit for the jails.
 * Blocks:  on directories of the kernel's and the pool's.
 * Threads: one.
 */
#ifndef KEEPER_LISTING_H
#define KEEPER_LISTING_H

#include <assert.h>
#include <stddef.h>

#include "keeper/jail/jail.h"

enum { LISTING_NAME_BYTES = KEEPER_SAVED_BYTES };
static_assert(LISTING_NAME_BYTES >= (int)KEEPER_ID_BYTES, "a listing holds ids too");

struct listing {
    char (*ids)[LISTING_NAME_BYTES]; /* sorted, each once */
    size_t n;
    size_t cap;
};

void listing_fini(struct listing *listing);
void listing_add(void *ctx, const char *id); /* ctx: the listing, not sorted from then on */
void listing_sort(struct listing *listing);

/* The first name behind that one, or NULL. */
const char *listing_after(const struct listing *listing, const char *name);

/* Those that have groups or a disk. */
must_check int listing_jails(struct listing *listing, struct jail_kit *kit, struct err *err);

#endif
