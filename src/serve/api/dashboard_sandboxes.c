/* dashboard_sandboxes.c - GET /dashboard/sandboxes: all that a live list shows, in one request.
 *
 * A page may have a thousand rows, and a filter may pass over many more. So the page is made in
 * slices, and the loop serves others in between. A sandbox that comes or goes meanwhile is in the
 * page or not, as it is when its place is reached. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/alloc.h"
#include "lib/base/busy.h"
#include "lib/base/json.h"
#include "serve/api/internal.h"
#include "serve/api/list_query.h"
#include "serve/api/query.h"

enum {
    ROWS_MAX = 1000,                    /* of a page */
    SLICE_ROWS = 50,                    /* made at one time */
    SLICE_SEEN = 2000,                  /* looked at, at one time */
    TEXT_BYTES_MAX = 256,               /* of the filter `text` */
    PAGE_BYTES_MAX = 256 * 1024 * 1024, /* rows have at most a create's body of metadata */
};

struct rows {
    struct call *call;
    struct list_query query;
    char text[TEXT_BYTES_MAX + 1]; /* "": any */
    char *template_id;             /* NULL: any */
    uv_idle_t turn;                /* a slice each time the loop comes round */
    struct sandbox_position at;    /* the last that was looked at */
    bool begun;                    /* `at` is valid */
    struct buf page;
    size_t n, slice_n, seen;
    struct sandbox_position last; /* on the page */
    bool more, done, failed;
};

/* ---- a row ---- */

static void set_figures(json_t *row, struct metrics *metrics, const struct sandbox_info *info)
{
    struct metric metric;

    if (info->state != SANDBOX_RUNNING || !metrics_latest(metrics, str_of(info->id), &metric)) {
        return;
    }
    (void)json_object_set_new(row, "figuresAt", stamp_json(metric.time_s * 1000));
    (void)json_object_set_new(row, "cpuUsedPct", json_real(metric.cpu_pct));
    (void)json_object_set_new(row, "memUsed", json_integer((json_int_t)metric.memory_bytes));
    (void)json_object_set_new(row, "memCache", json_integer((json_int_t)metric.cache_bytes));
    (void)json_object_set_new(row, "diskUsed", json_integer((json_int_t)metric.disk_bytes));
    (void)json_object_set_new(row, "networkSent", json_integer((json_int_t)metric.sent_bytes));
    (void)json_object_set_new(row, "networkReceived",
                              json_integer((json_int_t)metric.received_bytes));
}

/* The sandbox that it is a copy of, or the snapshot that it was made of. */
static void set_parent(json_t *row, const struct api *api, const struct sandbox_info *info)
{
    const struct template *t = templates_by_id(api->options.templates, info->template_id);

    if (info->fork_of) {
        (void)json_object_set_new(row, "parentID", json_string(info->fork_of));
        (void)json_object_set_new(row, "parentKind", json_string("sandbox"));
    } else if (t && t->snapshot_of) {
        (void)json_object_set_new(row, "parentID", json_string(t->id));
        (void)json_object_set_new(row, "parentKind", json_string("snapshot"));
    }
}

static void set_state(json_t *row, const struct sandbox_info *info)
{
    (void)json_object_set_new(row, "state",
                              json_string(info->state == SANDBOX_PAUSED ? "paused" : "running"));
    if (info->changing) {
        bool pausing = info->exact == SANDBOX_PAUSING;
        (void)json_object_set_new(row, "changing", json_string(pausing ? "pausing" : "resuming"));
    }
    if (info->wrong) {
        (void)json_object_set_new(row, "lastError",
                                  json_pack("{soso}", "message", json_sentence(info->wrong), "at",
                                            stamp_json(info->wrong_ms)));
    }
}

static json_t *row_json(const struct api *api, const struct sandbox_info *info)
{
    json_t *row = json_object();

    (void)json_object_set_new(row, "sandboxID", json_string(info->id));
    (void)json_object_set_new(row, "templateID", json_string(info->template_id));
    if (info->template_alias) {
        (void)json_object_set_new(row, "alias", json_string(info->template_alias));
    }
    set_state(row, info);
    (void)json_object_set_new(row, "createdAt", stamp_json(info->created_ms));
    (void)json_object_set_new(row, "startedAt", stamp_json(info->started_ms));
    (void)json_object_set_new(row, "endAt", stamp_json(info->end_ms));
    (void)json_object_set_new(row, "cpuCount", json_integer(info->cpu_count));
    (void)json_object_set_new(row, "memoryMB", json_integer(info->memory_mb));
    (void)json_object_set_new(row, "diskSizeMB", json_integer(info->disk_mb));
    (void)json_object_set_new(row, "metadata", json_deep_copy(info->metadata));
    set_figures(row, api->options.metrics, info);
    set_parent(row, api, info);
    return row;
}

/* ---- filters ---- */

static bool metadata_has(const json_t *metadata, const char *text)
{
    json_each (metadata, it) {
        const char *value = json_string_value(json_object_iter_value(it));

        if (strcasestr(json_object_iter_key(it), text) || (value && strcasestr(value, text))) {
            return true;
        }
    }
    return false;
}

static bool text_matches(const char *text, const struct sandbox_info *info)
{
    return !text[0] || strcasestr(info->id, text) || strcasestr(info->template_id, text) ||
           (info->template_alias && strcasestr(info->template_alias, text)) ||
           metadata_has(info->metadata, text);
}

