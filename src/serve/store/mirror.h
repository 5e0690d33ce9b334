/* mirror.h - the rows of one table in memory, found by id, or by team and name.
 *
 * A module embeds a struct mirrored in its objects and loads them from the store when it starts. It
 * passes mirror_changed() as the `done` of a change: the mirror then has what the store has.
 *
 * Templates, volumes, secrets, shells and webhooks are kept so. Other tables are in memory too, but
 * are not found by team and name, and have indexes of their own: API keys, admin keys and sessions
 * are found by the SHA-256 of their text in every request (and by a second id when they are
 * changed), makers by the id of an object of any kind, and builds by their id alone, while a queue
 * and a worker hold pointers to them.
 *
 * Owns:     the objects in it.
 * Needs:    all answers of the store before mirror_fini().
 * Blocks:   never.
 * Threads:  the loop's.
 */
#ifndef STORE_MIRROR_H
#define STORE_MIRROR_H

#include "lib/base/str.h"
#include "lib/base/table.h"
#include "serve/store/store.h"

struct mirrored {
    char *id;            /* unique in the mirror. The three texts must not move or change */
    const char *team_id; /* NULL: it is for every team */
    const char *name;    /* NULL: it has none */
    bool removed;        /* only mirror_find() returns it */
    UT_hash_handle hh;
};

struct mirror {
    struct mirrored *first; /* then ->hh.next */
    /* The order of the list; NULL: the order of mirror_put(). */
    int (*order)(struct mirrored *a, struct mirrored *b);
    void (*free)(struct mirrored *one);
};

/* Adds it. An object of the same id is dropped before. */
void mirror_put(struct mirror *mirror, struct mirrored *one);
void mirror_take(struct mirror *mirror, struct mirrored *one); /* the caller owns it */
void mirror_drop(struct mirror *mirror, struct mirrored *one); /* frees it */
void mirror_fini(struct mirror *mirror);

/* Each returns NULL when there is none. The team NULL has the objects that are for every team. */
struct mirrored *mirror_find(const struct mirror *mirror, const char *id);
struct mirrored *mirror_of_team(const struct mirror *mirror, const char *team_id, const char *id);
struct mirrored *mirror_named(const struct mirror *mirror, const char *team_id, struct str name);
/* The object of the team that follows `one`; one NULL: the first. */
struct mirrored *mirror_next(const struct mirror *mirror, const char *team_id,
                             const struct mirrored *one);
size_t mirror_count(const struct mirror *mirror, const char *team_id);

/* ---- changes: both return the ctx for mirror_changed() ---- */

/* It is found once it is stored, and freed if it cannot be stored. */
void *mirror_adds(struct mirror *mirror, struct mirrored *one, store_done *done, void *ctx);
/* It is not found from this moment on, and back if the removal cannot be stored. If another object
 * of its id is added before the answer, the removal is of that one: it was stored earlier. */
void *mirror_removes(struct mirror *mirror, struct mirrored *one, store_done *done, void *ctx);

/* A store_done: applies the change to the mirror, then calls `done`. */
void mirror_changed(void *ctx, int error, const struct err *err);

#endif
