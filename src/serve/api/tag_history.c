/* tag_history.c - the builds that the tags of a template have named: groups, count, exists,
 * assignments. */
#include <errno.h>
#include <stdlib.h>

#include "lib/base/alloc.h"
#include "serve/api/dashboard.h"
#include "serve/api/query.h"
#include "serve/template/name.h"

enum {
    GROUP_ROWS = 6, /* assignments of each tag, when the call does not say */
    GROUP_ROWS_MAX = 25,
    SEARCH_BYTES_MAX = 64,
};

/* A question that waits for the store. */
struct asked {
    struct call *call;
    struct page_asked page;
    const struct page_order *order;
    int64_t rows_max; /* of a group */
    char search[SEARCH_BYTES_MAX + 1];
    char tag[TEMPLATE_NAME_MAX + 1];
    void (*answer)(struct asked *asked, const json_t *rows);
};

/* ---- the history ---- */

static void stamp_set(json_t *row, const char *from, const char *to)
{
    int64_t ms = json_integer_value(json_object_get(row, from));

    (void)json_object_set_new(row, to, ms ? stamp_json(ms) : json_null());
    (void)json_object_del(row, from);
}

static void on_rows(void *ctx, int error, const struct err *err, const char *text)
{
    struct asked *asked = ctx;
    scoped_json *rows = error == 0 ? json_loads(text, 0, NULL) : NULL;

    if (!rows) {
        call_fail_err(asked->call, error, err);
    } else {
        for (size_t i = 0; i < json_array_size(rows); i++) {
            json_t *row = json_array_get(rows, i);
            stamp_set(row, "assignedMs", "assignedAt");
            stamp_set(row, "buildCreatedMs", "buildCreatedAt");
            stamp_set(row, "buildFinishedMs", "buildFinishedAt");
        }
        asked->answer(asked, rows);
    }
    free(asked);
}

/* asked is copied. */
static void ask(struct call *call, const struct asked *asked)
{
    const struct template *t = call_own_template(call, call->first);

    if (t) {
        struct asked *own = xnew(struct asked);

        *own = *asked;
        own->call = call;
        store_tag_assignments(call->api->options.store, t->id, on_rows, own);
    }
}

static bool is_tag(const json_t *row, const char *tag)
{
    return strcmp(json_string_of(row, "tag"), tag) == 0;
}

/* ---- groups ---- */

/* The rows of one tag, newest first; false in *more when these are all. */
static json_t *rows_of(const json_t *rows, const char *tag, int64_t most, bool *more)
{
    json_t *found = json_array();

    *more = false;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);

        if (is_tag(row, tag) && (int64_t)json_array_size(found) == most) {
            *more = true;
        } else if (is_tag(row, tag)) {
            json_t *shown = json_copy(json_unconst(row));
            (void)json_object_del(shown, "tag");
            (void)json_array_append_new(found, shown);
        }
    }
    return found;
}

static bool has_group(const json_t *groups, const char *tag)
{
    for (size_t i = 0; i < json_array_size(groups); i++) {
        if (is_tag(json_array_get(groups, i), tag)) {
            return true;
        }
    }
    return false;
}

static json_t *groups_of(const json_t *rows, const struct asked *asked)
{
    json_t *groups = json_array();

    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        const char *tag = json_string_of(row, "tag");
        bool more;

        if (!strstr(tag, asked->search) || has_group(groups, tag)) {
            continue;
        }
        json_t *shown = rows_of(rows, tag, asked->rows_max, &more);
        (void)json_array_append_new(groups, json_pack("{sssssosb}", "tag", tag, "latest",
                                                      json_string_of(row, "assignedAt"),
                                                      "assignments", shown, "hasMore", (int)more));
    }
    return groups;
}

static void groups_answer(struct asked *asked, const json_t *rows)
{
    scoped_json *groups = groups_of(rows, asked);
    char next[PAGE_CURSOR_BYTES];
    struct err err;
    json_t *page = page_after_cursor(asked->order, groups, str_of(asked->page.cursor),
                                     (size_t)asked->page.limit, next, &err);

    if (!page) {
        call_fail_err(asked->call, -EINVAL, &err);
        return;
    }
    for (size_t i = 0; i < json_array_size(page); i++) {
        (void)json_object_del(json_array_get(page, i), "latest");
    }
    call_json(asked->call, 200, json_pack("{soso}", "tags", page, "nextCursor", cursor_json(next)));
}

