#include "keeper/listing.h"

#include <stdlib.h>
#include <string.h>

void listing_fini(struct listing *listing)
{
    free(listing->ids);
}

void listing_add(void *ctx, const char *id)
{
    struct listing *listing = ctx;

    if (strlen(id) >= LISTING_NAME_BYTES) {
        return; /* none of ours */
    }
    if (listing->n == listing->cap) {
        listing->cap = listing->cap ? listing->cap * 2 : 64;
        listing->ids = reallocarray(listing->ids, listing->cap, LISTING_NAME_BYTES);
        if (!listing->ids) {
            abort();
        }
    }
    memcpy(listing->ids[listing->n++], id, strlen(id) + 1);
}

static void jail_add(void *ctx, const char *id)
{
    if (strlen(id) < KEEPER_ID_BYTES) {
        listing_add(ctx, id);
    }
}

static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

void listing_sort(struct listing *listing)
{
    size_t kept = 0;

    if (listing->n == 0) {
        return;
    }
    qsort(listing->ids, listing->n, LISTING_NAME_BYTES, by_name);
    for (size_t i = 1; i < listing->n; i++) {
        if (strcmp(listing->ids[i], listing->ids[kept]) != 0) {
            memmove(listing->ids[++kept], listing->ids[i], LISTING_NAME_BYTES);
        }
    }
    listing->n = kept + 1;
}

int listing_jails(struct listing *listing, struct jail_kit *kit, struct err *err)
{
    listing->n = 0;
    int r = cgroups_each(kit->groups, jail_add, listing, err);
    if (r == 0) {
        r = pool_each(kit->pool, jail_add, listing, err);
    }
    listing_sort(listing);
    return r;
}

const char *listing_after(const struct listing *listing, const char *name)
{
    size_t low = 0, high = listing->n;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(listing->ids[middle], name) <= 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < listing->n ? listing->ids[low] : NULL;
}
