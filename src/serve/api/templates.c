/* /templates: what the team has and may use. Builds, tags and files have their own files. */
#include <errno.h>
#include <stdlib.h>

#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "serve/api/internal.h"
#include "serve/api/query.h"
#include "serve/template/name.h"

enum { TEMPLATES_PAGE = 100 };

void call_fail_template(struct call *call, int why, struct str name)
{
    size_t colon = str_find(name, ':');
    struct str tag = str_skip(name, colon + 1);
    const char *awaited = templates_awaited(call->api->options.templates, name);
    int status = status_of_errno(STATUS_API, why);

    switch (why) {
    case -EACCES:
        call_fail(call, status, "you don't have access to template '%.*s'", (int)name.len, name.at);
        break;
    case -ENODATA:
        if (!tag.len) {
            call_fail(call, status, "template '%.*s' has no build that succeeded: its log says why",
                      (int)name.len, name.at);
            break;
        }
        call_fail(call, status, "tag '%.*s' does not exist for template '%.*s'", (int)tag.len,
                  tag.at, (int)colon, name.at);
        break;
    case -EINVAL:
        call_fail(call, status, "Invalid template reference: '%.*s'", (int)name.len, name.at);
        break;
    default:
        if (awaited) {
            call_fail(call, status_of_errno(STATUS_API, -EAGAIN), "%s", awaited);
            break;
        }
        call_fail(call, status_of_errno(STATUS_API, -ENOENT), "template '%.*s' not found",
                  (int)name.len, name.at);
        break;
    }
}

const struct template *call_own_template(struct call *call, const char *name)
{
    int why = 0;
    const struct template *t =
        templates_lookup(call->api->options.templates, call->team->id, str_of(name), &why);

    if (!t) {
        call_fail_template(call, why, str_of(name));
        return NULL;
    }
    if (!t->team_id || strcmp(t->team_id, call->team->id) != 0) {
        call_fail(call, 403, "You don't have access to sandbox template '%s'", name);
        return NULL;
    }
    return t;
}

/* ---- out ---- */

json_t *template_aliases(const struct template *t)
{
    json_t *array = json_array();

    if (t->alias) {
        (void)json_array_append_new(array, json_string(t->alias));
    }
    return array;
}

json_t *template_names(const struct api *api, const struct template *t)
{
    const char *space = templates_space(api->options.templates, t->team_id);

    if (!t->alias || !space) {
        return template_aliases(t);
    }
    json_t *array = json_array();
    (void)json_array_append_new(array, json_sprintf("%s/%s", space, t->alias));
    return array;
}

struct builds_seen {
    struct build_info latest;
    bool any;
    uint32_t n;
    uint64_t bytes; /* of all that are kept */
    int64_t changed_ms;
};

static bool on_build(void *ctx, const struct build_info *info)
{
    struct builds_seen *seen = ctx;

    if (!seen->any) {
        seen->latest = *info;
        seen->any = true;
        seen->changed_ms = info->finished_ms ? info->finished_ms : info->created_ms;
    }
    seen->n++;
    seen->bytes += info->bytes;
    return true;
}

static struct builds_seen builds_of(const struct api *api, const struct template *t)
{
    struct builds_seen seen = {.changed_ms = t->created_ms};

    builds_each(api->options.builds, t->id, on_build, &seen);
    return seen;
}

static void set_common(json_t *row, const struct api *api, const struct template *t,
                       int64_t changed_ms)
{
    (void)json_object_set_new(row, "templateID", json_string(t->id));
    (void)json_object_set_new(row, "public", json_boolean(t->is_public));
    (void)json_object_set_new(row, "aliases", template_aliases(t));
    (void)json_object_set_new(row, "names", template_names(api, t));
    (void)json_object_set_new(row, "createdAt", stamp_json(t->created_ms));
    (void)json_object_set_new(row, "updatedAt", stamp_json(changed_ms));
    (void)json_object_set_new(row, "lastSpawnedAt",
                              t->last_spawned_ms ? stamp_json(t->last_spawned_ms) : json_null());
    (void)json_object_set_new(row, "spawnCount", json_integer(t->spawns));
}

/* How often a template was used is counted since the daemon's start. */
json_t *template_json(const struct api *api, const struct template *t)
{
    struct builds_seen seen = builds_of(api, t);
    json_t *row = json_object();
    const char *status = seen.any ? build_state_name(seen.latest.state) : "ready";

    set_common(row, api, t, seen.changed_ms);
    (void)json_object_set_new(
        row, "buildID", json_string(t->build_id[0] || !seen.any ? t->build_id : seen.latest.id));
    (void)json_object_set_new(row, "cpuCount", json_integer(t->cpu_count));
    (void)json_object_set_new(row, "memoryMB", json_integer(t->memory_mb));
    (void)json_object_set_new(row, "diskSizeMB", json_integer(t->disk_mb));
    (void)json_object_set_new(row, "createdBy", maker_json(api, t->id));
    (void)json_object_set_new(row, "buildCount", json_integer(seen.any ? seen.n : 1));
    (void)json_object_set_new(row, "envdVersion", json_string(SANDBOX_ENVD_VERSION));
    (void)json_object_set_new(row, "buildStatus", json_string(status));
    (void)json_object_set_new(row, "isDefault", json_boolean(t->team_id == NULL));
    (void)json_object_set_new(row, "diskUsedBytes",
                              json_integer((json_int_t)(seen.any ? seen.bytes : t->saved_bytes)));
    return row;
}

