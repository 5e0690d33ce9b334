/* dashboard_templates.c - /dashboard/templates: a team's own and the built-in ones. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>

#include "serve/api/dashboard.h"
#include "serve/api/query.h"

#define NO_BUILD "00000000-0000-0000-0000-000000000000"

/* ---- the list ---- */

struct listing {
    const struct call *call;
    json_t *rows;
    struct str search; /* in lower case; "": all */
    int is_public;     /* -1: of either kind */
};

static bool contains(const char *text, struct str part)
{
    struct str whole = str_of(text ? text : "");

    for (size_t i = 0; i + part.len <= whole.len; i++) {
        if (str_ieq((struct str){whole.at + i, part.len}, part)) {
            return true;
        }
    }
    return false;
}

static bool names_contain(const struct call *call, const struct template *t, struct str part)
{
    scoped_json *names = template_names(call->api, t);
    bool found = contains(t->alias, part) || contains(t->id, part);

    for (size_t i = 0; !found && i < json_array_size(names); i++) {
        found = contains(json_string_value(json_array_get(names, i)), part);
    }
    return found;
}

/* Public ones of other teams can be used, and are not the team's. */
static bool is_listed(const struct call *call, const struct template *t)
{
    return !t->snapshot_of && (!t->team_id || strcmp(t->team_id, call->team->id) == 0);
}

static void add(void *ctx, const struct template *t)
{
    struct listing *listing = ctx;

    if (is_listed(listing->call, t) &&
        (listing->is_public < 0 || t->is_public == (listing->is_public > 0)) &&
        names_contain(listing->call, t, listing->search)) {
        json_t *row = template_json(listing->call->api, t);

        (void)json_object_set_new(row, "defaultDescription", json_null());
        (void)json_array_append_new(listing->rows, row);
    }
}

static const struct page_order orders[] = {
    {"createdAt", "templateID", true, "created_at_desc"},
    {"createdAt", "templateID", false, "created_at_asc"},
    {"updatedAt", "templateID", true, "updated_at_desc"},
    {"updatedAt", "templateID", false, "updated_at_asc"},
};

static int public_ask(struct str query, int *out, struct err *err)
{
    bool is_public = false;
    int r = query_bool(query, "public", &is_public, err);

    *out = r > 0 ? is_public : -1;
    return r < 0 ? r : 0;
}

void handle_dashboard_templates(struct call *call, const json_t *body)
{
    static const struct page_names names = {"limit", "cursor", 50, 100};
    struct str query = http_request(call->ex)->query;
    const struct page_order *order = NULL;
    struct listing listing = {.call = call};
    struct page_asked asked;
    scoped_buf(search, QUERY_VALUE_BYTES_MAX);
    struct err err;

    (void)body;
    int r = page_ask(call, &names, &asked, &err);
    r = r < 0 ? r : order_ask(query, orders, countof(orders), &order, &err);
    r = r < 0 ? r : public_ask(query, &listing.is_public, &err);
    r = r < 0 ? r : query_text(query, "search", &search, &err);
    if (r < 0) {
        call_fail_err(call, r, &err);
        return;
    }
    scoped_json *rows = json_array();
    listing.rows = rows;
    listing.search = str_trim(buf_str(&search));
    templates_each(call->api->options.templates, call->team->id, add, &listing);
    page_answer(call, order, rows, &asked, "data");
}

/* ---- the built-in ones ---- */

static json_t *names_of_default(const struct template *t)
{
    json_t *names = json_array();

    if (t->alias) {
        (void)json_array_append_new(names, json_pack("{sssn}", "alias", t->alias, "namespace"));
    }
    return names;
}

static void add_default(void *ctx, const struct template *t)
{
    const struct listing *listing = ctx;

    if (!t->team_id && t->layers[0]) {
        json_t *row =
            json_pack("{sssosssisisisssosbsisi}", "id", t->id, "aliases", names_of_default(t),
                      "buildId", t->build_id, "ramMb", (int)t->memory_mb, "vcpu", (int)t->cpu_count,
                      "totalDiskSizeMb", (int)t->disk_mb, "envdVersion", SANDBOX_ENVD_VERSION,
                      "createdAt", stamp_json(t->created_ms), "public", (int)t->is_public,
                      "buildCount", 1, "spawnCount", (int)t->spawns);

        (void)json_array_append_new(listing->rows, row);
    }
}

void handle_dashboard_defaults(struct call *call, const json_t *body)
{
    struct listing listing = {.call = call, .rows = json_array()};

    (void)body;
    templates_each(call->api->options.templates, call->team->id, add_default, &listing);
    call_json(call, 200, json_pack("{so}", "templates", listing.rows));
}

/* ---- a single template ---- */

/* Sizes are those of what was built; without a build there are none. */
void handle_dashboard_template(struct call *call, const json_t *body)
{
    static const char *const built[] = {"cpuCount", "memoryMB", "diskSizeMB", "envdVersion"};
    const struct template *t = call_own_template(call, call->param);

    (void)body;
    if (!t) {
        return;
    }
    json_t *reply = template_json(call->api, t);
    if (!t->layers[0]) {
        (void)json_object_set_new(reply, "buildID", json_string(NO_BUILD));
        for (size_t i = 0; i < countof(built); i++) {
            (void)json_object_set_new(reply, built[i], json_null());
        }
    }
    call_json(call, 200, reply);
}