static bool is_wanted(const struct rows *rows, const struct sandbox_info *info)
{
    const struct list_query *query = &rows->query;

    return strcmp(info->team_id, rows->call->team->id) == 0 &&
           (info->state == SANDBOX_PAUSED ? query->paused : query->running) &&
           (!rows->template_id || strcmp(info->template_id, rows->template_id) == 0) &&
           metadata_matches(info->metadata, query->metadata) && text_matches(rows->text, info);
}

/* ---- slices ---- */

static void row_append(struct rows *rows, const struct sandbox_info *info)
{
    json_t *row = row_json(rows->call->api, info);
    char *text = json_dumps(row, JSON_COMPACT);

    rows->failed =
        rows->failed || !text || buf_printf(&rows->page, "%s%s", rows->n > 0 ? "," : "", text) < 0;
    rows->n++;
    rows->slice_n++;
    free(text);
    json_decref(row);
}

static bool on_sandbox(void *ctx, struct sandbox *sb)
{
    struct rows *rows = ctx;
    struct sandbox_info info = sandbox_info(sb);
    struct sandbox_position at = {.created_ms = info.created_ms};

    if (rows->slice_n == SLICE_ROWS || rows->seen == SLICE_SEEN) {
        rows->done = false; /* the next slice begins with this one */
        return false;
    }
    (void)snprintf(at.id, sizeof(at.id), "%s", info.id);
    if (is_wanted(rows, &info)) {
        if (rows->n == rows->query.limit) {
            rows->more = true;
            return false;
        }
        row_append(rows, &info);
        rows->last = at;
    }
    rows->at = at;
    rows->begun = true;
    rows->seen++;
    return true;
}

static void rows_free(uv_handle_t *handle)
{
    struct rows *rows = container_of((uv_idle_t *)handle, struct rows, turn);

    list_query_fini(&rows->query);
    free(rows->template_id);
    buf_fini(&rows->page);
    free(rows);
}

static void rows_answer(struct rows *rows)
{
    struct call *call = rows->call;
    struct sandboxes_used used = sandboxes_used(call->api->options.sandboxes, call->team->id);
    char token[LIST_TOKEN_BYTES] = "";
    struct err err;

    if (rows->more) {
        list_token_write(&rows->last, rows->query.ascending, token);
    }
    const char *quote = rows->more ? "\"" : "";
    if (rows->failed ||
        buf_printf(&rows->page, "],\"nextCursor\":%s%s%s,\"running\":%u,\"paused\":%u}", quote,
                   rows->more ? token : "null", quote, used.running, used.paused) < 0) {
        (void)err_set(&err, EMSGSIZE, "the page is too large: ask for fewer rows");
        call_fail_err(call, -EMSGSIZE, &err);
        return;
    }
    call_text(call, 200, "application/json; charset=utf-8", buf_str(&rows->page));
}

static void on_turn(uv_idle_t *turn)
{
    struct rows *rows = container_of(turn, struct rows, turn);
    struct call *call = rows->call;

    busy("a page of sandboxes");
    rows->slice_n = rows->seen = 0;
    rows->done = true;
    if (!call_gone(call) && !call->api->closed) {
        sandboxes_each(call->api->options.sandboxes, rows->query.ascending,
                       rows->begun ? &rows->at : NULL, on_sandbox, rows);
    }
    if (!rows->done) {
        return;
    }
    if (call_gone(call) || call->api->closed) {
        call_free(call);
    } else {
        rows_answer(rows);
    }
    uv_close((uv_handle_t *)turn, rows_free);
}

/* ---- the query ---- */

/* False: it names a template that is not there, which has no sandboxes. */
static bool template_resolve(struct rows *rows)
{
    const char *name = rows->query.template_name;
    int why = 0;

    if (!name) {
        return true;
    }
    const struct template *found = templates_find(rows->call->api->options.templates,
                                                  rows->call->team->id, str_of(name), &why);
    rows->template_id = found ? xstrdup(found->id) : NULL;
    return found != NULL;
}

static int query_parse(struct call *call, struct rows *rows, struct err *err)
{
    struct str query = http_request(call->ex)->query;
    scoped_buf(text, QUERY_VALUE_BYTES_MAX);
    int r = query_text(query, "text", &text, err);

    if (r > 0 && !str_copy(rows->text, sizeof(rows->text), buf_str(&text))) {
        return err_set(err, EINVAL, "validation error: text must be at most %d bytes",
                       TEXT_BYTES_MAX);
    }
    return r < 0 ? r : list_query_parse_pages(query, ROWS_MAX, &rows->query, err);
}

void handle_dashboard_sandboxes(struct call *call, const json_t *body)
{
    struct rows *rows = xnew(struct rows);
    struct err err;
    int r = query_parse(call, rows, &err);

    (void)body;
    if (r < 0) {
        free(rows);
        call_fail_err(call, r, &err);
        return;
    }
    rows->call = call;
    rows->at = rows->query.after;
    rows->begun = rows->query.continues;
    buf_init(&rows->page, PAGE_BYTES_MAX);
    if (uv_idle_init(call->api->options.loop, &rows->turn) < 0 ||
        buf_printf(&rows->page, "{\"sandboxes\":[") < 0) {
        abort();
    }
    if (!template_resolve(rows)) {
        rows_answer(rows);
        uv_close((uv_handle_t *)&rows->turn, rows_free);
        return;
    }
    (void)uv_idle_start(&rows->turn, on_turn);
}