/* ---- lists ---- */

struct listing {
    const struct api *api;
    json_t *rows;
};

static void append(void *ctx, const struct template *t)
{
    const struct listing *listing = ctx;

    if (!t->snapshot_of) { /* GET /snapshots lists those */
        (void)json_array_append_new(listing->rows, template_json(listing->api, t));
    }
}

/* NULL: it was answered. */
static json_t *list_all(struct call *call)
{
    struct listing listing = {call->api, json_array()};
    scoped_buf(team, API_PARAM_BYTES);

    int r = http_query_get(http_request(call->ex)->query, "teamID", &team);
    if (r < 0 || (r == 1 && !str_eq(buf_str(&team), str_of(call->team->id)))) {
        json_decref(listing.rows);
        call_fail(call, 400, "Team ID param mismatch with the API key");
        return NULL;
    }
    templates_each(call->api->options.templates, call->team->id, append, &listing);
    return listing.rows;
}

void handle_templates(struct call *call, const json_t *body)
{
    json_t *rows = list_all(call);

    (void)body;
    if (rows) {
        call_json(call, 200, rows);
    }
}

/* Pages are cut by the last id of the one before: ids are drawn at random and never change. */
static int compare_ids(const void *a, const void *b)
{
    const json_t *const *left = a, *const *right = b;

    return strcmp(json_string_value(json_object_get(*left, "templateID")),
                  json_string_value(json_object_get(*right, "templateID")));
}

static json_t *page_cut(json_t *rows, const char *after, size_t limit, const char **last)
{
    size_t n = json_array_size(rows);
    const json_t **sorted = xcalloc(n + 1, sizeof(*sorted));
    json_t *page = json_array();

    for (size_t i = 0; i < n; i++) {
        sorted[i] = json_array_get(rows, i);
    }
    qsort(sorted, n, sizeof(*sorted), compare_ids);
    for (size_t i = 0; i < n; i++) {
        const char *id = json_string_value(json_object_get(sorted[i], "templateID"));
        if (strcmp(id, after) <= 0) {
            continue;
        }
        if (json_array_size(page) == limit) {
            *last =
                json_string_value(json_object_get(json_array_get(page, limit - 1), "templateID"));
            break;
        }
        (void)json_array_append(page, json_unconst(sorted[i]));
    }
    free(sorted);
    return page;
}

static void append_default(void *ctx, const struct template *t)
{
    const struct listing *listing = ctx;

    if (!t->team_id) {
        json_t *row = template_json(listing->api, t);
        (void)json_object_set_new(row, "spawnCount", json_integer(0));
        (void)json_object_set_new(row, "buildCount", json_integer(0));
        (void)json_object_set_new(row, "lastSpawnedAt", json_null());
        (void)json_array_append_new(listing->rows, row);
    }
}

/* The built-in templates, by their ids. Use by others is not shown. */
void handle_default_templates(struct call *call, const json_t *body)
{
    struct listing listing = {call->api, json_array()};
    const char *last = NULL;

    (void)body;
    templates_each(call->api->options.templates, call->team->id, append_default, &listing);
    call_json(call, 200, page_cut(listing.rows, "", json_array_size(listing.rows) + 1, &last));
    json_decref(listing.rows);
}

void handle_templates_v2(struct call *call, const json_t *body)
{
    int64_t limit = TEMPLATES_PAGE;
    struct str query = http_request(call->ex)->query;
    const char *last = NULL;
    char after[ID_TEMPLATE_LEN + 1] = "";
    scoped_buf(token, QUERY_VALUE_BYTES_MAX);
    struct err err;

    (void)body;
    int r = query_int(query, "limit", (struct int_range){1, TEMPLATES_PAGE}, &limit, &err);
    if (r >= 0) {
        r = query_text(query, "nextToken", &token, &err);
    }
    if (r > 0 && !str_copy(after, sizeof(after), buf_str(&token))) {
        r = err_set(&err, EINVAL, "validation error: nextToken is none of ours");
    }
    if (r < 0) {
        call_fail_err(call, r, &err);
        return;
    }
    scoped_json *rows = list_all(call);
    if (rows) {
        json_t *page = page_cut(rows, after, (size_t)limit, &last);
        if (last) {
            call_header(call, "X-Next-Token", last);
        }
        call_json(call, 200, page);
    }
}

/* ---- a single template ---- */

