/* name_list.h - names, sorted: of the jails that left a trace, or of what was saved.
 *
 * Owns:    the names.
 * Needs:   nothing for what is given to it; the kit for the jails.
 * Blocks:  on directories of the kernel's and the pool's.
 * Threads: one.
 */
#ifndef KEEPER_NAME_LIST_H
#define KEEPER_NAME_LIST_H

#include <assert.h>
#include <stddef.h>

#include "keeper/jail/jail.h"

enum { NAME_LIST_NAME_BYTES = KEEPER_SAVED_BYTES };
static_assert(NAME_LIST_NAME_BYTES >= (int)KEEPER_ID_BYTES, "a listing holds ids too");

struct name_list {
    char (*ids)[NAME_LIST_NAME_BYTES]; /* sorted, each once */
    size_t n;
    size_t cap;
};

void name_list_fini(struct name_list *names);
void name_list_add(void *ctx, const char *id); /* ctx: the listing, not sorted from then on */
void name_list_sort(struct name_list *names);

/* The first name behind that one, or NULL. */
const char *name_list_after(const struct name_list *names, const char *name);

/* Those that have groups or a disk. */
must_check int name_list_jails(struct name_list *names, struct jail_shared *shared,
                               struct err *err);

#endif
