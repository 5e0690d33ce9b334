/* name_list.h - a sorted list of names: of the jails that exist or left a disk, or of saves.
 *
 * Owns:    the names.
 * Blocks:  on directories of the kernel and the pool.
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
void name_list_add(void *ctx, const char *id); /* ctx: the list, which must be sorted afterwards */
void name_list_sort(struct name_list *names);

/* The first name after that one, or NULL. */
const char *name_list_after(const struct name_list *names, const char *name);

/* Fills the list with the jails that have control groups or a disk. */
must_check int name_list_jails(struct name_list *names, struct jail_shared *shared,
                               struct err *err);

#endif
