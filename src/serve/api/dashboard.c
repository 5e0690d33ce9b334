/* dashboard.c - /dashboard: the routes that E2B's own dashboard calls besides the API, for a team
 * that sends its API key. Lists are continued by cursors. Templates and tags have their own
 * files. */
#include "serve/api/dashboard.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "serve/api/query.h"

enum { IDS_MAX = 100 };

void handle_dashboard_health(struct call *call, const json_t *body)
{
    (void)body;
    call_json(call, 200, json_pack("{ss}", "message", "Health check successful"));
}

/* ---- answers ---- */

int order_ask(struct str query, const struct page_order *orders, size_t n,
              const struct page_order **out, struct err *err)
{
    scoped_buf(sort, QUERY_VALUE_BYTES_MAX);
    int r = query_text(query, "sort", &sort, err);

    *out = &orders[0];
    if (r <= 0) {
        return r;
    }
    for (size_t i = 0; i < n; i++) {
        if (str_eq(buf_str(&sort), str_of(orders[i].sort))) {
            *out = &orders[i];
            return 0;
        }
    }
    return err_set(err, EINVAL, "Invalid sort parameter");
}

json_t *cursor_json(const char *cursor)
{
    return cursor[0] ? json_string(cursor) : json_null();
}

int page_ask(const struct call *call, const struct page_names *names, struct page_asked *out,
             struct err *err)
{
    struct str query = http_request(call->ex)->query;
    struct int_range range = {1, names->limit_max};
    scoped_buf(cursor, QUERY_VALUE_BYTES_MAX);

    out->limit = names->limit;
    int r = query_int(query, names->limit_name, range, &out->limit, err);
    if (r >= 0) {
        r = query_text(query, names->cursor_name, &cursor, err);
    }
    if (r >= 0 && !str_copy(out->cursor, sizeof(out->cursor), buf_str(&cursor))) {
        r = err_set(err, EINVAL, "Invalid cursor");
    }
    return r < 0 ? r : 0;
}

/* ---- builds ---- */

static const char *status_name(enum build_state state)
{
    switch (state) {
    case BUILD_READY:
        return "success";
    case BUILD_ERROR:
        return "failed";
    case BUILD_WAITING:
    case BUILD_BUILDING:
        break;
    }
    return "building";
}

/* Why it failed; null for all others. */
static json_t *message_json(const struct build_info *info)
{
    scoped_json *reason = info->reason ? json_loads(info->reason, 0, NULL) : NULL;
    const char *message = json_string_of(reason, "message");

    return info->state == BUILD_ERROR && message ? json_string(message) : json_null();
}

static void set_state(json_t *out, const struct build_info *info)
{
    (void)json_object_set_new(out, "status", json_string(status_name(info->state)));
    (void)json_object_set_new(out, "statusMessage", message_json(info));
    (void)json_object_set_new(out, "finishedAt",
                              info->finished_ms ? stamp_json(info->finished_ms) : json_null());
}

struct listing {
    struct call *call;
    json_t *rows;
    struct str filter;       /* an id of a build or template, or an alias; "": all */
    const char *template_id; /* that the filter names; NULL: none */
    struct str statuses;     /* "": all */
};

static bool has_word(struct str list, const char *word)
{
    struct str one;

    while (list.len > 0 && str_split(&list, ',', &one)) {
        if (str_eq(one, str_of(word))) {
            return true;
        }
    }
    return false;
}

static bool is_wanted(const struct listing *listing, const struct build_info *info)
{
    if (!info->team_id || strcmp(info->team_id, listing->call->team->id) != 0 ||
        (listing->statuses.len > 0 && !has_word(listing->statuses, status_name(info->state)))) {
        return false;
    }
    return listing->filter.len == 0 || str_eq(listing->filter, str_of(info->id)) ||
           (listing->template_id && strcmp(listing->template_id, info->template_id) == 0);
}

static bool add_build(void *ctx, const struct build_info *info)
{
    struct listing *listing = ctx;
    struct templates *templates = listing->call->api->options.templates;

    if (is_wanted(listing, info)) {
        const struct template *t = templates_by_id(templates, info->template_id);
        json_t *row =
            json_pack("{ssssssso}", "id", info->id, "templateId", info->template_id, "template",
                      t->alias ? t->alias : t->id, "createdAt", stamp_json(info->created_ms));

        set_state(row, info);
        (void)json_object_set_new(row, "cpuCount", json_integer(info->cpu_count));
        (void)json_object_set_new(row, "memoryMB", json_integer(info->memory_mb));
        (void)json_object_set_new(row, "diskSizeMB", json_integer(info->disk_mb));
        (void)json_object_set_new(row, "envdVersion", json_string(SANDBOX_ENVD_VERSION));
        (void)json_array_append_new(listing->rows, row);
    }
    return true;
}

