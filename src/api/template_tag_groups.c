/* What a template's tags name: count, exists, groups and assignments. A tag has one assignment, the
 * present one: earlier ones are not kept. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/internal.h"
#include "api/query.h"
#include "base/alloc.h"
#include "template/name.h"

enum {
    GROUPS_DEFAULT = 25,
    GROUPS_MAX = 100,
    ASSIGNMENTS_DEFAULT = 6, /* of each group; of one tag: */
    ASSIGNMENTS_OF_TAG_DEFAULT = 50,
    ASSIGNMENTS_MAX = 100,
};

struct row {
    char tag[TEMPLATE_NAME_MAX + 1];
    char build_id[ID_UUID_LEN + 1];
    int64_t assigned_ms, template_ms;
};

struct rows {
    struct row *list;
    size_t n, cap;
    struct str search; /* a part of the tag; empty: any */
};

static void rows_fini(struct rows *rows)
{
    free(rows->list);
}

static bool contains(const char *text, struct str part)
{
    return memmem(text, strlen(text), part.at ? part.at : "", part.len) != NULL;
}

static void on_tag(void *ctx, const char *tag, const struct template *t, int64_t created_ms)
{
    struct rows *rows = ctx;

    if (!t->build_id[0] || !contains(tag, rows->search)) {
        return;
    }
    if (rows->n == rows->cap) {
        rows->cap = rows->cap ? 2 * rows->cap : GROUPS_DEFAULT;
        rows->list = reallocarray(rows->list, rows->cap, sizeof(struct row));
        if (!rows->list) {
            abort();
        }
    }
    struct row *row = &rows->list[rows->n++];
    *row = (struct row){.assigned_ms = created_ms, .template_ms = t->created_ms};
    (void)str_copy(row->tag, sizeof(row->tag), str_of(tag));
    (void)str_copy(row->build_id, sizeof(row->build_id), str_of(t->build_id));
}

/* The team's own; 404 for all others, as if there were none. */
static const struct template *own_template(struct call *call)
{
    int why = 0;
    const struct template *t =
        templates_lookup(call->api->options.templates, call->team->id, str_of(call->first), &why);

    if (!t || !t->team_id || strcmp(t->team_id, call->team->id) != 0) {
        call_fail(call, 404, "template '%s' not found", call->first);
        return NULL;
    }
    return t;
}

static void rows_read(const struct call *call, const struct template *t, struct rows *out)
{
    templates_each_tag(call->api->options.templates, t->id, on_tag, out);
}

/* ---- as JSON ---- */

/* The same for the same assignment, and of no other. */
static json_t *assignment_id(const struct template *t, const struct row *row)
{
    char text[ID_TEMPLATE_LEN + TEMPLATE_NAME_MAX + ID_UUID_LEN + 32];
    char hex[SHA256_HEX_LEN + 1];
    int n = snprintf(text, sizeof(text), "%s:%s:%s:%lld", t->id, row->tag, row->build_id,
                     (long long)row->assigned_ms);

    sha256_hex(text, (size_t)n, hex);
    return json_sprintf("%.8s-%.4s-8%.3s-8%.3s-%.12s", hex, hex + 8, hex + 12, hex + 15, hex + 18);
}

static json_t *assignment_json(const struct call *call, const struct template *t,
                               const struct row *row)
{
    struct build_info info = {.created_ms = row->template_ms, .finished_ms = row->assigned_ms};
    json_t *out = json_object();

    (void)build_find(call->api->options.builds, t->id, row->build_id, &info);
    (void)json_object_set_new(out, "assignmentId", assignment_id(t, row));
    (void)json_object_set_new(out, "buildId", json_string(row->build_id));
    (void)json_object_set_new(out, "assignedAt", stamp_json(row->assigned_ms));
    (void)json_object_set_new(out, "buildCreatedAt", stamp_json(info.created_ms));
    (void)json_object_set_new(out, "buildFinishedAt",
                              info.finished_ms ? stamp_json(info.finished_ms) : json_null());
    return out;
}

