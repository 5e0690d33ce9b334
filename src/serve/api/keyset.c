#include "serve/api/keyset.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/alloc.h"
#include "lib/base/json.h"

/* ---- cursors: "value|id", or "sort|value|id" ---- */

struct position {
    char value[KEYSET_CURSOR_BYTES], id[KEYSET_CURSOR_BYTES];
};

static int cursor_read(const struct keyset *keyset, struct str cursor, struct position *out,
                       struct err *err)
{
    struct str rest = cursor, sort, value;

    if (keyset->sort && (!str_split(&rest, '|', &sort) || !str_eq(sort, str_of(keyset->sort)))) {
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

static void cursor_write(const struct keyset *keyset, const json_t *row,
                         char out[KEYSET_CURSOR_BYTES])
{
    (void)snprintf(out, KEYSET_CURSOR_BYTES, "%s%s%s|%s", keyset->sort ? keyset->sort : "",
                   keyset->sort ? "|" : "", json_string_of(row, keyset->value),
                   json_string_of(row, keyset->id));
}

/* ---- order ---- */

static int compare_texts(const struct keyset *keyset, const json_t *row, const char *value,
                         const char *id)
{
    int order = strcmp(json_string_of(row, keyset->value), value);

    order = order ? order : strcmp(json_string_of(row, keyset->id), id);
    return keyset->descending ? -order : order;
}

static int compare_rows(const void *a, const void *b, void *ctx)
{
    const struct keyset *keyset = ctx;
    const json_t *left = *(const json_t *const *)a, *right = *(const json_t *const *)b;

    return compare_texts(keyset, left, json_string_of(right, keyset->value),
                         json_string_of(right, keyset->id));
}

static const json_t **sorted(const struct keyset *keyset, const json_t *rows)
{
    size_t n = json_array_size(rows);
    const json_t **list = xcalloc(n + 1, sizeof(*list));
    struct keyset by = *keyset;

    for (size_t i = 0; i < n; i++) {
        list[i] = json_array_get(rows, i);
    }
    qsort_r(list, n, sizeof(*list), compare_rows, &by);
    return list;
}

json_t *keyset_page(const struct keyset *keyset, const json_t *rows, struct str cursor,
                    size_t limit, char next[KEYSET_CURSOR_BYTES], struct err *err)
{
    struct position after = {0};

    next[0] = '\0';
    if (cursor.len > 0 && cursor_read(keyset, cursor, &after, err) < 0) {
        return NULL;
    }
    const json_t **list = sorted(keyset, rows);
    json_t *page = json_array();
    for (size_t i = 0; i < json_array_size(rows); i++) {
        size_t n = json_array_size(page);

        if (cursor.len > 0 && compare_texts(keyset, list[i], after.value, after.id) <= 0) {
            continue;
        }
        if (n == limit) {
            cursor_write(keyset, json_array_get(page, n - 1), next);
            break;
        }
        (void)json_array_append(page, json_unconst(list[i]));
    }
    free(list);
    return page;
}