static const struct page_order orders[] = {
    {"latest", "tag", true, "latest_desc"},
    {"latest", "tag", false, "latest_asc"},
    {"tag", "tag", false, "name_asc"},
    {"tag", "tag", true, "name_desc"},
};

static int search_ask(struct str query, char out[SEARCH_BYTES_MAX + 1], struct err *err)
{
    scoped_buf(text, QUERY_VALUE_BYTES_MAX);
    int r = query_text(query, "search", &text, err);

    if (r < 0) {
        return r;
    }
    if (!str_copy(out, SEARCH_BYTES_MAX + 1, buf_str(&text)) ||
        strspn(out, "abcdefghijklmnopqrstuvwxyz0123456789._-") != strlen(out)) {
        return err_set(err, EINVAL, "Invalid search parameter");
    }
    return 0;
}

void handle_tag_groups(struct call *call, const json_t *body)
{
    static const struct page_names names = {"tagsLimit", "tagsCursor", 25, 100};
    struct str query = http_request(call->ex)->query;
    struct asked asked = {.rows_max = GROUP_ROWS, .answer = groups_answer};
    struct err err;
    int r = page_ask(call, &names, &asked.page, &err);

    (void)body;
    r = r < 0 ? r : order_ask(query, orders, countof(orders), &asked.order, &err);
    r = r < 0 ? r : search_ask(query, asked.search, &err);
    r = r < 0 ? r
              : query_int(query, "assignmentLimit", (struct int_range){1, GROUP_ROWS_MAX},
                          &asked.rows_max, &err);
    if (r < 0) {
        call_fail_err(call, r, &err);
    } else {
        ask(call, &asked);
    }
}

/* ---- count and exists ---- */

static void count_answer(struct asked *asked, const json_t *rows)
{
    scoped_json *groups = groups_of(rows, asked);

    call_json(asked->call, 200, json_pack("{si}", "total", (int)json_array_size(groups)));
}

void handle_tag_count(struct call *call, const json_t *body)
{
    const struct asked asked = {.rows_max = 1, .answer = count_answer};

    (void)body;
    ask(call, &asked);
}

static void exists_answer(struct asked *asked, const json_t *rows)
{
    bool found = false;

    for (size_t i = 0; i < json_array_size(rows); i++) {
        found |= is_tag(json_array_get(rows, i), asked->tag);
    }
    call_json(asked->call, 200,
              json_pack("{sbss}", "exists", (int)found, "normalizedTag", asked->tag));
}

void handle_tag_exists(struct call *call, const json_t *body)
{
    struct asked asked = {.answer = exists_answer};
    scoped_buf(tag, QUERY_VALUE_BYTES_MAX);
    struct err err;
    int r = query_text(http_request(call->ex)->query, "tag", &tag, &err);

    (void)body;
    if (r == 0 || (r > 0 && !template_tag_parse(buf_str(&tag), asked.tag))) {
        r = err_set(&err, EINVAL, "Invalid tag");
    }
    if (r < 0) {
        call_fail_err(call, r, &err);
    } else {
        ask(call, &asked);
    }
}

/* ---- assignments of one tag ---- */

static void assignments_answer(struct asked *asked, const json_t *rows)
{
    static const struct page_order newest = {"assignedAt", "assignmentId", true, NULL};
    bool more;
    scoped_json *found = rows_of(rows, asked->tag, INT64_MAX, &more);

    page_answer(asked->call, &newest, found, &asked->page, "data");
}

void handle_tag_assignments(struct call *call, const json_t *body)
{
    static const struct page_names names = {"limit", "cursor", 50, 100};
    struct asked asked = {.answer = assignments_answer};
    struct err err;
    int r = page_ask(call, &names, &asked.page, &err);

    (void)body;
    if (r == 0 && !template_tag_parse(str_of(call->param), asked.tag)) {
        r = err_set(&err, EINVAL, "Invalid tag");
    }
    if (r < 0) {
        call_fail_err(call, r, &err);
    } else {
        ask(call, &asked);
    }
}