static json_t *group_json(const struct call *call, const struct template *t, const struct row *row)
{
    json_t *out = json_object();
    json_t *assignments = json_array();

    (void)json_array_append_new(assignments, assignment_json(call, t, row));
    (void)json_object_set_new(out, "tag", json_string(row->tag));
    (void)json_object_set_new(out, "assignments", assignments);
    (void)json_object_set_new(out, "hasMore", json_false());
    return out;
}

/* ---- the order of groups ---- */

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct row *)a)->tag, ((const struct row *)b)->tag);
}

static int by_name_down(const void *a, const void *b)
{
    return by_name(b, a);
}

static int by_time(const void *a, const void *b)
{
    const struct row *left = a, *right = b;

    return left->assigned_ms != right->assigned_ms
               ? (left->assigned_ms < right->assigned_ms ? -1 : 1)
               : by_name(a, b);
}

static int by_time_down(const void *a, const void *b)
{
    return by_time(b, a);
}

static const struct {
    const char *name;
    int (*compare)(const void *a, const void *b);
} orders[] = {
    {"latest_desc", by_time_down}, /* unless another is asked for */
    {"latest_asc", by_time},
    {"name_asc", by_name},
    {"name_desc", by_name_down},
};

static int order_read(struct str query, size_t *out, struct err *err)
{
    scoped_buf(text, QUERY_VALUE_BYTES_MAX);

    *out = 0;
    int r = query_text(query, "sort", &text, err);
    if (r <= 0) {
        return r;
    }
    for (size_t i = 0; i < countof(orders); i++) {
        if (str_eq(buf_str(&text), str_of(orders[i].name))) {
            *out = i;
            return 0;
        }
    }
    return err_set(err, EINVAL,
                   "validation error: sort must be latest_desc, latest_asc, name_asc or name_desc");
}

/* ---- groups ---- */

struct groups_query {
    size_t order;
    int64_t limit;
    struct buf search, cursor; /* the last tag of the page before; empty: from the start */
};

static int groups_read(struct str query, struct groups_query *out, struct err *err)
{
    int64_t assignments = ASSIGNMENTS_DEFAULT;
    int r = order_read(query, &out->order, err);

    if (r >= 0) {
        r = query_int(query, "tagsLimit", (struct int_range){1, GROUPS_MAX}, &out->limit, err);
    }
    if (r >= 0) {
        r = query_int(query, "assignmentLimit", (struct int_range){1, ASSIGNMENTS_MAX},
                      &assignments, err);
    }
    if (r >= 0) {
        r = query_text(query, "search", &out->search, err);
    }
    return r < 0 ? r : query_text(query, "tagsCursor", &out->cursor, err);
}

/* Behind the cursor's tag; -EINVAL when there is none. */
static int groups_begin(const struct rows *rows, struct str cursor, size_t *out, struct err *err)
{
    *out = 0;
    if (cursor.len == 0) {
        return 0;
    }
    for (size_t i = 0; i < rows->n; i++) {
        if (str_eq(cursor, str_of(rows->list[i].tag))) {
            *out = i + 1;
            return 0;
        }
    }
    return err_set(err, EINVAL, "validation error: tagsCursor is none of ours");
}

static json_t *groups_page(const struct call *call, const struct template *t,
                           const struct rows *rows, size_t begin, int64_t limit)
{
    size_t end = rows->n - begin > (size_t)limit ? begin + (size_t)limit : rows->n;
    json_t *tags = json_array();
    json_t *out = json_object();

    for (size_t i = begin; i < end; i++) {
        (void)json_array_append_new(tags, group_json(call, t, &rows->list[i]));
    }
    (void)json_object_set_new(out, "tags", tags);
    (void)json_object_set_new(out, "nextCursor",
                              end < rows->n ? json_string(rows->list[end - 1].tag) : json_null());
    return out;
}

