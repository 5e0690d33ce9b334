/* dashboard.h - shared by the files of /dashboard. */
#ifndef API_DASHBOARD_H
#define API_DASHBOARD_H

#include "serve/api/internal.h"
#include "serve/api/page_cursor.h"

struct page_names { /* of the query's parameters, and what they may be */
    const char *limit_name, *cursor_name;
    int64_t limit, limit_max;
};

struct page_asked {
    int64_t limit;
    char cursor[PAGE_CURSOR_BYTES]; /* "": from the start */
};

/* -EINVAL with the sentence. */
must_check int page_ask(const struct call *call, const struct page_names *names,
                        struct page_asked *out, struct err *err);

/* The order that the query's `sort` names, the first when it names none. -EINVAL with the sentence.
 */
must_check int order_ask(struct str query, const struct page_order *orders, size_t n,
                         const struct page_order **out, struct err *err);

/* {name: [rows of the page], "nextCursor": ...}, or the refusal of a wrong cursor. */
void page_answer(struct call *call, const struct page_order *order, const json_t *rows,
                 const struct page_asked *asked, const char *name);

json_t *cursor_json(const char *cursor); /* null for "" */

#endif
