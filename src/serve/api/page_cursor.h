/* page_cursor.h - pages of a list that is sorted by a value and an id, and continued behind the
 * last row of the page before: rows may come and go between two pages. Pure. */
#ifndef API_PAGE_CURSOR_H
#define API_PAGE_CURSOR_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "lib/base/compiler.h"
#include "lib/base/err.h"
#include "lib/base/str.h"

enum { PAGE_CURSOR_BYTES = 256 };

struct page_order {
    /* Fields of a row, both texts; rows are sorted by them, in that order. */
    const char *value, *id;
    bool descending;
    const char *sort; /* begins the cursor, which fits that order alone; NULL: there is one order */
};

/* Sorts the rows and returns the first `limit` of those behind the cursor ("": from the start), as
 * a new array; *next is the cursor of the page that follows, "" when there is none. NULL with the
 * sentence when the cursor is none of this order's. */
json_t *page_after_cursor(const struct page_order *order, const json_t *rows, struct str cursor,
                          size_t limit, char next[PAGE_CURSOR_BYTES], struct err *err);

#endif
