#include "lib/base/shares.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/alloc.h"
#include "lib/base/table.h"

struct share {
    UT_hash_handle hh;
    struct shares *shares;
    char *name;
    uint32_t held;
};

void shares_init(struct shares *shares, uint32_t capacity)
{
    *shares = (struct shares){.capacity = capacity};
}

void shares_fini(struct shares *shares)
{
    assert(!shares->accounts && shares->used == 0);
}

static struct share *find(const struct shares *shares, const char *account)
{
    struct share *share = NULL;

    HASH_FIND_STR(shares->accounts, account, share);
    return share;
}

/* An account that holds h of the places, of which f are free, may take x more until h + x = WEIGHT
 * * (f - x); rounded up, so that a single place can be taken. */
static uint32_t room(const struct shares *shares, const struct share *share)
{
    uint64_t held = share ? share->held : 0;
    uint64_t left = shares->used < shares->capacity ? shares->capacity - shares->used : 0;
    uint64_t most = SHARES_WEIGHT * left;

    return most <= held ? 0 : (uint32_t)((most - held + SHARES_WEIGHT) / (SHARES_WEIGHT + 1));
}

uint32_t shares_room(const struct shares *shares, const char *account)
{
    return room(shares, find(shares, account));
}

static struct share *share_of(struct shares *shares, const char *account)
{
    struct share *share = find(shares, account);

    if (!share) {
        share = xnew(struct share);
        share->shares = shares;
        share->name = xstrdup(account);
        HASH_ADD_KEYPTR(hh, shares->accounts, share->name, strlen(share->name), share);
    }
    return share;
}

struct share *shares_take_anyway(struct shares *shares, const char *account)
{
    struct share *share = share_of(shares, account);

    share->held++;
    shares->used++;
    return share;
}

int shares_take_part(struct shares *shares, const char *account, uint32_t part_held,
                     struct share **out)
{
    uint32_t left = shares_room(shares, account);

    if (part_held >= left) {
        shares->refused++;
        return left == 0 ? -EBUSY : -EDQUOT;
    }
    *out = shares_take_anyway(shares, account);
    return 0;
}

int shares_take(struct shares *shares, const char *account, struct share **out)
{
    return shares_take_part(shares, account, 0, out);
}

void share_give(struct share *share)
{
    if (!share) {
        return;
    }
    struct shares *shares = share->shares;
    assert(share->held > 0 && shares->used > 0);
    shares->used--;
    if (--share->held == 0) {
        HASH_DEL(shares->accounts, share);
        free(share->name);
        free(share);
    }
}