static bool append_build(void *ctx, const struct build_info *info)
{
    json_t *build = json_object();

    (void)json_object_set_new(build, "buildID", json_string(info->id));
    (void)json_object_set_new(build, "status", json_string(build_state_name(info->state)));
    (void)json_object_set_new(build, "createdAt", stamp_json(info->created_ms));
    (void)json_object_set_new(build, "updatedAt",
                              stamp_json(info->finished_ms ? info->finished_ms : info->created_ms));
    if (info->finished_ms) {
        (void)json_object_set_new(build, "finishedAt", stamp_json(info->finished_ms));
    }
    (void)json_object_set_new(build, "cpuCount", json_integer(info->cpu_count));
    (void)json_object_set_new(build, "memoryMB", json_integer(info->memory_mb));
    (void)json_object_set_new(build, "diskSizeMB", json_integer(info->disk_mb));
    (void)json_object_set_new(build, "diskUsedBytes", json_integer((json_int_t)info->bytes));
    (void)json_object_set_new(build, "envdVersion", json_string(SANDBOX_ENVD_VERSION));
    (void)json_array_append_new(ctx, build);
    return json_array_size(ctx) < TEMPLATES_PAGE;
}

void handle_template(struct call *call, const json_t *body)
{
    int why = 0;
    const struct template *t =
        templates_lookup(call->api->options.templates, call->team->id, str_of(call->param), &why);

    (void)body;
    if (!t) {
        call_fail_template(call, why, str_of(call->param));
        return;
    }
    json_t *reply = template_json(call->api, t);
    json_t *builds = json_array();
    builds_each(call->api->options.builds, t->id, append_build, builds);
    (void)json_object_set_new(reply, "builds", builds);
    call_json(call, 200, reply);
}

/* ---- changes ---- */

void handle_template_change(struct call *call, const json_t *body)
{
    struct err err;
    const struct template *t = call_own_template(call, call->param);

    if (!t) {
        return;
    }
    bool is_public = t->is_public;
    int r = field_bool(body, "public", &is_public, &err);
    if (r < 0) {
        call_fail_err(call, r, &err);
        return;
    }
    json_t *reply = json_object();
    (void)json_object_set_new(reply, "names", template_names(call->api, t));
    templates_set_public(call->api->options.templates, t->id, is_public, call_due,
                         call_later(call, 200, reply));
}

struct users {
    const char *template_id;
    bool running, paused;
};

static bool on_user(void *ctx, struct sandbox *sb)
{
    struct users *users = ctx;
    struct sandbox_info info = sandbox_info(sb);

    if (strcmp(info.template_id, users->template_id) == 0) {
        users->running |= info.state != SANDBOX_PAUSED;
        users->paused |= info.state == SANDBOX_PAUSED;
    }
    return !users->running;
}

void handle_template_delete(struct call *call, const json_t *body)
{
    const struct template *t = call_own_template(call, call->param);

    (void)body;
    if (!t) {
        return;
    }
    struct users users = {.template_id = t->id};
    if (!t->snapshot_of) { /* a sandbox of a snapshot has all it needs */
        sandboxes_each(call->api->options.sandboxes, false, NULL, on_user, &users);
    }
    if (users.running || users.paused) {
        call_fail(call, 400, "cannot delete template '%s' because there are %s sandboxes using it",
                  t->id, users.running ? "running" : "paused");
        return;
    }
    builds_drop(call->api->options.builds, t->id);
    maker_forget(call->api, t->id);
    sandboxes_forget_template(call->api->options.sandboxes, t, call_due,
                              call_later(call, 204, NULL));
    (void)builds_prune(call->api->options.builds,
                       INT64_MIN); /* layers that only this template has used */
}

void handle_template_prune(struct call *call, const json_t *body)
{
    int64_t seconds = 0;
    struct err err;
    int r = field_int(body, "unusedSeconds", (struct int_range){0, INT32_MAX}, &seconds, &err);

    if (r < 0) {
        call_fail_err(call, r, &err);
        return;
    }
    struct builds_pruned pruned =
        builds_prune(call->api->options.builds, clock_wall_ms() - seconds * 1000);
    json_t *reply = json_object();
    (void)json_object_set_new(reply, "layers", json_integer(pruned.layers));
    (void)json_object_set_new(reply, "files", json_integer(pruned.files));
    (void)json_object_set_new(reply, "bytes", json_integer((json_int_t)pruned.bytes));
    call_json(call, 200, reply);
}

/* ---- names ---- */

/* With a tag, asks for that tag. Without a tag, asks whether the template exists, built or not. */
void handle_alias(struct call *call, const json_t *body)
{
    struct str name = str_of(call->param);
    bool tagged = str_find(name, ':') < name.len;
    int why = 0;
    const struct template *t =
        tagged ? templates_find(call->api->options.templates, call->team->id, name, &why)
               : templates_lookup(call->api->options.templates, call->team->id, name, &why);

    (void)body;
    if (!t) {
        call_fail_template(call, why, name);
        return;
    }
    json_t *reply = json_object();
    (void)json_object_set_new(reply, "templateID", json_string(t->id));
    (void)json_object_set_new(reply, "public", json_boolean(t->is_public));
    call_json(call, 200, reply);
}
