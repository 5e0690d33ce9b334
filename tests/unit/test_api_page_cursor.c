#include <stdio.h>

#include "check.h"
#include "lib/base/json.h"
#include "serve/api/page_cursor.h"

static const struct page_order newest = {"at", "id", true, NULL};
static const struct page_order named = {"at", "id", false, "at_asc"};

static json_t *rows_make(void)
{
    json_t *rows = json_array();

    for (int i = 0; i < 7; i++) { /* two of each value, in no order */
        char at[8], id[8];
        (void)snprintf(at, sizeof(at), "v%d", (i * 3 % 7) / 2);
        (void)snprintf(id, sizeof(id), "i%d", i * 3 % 7);
        (void)json_array_append_new(rows, json_pack("{ssss}", "at", at, "id", id));
    }
    return rows;
}

/* The ids of all pages, one after the other. */
static void walk(const struct page_order *order, size_t limit, char *out, size_t size)
{
    scoped_json *rows = rows_make();
    char next[PAGE_CURSOR_BYTES] = "", cursor[PAGE_CURSOR_BYTES];
    struct err err;
    size_t len = 0;

    do {
        memcpy(cursor, next, sizeof(cursor));
        scoped_json *page = page_after_cursor(order, rows, str_of(cursor), limit, next, &err);
        for (size_t i = 0; i < json_array_size(page); i++) {
            len += (size_t)snprintf(out + len, size - len, "%s",
                                    json_string_of(json_array_get(page, i), "id") + 1);
        }
    } while (next[0] && len < size);
}

static void pages_are_the_list(void)
{
    char text[64];

    for (size_t limit = 1; limit < 9; limit++) {
        walk(&newest, limit, text, sizeof(text));
        CHECK_STR(text, "6543210");
        walk(&named, limit, text, sizeof(text));
        CHECK_STR(text, "0123456");
    }
}

static void a_wrong_cursor_is_refused(void)
{
    static const char *const wrong[] = {"x", "|", "a|", "|b", "a|b|c", "a||b"};
    scoped_json *rows = rows_make();
    char next[PAGE_CURSOR_BYTES];
    struct err err;

    for (size_t i = 0; i < countof(wrong); i++) {
        CHECK(!page_after_cursor(&newest, rows, str_of(wrong[i]), 1, next, &err));
        CHECK_STR(err.msg, "Invalid cursor");
    }
    CHECK(!page_after_cursor(&named, rows, STR("v1|i1"), 1, next, &err));
    CHECK(strstr(err.msg, "different sort"));
    CHECK(!page_after_cursor(&named, rows, STR("at_asc|v1"), 1, next, &err));
    CHECK_STR(err.msg, "Invalid cursor");
}

static void a_row_that_went_is_no_matter(void)
{
    scoped_json *rows = rows_make();
    char next[PAGE_CURSOR_BYTES];
    struct err err;
    scoped_json *page = page_after_cursor(&named, rows, STR("at_asc|v1|i2a"), 2, next, &err);

    CHECK_INT(json_array_size(page), 2);
    CHECK_STR(json_string_of(json_array_get(page, 0), "id"), "i3");
}

int main(void)
{
    static const struct check_test tests[] = {
        {"pages are the list", pages_are_the_list},
        {"a wrong cursor is refused", a_wrong_cursor_is_refused},
        {"a row that went is no matter", a_row_that_went_is_no_matter},
    };

    return check_run(tests, countof(tests));
}