static int statuses_check(struct str statuses, struct err *err)
{
    struct str one;

    while (statuses.len > 0 && str_split(&statuses, ',', &one)) {
        if (!str_eq(one, STR("building")) && !str_eq(one, STR("failed")) &&
            !str_eq(one, STR("success"))) {
            return field_refuse(err, "statuses", "of building, failed and success");
        }
    }
    return 0;
}

void handle_dashboard_builds(struct call *call, const json_t *body)
{
    static const struct page_names names = {"limit", "cursor", 50, 100};
    static const struct page_order newest = {"createdAt", "id", true, NULL};
    struct str query = http_request(call->ex)->query;
    struct page_asked asked;
    scoped_buf(filter, QUERY_VALUE_BYTES_MAX);
    scoped_buf(statuses, QUERY_VALUE_BYTES_MAX);
    struct err err;
    int why = 0;

    (void)body;
    int r = page_ask(call, &names, &asked, &err);
    r = r < 0 ? r : query_text(query, "build_id_or_template", &filter, &err);
    r = r < 0 ? r : query_text(query, "statuses", &statuses, &err);
    r = r < 0 ? r : statuses_check(buf_str(&statuses), &err);
    if (r < 0) {
        call_fail_err(call, r, &err);
        return;
    }
    scoped_json *rows = json_array();
    struct listing listing = {.call = call,
                              .rows = rows,
                              .filter = str_trim(buf_str(&filter)),
                              .statuses = buf_str(&statuses)};
    const struct template *named =
        templates_lookup(call->api->options.templates, call->team->id, listing.filter, &why);
    listing.template_id = named ? named->id : NULL;
    builds_each(call->api->options.builds, NULL, add_build, &listing);
    page_answer(call, &newest, rows, &asked, "data");
}

void page_answer(struct call *call, const struct page_order *order, const json_t *rows,
                 const struct page_asked *asked, const char *name)
{
    char next[PAGE_CURSOR_BYTES];
    struct err err;
    json_t *page =
        page_after_cursor(order, rows, str_of(asked->cursor), (size_t)asked->limit, next, &err);

    if (page) {
        call_json(call, 200, json_pack("{soso}", name, page, "nextCursor", cursor_json(next)));
    } else {
        call_fail_err(call, -EINVAL, &err);
    }
}

struct finding {
    const struct call *call;
    struct str ids; /* separated by ',' */
    json_t *found;
    struct build_info info; /* of the last */
};

static bool find_build(void *ctx, const struct build_info *info)
{
    struct finding *finding = ctx;

    if (info->team_id && strcmp(info->team_id, finding->call->team->id) == 0 &&
        has_word(finding->ids, info->id)) {
        json_t *row = json_pack("{ss}", "id", info->id);

        set_state(row, info);
        (void)json_array_append_new(finding->found, row);
        finding->info = *info;
    }
    return true;
}

static int ids_check(struct str ids, struct err *err)
{
    struct str id;
    size_t n = 0;

    while (str_split(&ids, ',', &id)) {
        if (!id_uuid_ok(id)) {
            return field_refuse(err, "build_ids", "ids of builds, separated by ','");
        }
        if (++n > IDS_MAX) {
            return err_set(err, EINVAL, "validation error: build_ids has more than %d ids",
                           IDS_MAX);
        }
    }
    return 0;
}

/* Builds that are not there, or another team's, are left out. */
void handle_dashboard_statuses(struct call *call, const json_t *body)
{
    scoped_buf(ids, QUERY_VALUE_BYTES_MAX);
    struct err err;

    (void)body;
    int r = query_text(http_request(call->ex)->query, "build_ids", &ids, &err);
    if (r == 0 || (r > 0 && buf_len(&ids) == 0)) {
        r = err_set(&err, EINVAL, "validation error: build_ids is required");
    }
    r = r < 0 ? r : ids_check(buf_str(&ids), &err);
    if (r < 0) {
        call_fail_err(call, r, &err);
        return;
    }
    struct finding finding = {.call = call, .ids = buf_str(&ids), .found = json_array()};
    builds_each(call->api->options.builds, NULL, find_build, &finding);
    call_json(call, 200, json_pack("{so}", "buildStatuses", finding.found));
}

void handle_dashboard_build(struct call *call, const json_t *body)
{
    struct templates *templates = call->api->options.templates;

    (void)body;
    if (!id_uuid_ok(str_of(call->param))) {
        call_fail(call, 400, "Invalid build id");
        return;
    }
    scoped_json *found = json_array();
    struct finding finding = {.call = call, .ids = str_of(call->param), .found = found};
    builds_each(call->api->options.builds, NULL, find_build, &finding);
    if (json_array_size(found) == 0) {
        call_fail(call, 404, "Build '%.64s' not found", call->param);
        return;
    }
    const struct template *t = templates_by_id(templates, finding.info.template_id);
    json_t *reply = json_pack("{soso}", "names", template_names(call->api, t), "createdAt",
                              stamp_json(finding.info.created_ms));
    set_state(reply, &finding.info);
    call_json(call, 200, reply);
}
