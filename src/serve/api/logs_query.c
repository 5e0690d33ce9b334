#include "serve/api/logs_query.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>

#include "lib/base/clock.h"
#include "serve/api/fields.h"
#include "serve/api/query.h"

enum { NUMBER_BYTES = 32 };

/* ---- queries ---- */

static const struct int_range wall_ms = {0, INT64_C(253402300799999)}; /* to the year 9999 */

static void query_begin(int64_t now_ms, struct logfile_query *out)
{
    *out = (struct logfile_query){
        .from_ms = now_ms - LOGS_KEPT_MS, .to_ms = INT64_MAX, .limit = LOGS_LIMIT_MAX};
}

static void from_raise(struct logfile_query *query, int64_t from_ms)
{
    query->from_ms = from_ms > query->from_ms ? from_ms : query->from_ms;
}

/* The first version sets no maximum: a client that asks for more than ours gets ours. */
int logs_query_v1(struct str query, int64_t now_ms, struct logfile_query *out, struct err *err)
{
    int64_t start = 0, limit = LOGS_LIMIT_MAX;

    query_begin(now_ms, out);
    int r = query_int(query, "start", wall_ms, &start, err);
    if (r >= 0) {
        r = query_int(query, "limit", (struct int_range){0, INT32_MAX}, &limit, err);
    }
    from_raise(out, start);
    out->limit = (size_t)(limit < LOGS_LIMIT_MAX ? limit : LOGS_LIMIT_MAX);
    return r < 0 ? r : 0;
}

static int direction_parse(struct str query, struct logfile_query *out, struct err *err)
{
    scoped_buf(word, QUERY_VALUE_BYTES_MAX);

    int r = query_text(query, "direction", &word, err);
    if (r <= 0) {
        return r;
    }
    out->backward = str_eq(buf_str(&word), STR("backward"));
    return out->backward || str_eq(buf_str(&word), STR("forward"))
               ? 0
               : field_refuse(err, "direction", "forward or backward");
}

static int level_parse(struct str query, struct logfile_query *out, struct err *err)
{
    char text[NUMBER_BYTES] = "";
    scoped_buf(word, QUERY_VALUE_BYTES_MAX);

    int r = query_text(query, "level", &word, err);
    if (r <= 0) {
        return r;
    }
    return str_copy(text, sizeof(text), buf_str(&word)) && log_level_parse(text, &out->least) == 0
               ? 0
               : field_refuse(err, "level", "debug, info, warn or error");
}

static int search_parse(struct str query, struct logfile_query *out, struct err *err)
{
    scoped_buf(word, QUERY_VALUE_BYTES_MAX);

    int r = query_text(query, "search", &word, err);
    if (r <= 0 || buf_len(&word) == 0) {
        return r < 0 ? r : 0;
    }
    json_t *valid = json_stringn(buf_at(&word), buf_len(&word));
    json_decref(valid);
    return valid && str_copy(out->search, sizeof(out->search), buf_str(&word))
               ? 0
               : err_set(err, EINVAL, "validation error: search must be UTF-8 of at most %d bytes",
                         LOGFILE_SEARCH_BYTES_MAX);
}

static int words_parse(struct str query, struct logfile_query *out, bool *follow, struct err *err)
{
    int r = direction_parse(query, out, err);

    if (r == 0) {
        r = level_parse(query, out, err);
    }
    if (r == 0) {
        r = search_parse(query, out, err);
    }
    if (r == 0) {
        r = query_bool(query, "follow", follow, err);
    }
    if (r >= 0 && *follow && out->backward) {
        r = err_set(err, EINVAL, "validation error: what is followed cannot go backward");
    }
    return r < 0 ? r : 0;
}

int logs_query_v2(struct str query, int64_t now_ms, struct logfile_query *out, bool *follow,
                  struct err *err)
{
    int64_t cursor = -1, limit = LOGS_LIMIT_MAX;

    query_begin(now_ms, out);
    *follow = false;
    int r = query_int(query, "cursor", wall_ms, &cursor, err);
    if (r >= 0) {
        r = query_int(query, "limit", (struct int_range){0, LOGS_LIMIT_MAX}, &limit, err);
    }
    if (r >= 0) {
        r = words_parse(query, out, follow, err);
    }
    if (r < 0) {
        return r;
    }
    out->limit = (size_t)limit;
    if (cursor >= 0 && out->backward) {
        out->to_ms = cursor;
    } else {
        from_raise(out, cursor);
    }
    return 0;
}

/* ---- pages in words ---- */

static json_t *stamp(int64_t at_ms)
{
    char text[CLOCK_STAMP_BYTES];

    clock_stamp(at_ms, text);
    return json_string(text);
}

/* Fields are texts, whatever the agent wrote. */
static json_t *field_text(const json_t *value)
{
    if (json_is_string(value)) {
        return json_incref(json_unconst(value));
    }
    char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    json_t *json = json_string(text ? text : "");
    free(text);
    return json;
}

static json_t *entry_json(const struct logfile_entry *entry)
{
    json_t *line = json_loadb(entry->line.at, entry->line.len, 0, NULL);
    const char *message = json_string_value(json_object_get(line, "message"));
    json_t *fields = json_object();
    json_t *out = json_object();

    json_each (line, it) {
        const char *name = json_object_iter_key(it);
        if (strcmp(name, "message") != 0 && strcmp(name, "level") != 0) {
            (void)json_object_set_new(fields, name, field_text(json_object_iter_value(it)));
        }
    }
    (void)json_object_set_new(out, "timestamp", stamp(entry->wall_ms));
    (void)json_object_set_new(out, "level", json_string(log_level_name(entry->level)));
    (void)json_object_set_new(out, "message", json_string(message ? message : ""));
    (void)json_object_set_new(out, "fields", fields);
    json_decref(line);
    return out;
}

/* Steals json. */
static int json_put(struct buf *out, json_t *json)
{
    char *text = json_dumps(json, JSON_COMPACT);
    int r = text ? buf_append(out, text, strlen(text)) : -ENOMEM;

    free(text);
    json_decref(json);
    return r;
}

static json_t *entries_json(const struct logfile_page *page)
{
    json_t *list = json_array();

    for (size_t i = 0; i < page->n; i++) {
        (void)json_array_append_new(list, entry_json(&page->entries[i]));
    }
    return list;
}

int logs_render_v1(const struct logfile_page *page, struct buf *out)
{
    json_t *lines = json_array();
    json_t *body = json_object();

    for (size_t i = 0; i < page->n; i++) {
        const struct logfile_entry *entry = &page->entries[i];
        json_t *one = json_object();
        (void)json_object_set_new(one, "timestamp", stamp(entry->wall_ms));
        (void)json_object_set_new(one, "line", json_stringn(entry->line.at, entry->line.len));
        (void)json_array_append_new(lines, one);
    }
    (void)json_object_set_new(body, "logs", lines);
    (void)json_object_set_new(body, "logEntries", entries_json(page));
    return json_put(out, body);
}

int logs_render_v2(const struct logfile_page *page, struct buf *out)
{
    json_t *body = json_object();

    (void)json_object_set_new(body, "logs", entries_json(page));
    return json_put(out, body);
}

int logs_render_lines(const struct logfile_page *page, struct buf *out)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < page->n; i++) {
        r = json_put(out, entry_json(&page->entries[i]));
        if (r == 0) {
            r = buf_append(out, "\n", 1);
        }
    }
    return r;
}
