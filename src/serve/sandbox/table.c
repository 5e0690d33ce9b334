/* table.c - sandboxes by id, and in the order that lists show them.
 *
 * The order is a sorted array: new ones are nearly always the newest, so they go to its end, and a
 * page is found by bisection. Removing one moves at most 8 bytes for each that is newer.
 */
#include <stdlib.h>
#include <string.h>

#include "serve/sandbox/internal.h"

enum { TABLE_FIRST = 64 };

static int compare(const struct sandbox *sb, const struct sandbox_position *at)
{
    if (sb->created_ms != at->created_ms) {
        return sb->created_ms < at->created_ms ? -1 : 1;
    }
    return strcmp(sb->id, at->id);
}

static struct sandbox_position position_of(const struct sandbox *sb)
{
    struct sandbox_position at = {.created_ms = sb->created_ms};

    memcpy(at.id, sb->id, sizeof(at.id));
    return at;
}

/* Index of the first one that is at the position or behind it; with `past`, behind it. */
static size_t bound(const struct table *table, const struct sandbox_position *at, bool past)
{
    size_t low = 0, high = table->n;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = compare(table->order[middle], at);
        if (order < 0 || (past && order == 0)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

void table_fini(struct table *table)
{
    HASH_CLEAR(hh, table->by_id);
    free(table->order);
    *table = (struct table){0};
}

void table_add(struct table *table, struct sandbox *sb)
{
    HASH_ADD_STR(table->by_id, id, sb);
}

void table_show(struct table *table, struct sandbox *sb)
{
    struct sandbox_position at = position_of(sb);
    size_t i = bound(table, &at, false);

    if (table->n == table->cap) {
        table->cap = table->cap ? table->cap * 2 : TABLE_FIRST;
        table->order = reallocarray(table->order, table->cap, sizeof(struct sandbox *));
        if (!table->order) {
            abort();
        }
    }
    memmove(table->order + i + 1, table->order + i, (table->n - i) * sizeof(struct sandbox *));
    table->order[i] = sb;
    table->n++;
    table->changes++;
}

void table_remove(struct table *table, struct sandbox *sb)
{
    struct sandbox_position at = position_of(sb);
    size_t i = bound(table, &at, false);

    HASH_DEL(table->by_id, sb);
    if (i == table->n || table->order[i] != sb) {
        return; /* it was never shown */
    }
    table->n--;
    memmove(table->order + i, table->order + i + 1, (table->n - i) * sizeof(struct sandbox *));
    table->changes++;
}

struct sandbox *table_find(const struct table *table, struct str id)
{
    struct sandbox *sb = NULL;

    if (id.len > 0 && id.len <= ID_SANDBOX_LEN) {
        HASH_FIND(hh, table->by_id, id.at, id.len, sb);
    }
    return sb;
}

void table_each(struct table *table, bool ascending, const struct sandbox_position *after,
                bool (*each)(void *ctx, struct sandbox *sb), void *ctx)
{
    /* Ascending: the index of the next one. Descending: one past it. */
    size_t i = after ? bound(table, after, ascending) : ascending ? 0 : table->n;

    while (ascending ? i < table->n : i > 0) {
        struct sandbox *sb = table->order[ascending ? i : i - 1];
        struct sandbox_position here = position_of(sb);
        uint64_t changes = table->changes;
        if (!each(ctx, sb)) {
            return;
        }
        if (changes != table->changes) {
            i = bound(table, &here, ascending);
        } else {
            i = ascending ? i + 1 : i - 1;
        }
    }
}
