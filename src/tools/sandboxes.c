/* sandboxes.c - tools for whole sandboxes: list, pause, kill. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/encode.h"
#include "tools/catalogue/handlers.h"
#include "tools/internal.h"
#include "tools/remote.h"

enum {
    LISTED_MAX = 1000,
    TARGET_BYTES_MAX = 12 * 1024,
};

/* ---- list_sandboxes ---- */

/* The API's filter is a query inside the query: its names and values are encoded, and the whole. */
static int filter_add(struct buf *filter, const char *name, const char *value)
{
    int r = buf_len(filter) ? buf_append(filter, "&", 1) : 0;

    r = r == 0 ? percent_encode(filter, str_of(name)) : r;
    r = r == 0 ? buf_append(filter, "=", 1) : r;
    return r == 0 ? percent_encode(filter, str_of(value)) : r;
}

static int filter_write(const json_t *input, struct buf *filter)
{
    static const char *const common[] = {"userId", "sessionId", "app", "env"};
    int r = 0;

    for (size_t i = 0; r == 0 && i < countof(common); i++) {
        const char *value = json_string_of(input, common[i]);
        r = value ? filter_add(filter, common[i], value) : 0;
    }
    json_each (json_object_get(input, "metadata"), it) {
        r = r == 0 ? filter_add(filter, json_object_iter_key(it),
                                json_string_value(json_object_iter_value(it)))
                   : r;
    }
    return r;
}

static int list_target(const json_t *input, struct buf *target, struct err *err)
{
    const char *state = json_string_of(input, "state");
    scoped_buf(filter, TARGET_BYTES_MAX);
    scoped_buf(whole, TARGET_BYTES_MAX);

    int r = filter_write(input, &filter);
    r = r == 0 ? buf_printf(target, "/v2/sandboxes?limit=100&state=%s",
                            strcmp(state, "all") == 0 ? "running,paused" : state)
               : r;
    if (r == 0 && buf_len(&filter)) {
        r = buf_printf(target, "&metadata=");
        r = r == 0 ? percent_encode(&whole, buf_str(&filter)) : r;
        r = r == 0 ? percent_encode(target, buf_str(&whole)) : r;
    }
    if (r < 0 || buf_append(target, "", 1) < 0) {
        return err_set(err, EINVAL, "metadata: is longer than a question may be");
    }
    return 0;
}

static bool is_wanted(const json_t *ids, const char *id)
{
    for (size_t i = 0; i < json_array_size(ids); i++) {
        if (strcmp(json_string_value(json_array_get(ids, i)), id) == 0) {
            return true;
        }
    }
    return !ids;
}

/* The API's names become the catalogue's. */
static json_t *renamed(const json_t *row, const char *const names[][2], size_t n)
{
    json_t *out = json_object();

    for (size_t i = 0; i < n; i++) {
        json_t *value = json_object_get(row, names[i][0]);

        if (value && !json_is_null(value)) {
            (void)json_object_set(out, names[i][1], value);
        }
    }
    return out;
}

/* A paused sandbox has no end: the API reports when it was paused. */
static json_t *sandbox_shown(const json_t *row)
{
    bool paused = strcmp(json_string_of(row, "state"), "paused") == 0;
    const char *const names[][2] = {
        {"sandboxID", "sandbox_id"},   {"state", "state"},
        {"templateID", "template_id"}, {"alias", "template_alias"},
        {"startedAt", "started_at"},   {"endAt", paused ? "paused_at" : "expires_at"},
        {"cpuCount", "cpu_count"},     {"memoryMB", "memory_mb"},
        {"diskSizeMB", "disk_mb"},     {"metadata", "metadata"},
    };

    return renamed(row, names, countof(names));
}

int tool_list_sandboxes(struct tool_call *call, const json_t *input, json_t **out, struct err *err)
{
    const json_t *ids = json_object_get(input, "ids");
    scoped_json *rows = NULL;
    scoped_buf(target, TARGET_BYTES_MAX);

    int r = list_target(input, &target, err);
    r = r == 0 ? call_api_list(call, buf_at(&target), LISTED_MAX, &rows, err) : r;
    if (r < 0) {
        return r;
    }
    json_t *shown = json_array();
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);

        if (is_wanted(ids, json_string_of(row, "sandboxID"))) {
            (void)json_array_append_new(shown, sandbox_shown(row));
        }
    }
    *out = json_pack("{sI so}", "count", (json_int_t)json_array_size(shown), "sandboxes", shown);
    return 0;
}

/* ---- pause_sandbox, kill_sandbox ---- */

int tool_pause_sandbox(struct tool_call *call, const json_t *input, json_t **out, struct err *err)
{
    const char *id = json_string_of(input, "sandbox_id");
    scoped_json *body = json_object();
    scoped_json *detail = NULL;

    (void)json_object_set(body, "memory", json_object_get(input, "memory"));
    int r = remote_api(call, "GET", id, "", NULL, &detail, err);
    if (r == 0 && strcmp(json_string_of(detail, "state"), "paused") != 0) {
        r = remote_api(call, "POST", id, "/pause", body, NULL, err);
    }
    if (r == 0) {
        const char *wanted =
            json_string_of(detail, "wantedEndAt"); /* of one that was paused already */

        *out = json_pack("{ss ss ss}", "sandbox_id", json_string_of(detail, "sandboxID"), "state",
                         "paused", "expires_at", wanted ? wanted : json_string_of(detail, "endAt"));
    }
    return r;
}

int tool_kill_sandbox(struct tool_call *call, const json_t *input, json_t **out, struct err *err)
{
    const char *id = json_string_of(input, "sandbox_id");

    int r = remote_api(call, "DELETE", id, "", NULL, NULL, err);
    if (r == 0) {
        *out = json_pack("{ss sb}", "sandbox_id", id, "killed", 1);
    }
    return r;
}

/* ---- list_templates ---- */

static json_t *template_shown(const json_t *row)
{
    static const char *const names[][2] = {
        {"templateID", "template_id"}, {"aliases", "aliases"},      {"buildStatus", "build_status"},
        {"cpuCount", "cpu_count"},     {"memoryMB", "memory_mb"},   {"diskSizeMB", "disk_mb"},
        {"createdAt", "created_at"},   {"updatedAt", "updated_at"},
    };
    json_t *out = renamed(row, names, countof(names));
    bool is_public = json_is_true(json_object_get(row, "public"));

    (void)json_object_set_new(out, "visibility", json_string(is_public ? "public" : "team"));
    return out;
}

int tool_list_templates(struct tool_call *call, const json_t *input, json_t **out, struct err *err)
{
    scoped_json *rows = NULL;

    (void)input;
    int r = call_api(call, "GET", "/templates", NULL, &rows, err);
    if (r < 0) {
        return r;
    }
    json_t *shown = json_array();
    for (size_t i = 0; i < json_array_size(rows); i++) {
        (void)json_array_append_new(shown, template_shown(json_array_get(rows, i)));
    }
    *out = json_pack("{sI so}", "count", (json_int_t)json_array_size(shown), "templates", shown);
    return 0;
}
