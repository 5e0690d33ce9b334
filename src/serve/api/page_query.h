/* page_query.h - pages by offset: ?offset=0&limit=10&orderAsc=false. */
#ifndef API_PAGE_QUERY_H
#define API_PAGE_QUERY_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/compiler.h"
#include "lib/base/err.h"
#include "lib/base/str.h"

enum {
    PAGE_LIMIT_DEFAULT = 10,
    PAGE_LIMIT_MAX = 100,
    PAGE_OFFSET_MAX = 1000000000,
};

struct page_query {
    int64_t offset, limit;
    bool ascending; /* oldest first */
};

/* -EINVAL with the sentence for the client. */
must_check int page_query_parse(struct str query, struct page_query *out, struct err *err);

#endif
