#include "serve/api/page_cursor.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/alloc.h"
#include "lib/base/json.h"

/* ---- cursors: "value|id", or "sort|value|id" ---- */

struct position {
    char value[PAGE_CURSOR_BYTES], id[PAGE_CURSOR_BYTES];
};

static int cursor_read(const struct page_order *order, struct str cursor, struct position *out,
                       struct err *err)
{
    struct str rest = cursor, sort, value;

    if (order->sort && (!str_split(&rest, '|', &sort) || !str_eq(sort, str_of(order->sort)))) {
        return err_set(err, EINVAL,
                       "Cursor was issued for a different sort; clear the cursor and restart");
    }
    if (!str_split(&rest, '|', &value) || !rest.at || str_find(rest, '|') < rest.len ||
        rest.len == 0 || value.len == 0 || !str_copy(out->value, sizeof(out->value), value) ||
        !str_copy(out->id, sizeof(out->id), rest)) {
        return err_set(err, EINVAL, "Invalid cursor");
    }
    return 0;
}

static void cursor_write(const struct page_order *order, const json_t *row,
                         char out[PAGE_CURSOR_BYTES])
{
    (void)snprintf(out, PAGE_CURSOR_BYTES, "%s%s%s|%s", order->sort ? order->sort : "",
                   order->sort ? "|" : "", json_string_of(row, order->value),
                   json_string_of(row, order->id));
}

/* ---- order ---- */

static int compare_texts(const struct page_order *order, const json_t *row, const char *value,
                         const char *id)
{
    int sign = strcmp(json_string_of(row, order->value), value);

    sign = sign ? sign : strcmp(json_string_of(row, order->id), id);
    return order->descending ? -sign : sign;
}

static int compare_rows(const void *a, const void *b, void *ctx)
{
    const struct page_order *order = ctx;
    const json_t *left = *(const json_t *const *)a, *right = *(const json_t *const *)b;

    return compare_texts(order, left, json_string_of(right, order->value),
                         json_string_of(right, order->id));
}

static const json_t **sorted(const struct page_order *order, const json_t *rows)
{
    size_t n = json_array_size(rows);
    const json_t **list = xcalloc(n + 1, sizeof(*list));
    struct page_order by = *order;

    for (size_t i = 0; i < n; i++) {
        list[i] = json_array_get(rows, i);
    }
    qsort_r(list, n, sizeof(*list), compare_rows, &by);
    return list;
}

json_t *page_after_cursor(const struct page_order *order, const json_t *rows, struct str cursor,
                          size_t limit, char next[PAGE_CURSOR_BYTES], struct err *err)
{
    struct position after = {0};

    next[0] = '\0';
    if (cursor.len > 0 && cursor_read(order, cursor, &after, err) < 0) {
        return NULL;
    }
    const json_t **list = sorted(order, rows);
    json_t *page = json_array();
    for (size_t i = 0; i < json_array_size(rows); i++) {
        size_t n = json_array_size(page);

        if (cursor.len > 0 && compare_texts(order, list[i], after.value, after.id) <= 0) {
            continue;
        }
        if (n == limit) {
            cursor_write(order, json_array_get(page, n - 1), next);
            break;
        }
        (void)json_array_append(page, json_unconst(list[i]));
    }
    free(list);
    return page;
}