static void groups_answer(struct call *call, const struct groups_query *query)
{
    scoped(rows_fini) struct rows rows = {.search = buf_str(&query->search)};
    size_t begin = 0;
    struct err err;
    const struct template *t = own_template(call);

    if (!t) {
        return;
    }
    rows_read(call, t, &rows);
    if (rows.n > 0) {
        qsort(rows.list, rows.n, sizeof(struct row), orders[query->order].compare);
    }
    int r = groups_begin(&rows, buf_str(&query->cursor), &begin, &err);
    if (r < 0) {
        call_fail_err(call, r, &err);
    } else {
        call_json(call, 200, groups_page(call, t, &rows, begin, query->limit));
    }
}

void handle_tags_groups(struct call *call, const json_t *body)
{
    struct groups_query query = {.limit = GROUPS_DEFAULT};
    struct err err;

    (void)body;
    buf_init(&query.search, QUERY_VALUE_BYTES_MAX);
    buf_init(&query.cursor, QUERY_VALUE_BYTES_MAX);
    int r = groups_read(http_request(call->ex)->query, &query, &err);
    if (r < 0) {
        call_fail_err(call, r, &err);
    } else {
        groups_answer(call, &query);
    }
    buf_fini(&query.search);
    buf_fini(&query.cursor);
}

/* ---- count, exists, assignments ---- */

void handle_tags_count(struct call *call, const json_t *body)
{
    scoped(rows_fini) struct rows rows = {0};
    const struct template *t = own_template(call);

    (void)body;
    if (t) {
        rows_read(call, t, &rows);
        call_json(call, 200, json_pack("{sI}", "total", (json_int_t)rows.n));
    }
}

static const struct row *row_of(const struct rows *rows, const char *tag)
{
    for (size_t i = 0; i < rows->n; i++) {
        if (strcmp(rows->list[i].tag, tag) == 0) {
            return &rows->list[i];
        }
    }
    return NULL;
}

static int tag_query(struct str query, char out[TEMPLATE_NAME_MAX + 1], struct err *err)
{
    scoped_buf(text, QUERY_VALUE_BYTES_MAX);
    int r = query_text(query, "tag", &text, err);

    if (r == 0) {
        return err_set(err, EINVAL, "validation error: tag is required");
    }
    if (r > 0 && !template_tag_parse(buf_str(&text), out)) {
        return err_set(err, EINVAL, "Invalid tag: it is not of a-z 0-9 - _ .");
    }
    return r < 0 ? r : 0;
}

void handle_tags_exists(struct call *call, const json_t *body)
{
    scoped(rows_fini) struct rows rows = {0};
    char tag[TEMPLATE_NAME_MAX + 1] = "";
    struct err err;
    int r = tag_query(http_request(call->ex)->query, tag, &err);

    (void)body;
    if (r < 0) {
        call_fail_err(call, r, &err);
        return;
    }
    const struct template *t = own_template(call);
    if (t) {
        rows_read(call, t, &rows);
        call_json(call, 200,
                  json_pack("{sbss}", "exists", row_of(&rows, tag) != NULL, "normalizedTag", tag));
    }
}

void handle_tags_assignments(struct call *call, const json_t *body)
{
    scoped(rows_fini) struct rows rows = {0};
    char tag[TEMPLATE_NAME_MAX + 1] = "";
    int64_t limit = ASSIGNMENTS_OF_TAG_DEFAULT;
    struct err err;
    int r = query_int(http_request(call->ex)->query, "limit",
                      (struct int_range){1, ASSIGNMENTS_MAX}, &limit, &err);

    (void)body;
    if (r >= 0 && !template_tag_parse(str_of(call->param), tag)) {
        r = err_set(&err, EINVAL, "Invalid tag: it is not of a-z 0-9 - _ .");
    }
    if (r < 0) {
        call_fail_err(call, r, &err);
        return;
    }
    const struct template *t = own_template(call);
    if (t) {
        json_t *data = json_array();
        rows_read(call, t, &rows);
        const struct row *row = row_of(&rows, tag);
        if (row) {
            (void)json_array_append_new(data, assignment_json(call, t, row));
        }
        call_json(call, 200, json_pack("{soso}", "data", data, "nextCursor", json_null()));
    }
}
