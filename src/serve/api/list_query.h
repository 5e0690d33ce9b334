/* list_query.h - which sandboxes a list asks for: the query of GET /sandboxes and GET
 * /v2/sandboxes. Pure. */
#ifndef API_LIST_QUERY_H
#define API_LIST_QUERY_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/base/compiler.h"
#include "lib/base/err.h"
#include "lib/base/str.h"
#include "serve/sandbox/sandbox.h"

enum {
    LIST_LIMIT_MAX = 100, /* also what is given when none is asked for */
    LIST_PARAM_BYTES_MAX = 16 * 1024,
    LIST_TOKEN_BYTES = 96, /* a token as text, and its NUL */
};

struct list_query {
    bool running, paused;
    bool ascending;
    size_t limit, limit_max; /* 0: all */
    bool continues;
    struct sandbox_position after; /* when it continues */
    int64_t started_after_ms;      /* INT64_MIN: any time */
    char *template_name;           /* NULL: any; without a tag */
    json_t *metadata;              /* NULL, or an object of strings that must all be there */
};

/* -EINVAL with the sentence for the client; *out is then empty. */
must_check int list_query_parse(struct str query, struct list_query *out, struct err *err);

/* The first version: running ones, all of them, with the metadata filter alone. */
must_check int list_query_parse_v1(struct str query, struct list_query *out, struct err *err);

/* As list_query_parse(), for pages of up to limit_max, continued by `cursor`. */
must_check int list_query_parse_pages(struct str query, size_t limit_max, struct list_query *out,
                                      struct err *err);
void list_query_fini(struct list_query *query);
#define scoped_list_query scoped(list_query_fini) struct list_query

/* Every pair of `filter` is in `metadata`. A NULL filter matches all. */
bool metadata_matches(const json_t *metadata, const json_t *filter);

/* Does a come before b in a list of that order? */
bool position_before(const struct sandbox_position *a, const struct sandbox_position *b,
                     bool ascending);

/* The opaque token of a position, in a list of that order. */
void list_token_write(const struct sandbox_position *at, bool ascending,
                      char out[LIST_TOKEN_BYTES]);
must_check int list_token_read(struct str token, bool ascending, struct sandbox_position *out);

#endif
