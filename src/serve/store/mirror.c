#include "serve/store/mirror.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/alloc.h"
#include "lib/base/text.h"

void mirror_put(struct mirror *mirror, struct mirrored *one)
{
    struct mirrored *before = mirror_find(mirror, one->id);

    if (before) {
        mirror_drop(mirror, before);
    }
    if (mirror->order) {
        HASH_ADD_KEYPTR_INORDER(hh, mirror->first, one->id, strlen(one->id), one, mirror->order);
    } else {
        HASH_ADD_KEYPTR(hh, mirror->first, one->id, strlen(one->id), one);
    }
}

void mirror_take(struct mirror *mirror, struct mirrored *one)
{
    HASH_DEL(mirror->first, one);
}

void mirror_drop(struct mirror *mirror, struct mirrored *one)
{
    mirror_take(mirror, one);
    mirror->free(one);
}

void mirror_fini(struct mirror *mirror)
{
    while (mirror->first) {
        mirror_drop(mirror, mirror->first);
    }
}

/* ---- looking ---- */

struct mirrored *mirror_find(const struct mirror *mirror, const char *id)
{
    struct mirrored *one = NULL;

    HASH_FIND_STR(mirror->first, id, one);
    return one;
}

static bool is_of(const struct mirrored *one, const char *team_id)
{
    return !one->removed && text_same(one->team_id, team_id);
}

struct mirrored *mirror_of_team(const struct mirror *mirror, const char *team_id, const char *id)
{
    struct mirrored *one = mirror_find(mirror, id);

    return one && is_of(one, team_id) ? one : NULL;
}

struct mirrored *mirror_next(const struct mirror *mirror, const char *team_id,
                             const struct mirrored *one)
{
    struct mirrored *next = one ? one->hh.next : mirror->first;

    while (next && !is_of(next, team_id)) {
        next = next->hh.next;
    }
    return next;
}

struct mirrored *mirror_named(const struct mirror *mirror, const char *team_id, struct str name)
{
    struct mirrored *one = NULL;

    while ((one = mirror_next(mirror, team_id, one))) {
        if (one->name && str_eq(str_of(one->name), name)) {
            break;
        }
    }
    return one;
}

size_t mirror_count(const struct mirror *mirror, const char *team_id)
{
    const struct mirrored *one = NULL;
    size_t n = 0;

    while ((one = mirror_next(mirror, team_id, one))) {
        n++;
    }
    return n;
}

/* ---- changes ---- */

struct change {
    struct mirror *mirror;
    struct mirrored *one;
    bool adds; /* else it removes */
    store_done *done;
    void *ctx;
};

static void *change_new(struct mirror *mirror, struct mirrored *one, bool adds, store_done *done,
                        void *ctx)
{
    struct change *change = xnew(struct change);

    *change = (struct change){mirror, one, adds, done, ctx};
    return change;
}

void *mirror_adds(struct mirror *mirror, struct mirrored *one, store_done *done, void *ctx)
{
    return change_new(mirror, one, true, done, ctx);
}

void *mirror_removes(struct mirror *mirror, struct mirrored *one, store_done *done, void *ctx)
{
    mirror_take(mirror, one);
    return change_new(mirror, one, false, done, ctx);
}

void mirror_changed(void *ctx, int error, const struct err *err)
{
    struct change *change = ctx;
    struct mirror *mirror = change->mirror;
    struct mirrored *same = change->adds ? NULL : mirror_find(mirror, change->one->id);

    if (same && error == 0) {
        mirror_drop(mirror, same);
    }
    if (change->adds == (error == 0) && !same) {
        mirror_put(mirror, change->one);
    } else {
        mirror->free(change->one);
    }
    change->done(change->ctx, error, err);
    free(change);
}
