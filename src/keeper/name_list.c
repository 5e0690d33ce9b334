#include "keeper/name_list.h"

#include <stdlib.h>
#include <string.h>

void name_list_fini(struct name_list *names)
{
    free(names->ids);
}

void name_list_add(void *ctx, const char *id)
{
    struct name_list *names = ctx;

    if (strlen(id) >= NAME_LIST_NAME_BYTES) {
        return; /* not made by a keeper */
    }
    if (names->n == names->cap) {
        names->cap = names->cap ? names->cap * 2 : 64;
        names->ids = reallocarray(names->ids, names->cap, NAME_LIST_NAME_BYTES);
        if (!names->ids) {
            abort();
        }
    }
    memcpy(names->ids[names->n++], id, strlen(id) + 1);
}

static void jail_add(void *ctx, const char *id)
{
    if (strlen(id) < KEEPER_ID_BYTES) {
        name_list_add(ctx, id);
    }
}

static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

void name_list_sort(struct name_list *names)
{
    size_t kept = 0;

    if (names->n == 0) {
        return;
    }
    qsort(names->ids, names->n, NAME_LIST_NAME_BYTES, by_name);
    for (size_t i = 1; i < names->n; i++) {
        if (strcmp(names->ids[i], names->ids[kept]) != 0) {
            memmove(names->ids[++kept], names->ids[i], NAME_LIST_NAME_BYTES);
        }
    }
    names->n = kept + 1;
}

int name_list_jails(struct name_list *names, struct jail_shared *shared, struct err *err)
{
    names->n = 0;
    int r = cgroups_each(shared->groups, jail_add, names, err);
    if (r == 0) {
        r = pool_each(shared->pool, jail_add, names, err);
    }
    name_list_sort(names);
    return r;
}

const char *name_list_after(const struct name_list *names, const char *name)
{
    size_t low = 0, high = names->n;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(names->ids[middle], name) <= 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < names->n ? names->ids[low] : NULL;
}
