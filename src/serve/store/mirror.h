/* mirror.h - the rows of one table in memory, found by id, or by team and name.
 *
 * A module embeds a struct mirrored in its objects, loads them from the store when it starts, and
 * gives each change to the store with mirror_changed() as its `done`: memory then says what the
 * disk says.
 *
 * Owns:     the objects that are in it. Needs: the store's answers before it ends.
 * Blocks:   never. Threads: the loop's.
 */
#ifndef STORE_MIRROR_H
#define STORE_MIRROR_H

#include "lib/base/str.h"
#include "lib/base/table.h"
#include "serve/store/store.h"

struct mirrored {
    const char *id;      /* no other has it. The three texts stay where they are */
    const char *team_id; /* NULL: it is for every team */
    const char *name;    /* NULL: it has none */
    bool removed;        /* is found by its id alone */
    UT_hash_handle hh;
};

struct mirror {
    struct mirrored *first; /* then ->hh.next */
    /* The order in which they are listed; NULL: as they came. */
    int (*order)(struct mirrored *a, struct mirrored *b);
    void (*free)(struct mirrored *one);
};

/* In the place of the one of that id, which is freed. */
void mirror_put(struct mirror *mirror, struct mirrored *one);
void mirror_take(struct mirror *mirror, struct mirrored *one); /* out: it is the caller's */
void mirror_drop(struct mirror *mirror, struct mirrored *one); /* out, and freed */
void mirror_fini(struct mirror *mirror);

struct mirrored *mirror_find(const struct mirror *mirror,
                             const char *id); /* NULL: none; likewise */
struct mirrored *mirror_of_team(const struct mirror *mirror, const char *team_id, const char *id);

/* The team NULL is the one of those that are for every team. */
struct mirrored *mirror_named(const struct mirror *mirror, const char *team_id, struct str name);

/* The next of the team behind `one`; NULL: the first. */
struct mirrored *mirror_next(const struct mirror *mirror, const char *team_id,
                             const struct mirrored *one);
size_t mirror_count(const struct mirror *mirror, const char *team_id);

/* ---- changes: each returns the ctx for mirror_changed() ---- */

/* Known once it is on record; freed when it could not be stored. */
void *mirror_adds(struct mirror *mirror, struct mirrored *one, store_done *done, void *ctx);
/* Not found from now on; back when that could not be stored. One of the same id that came in
 * between was stored before the removal: it shares its fate, and takes the place of this one. */
void *mirror_removes(struct mirror *mirror, struct mirrored *one, store_done *done, void *ctx);

/* Is a store_done: makes memory true, and then calls the `done` above. */
void mirror_changed(void *ctx, int error, const struct err *err);

#endif
