#include <errno.h>

#include "api/internal.h"
#include "template/template.h"

void call_fail_template(struct call *call, int why, struct str name)
{
    size_t colon = str_find(name, ':');
    struct str tag = str_skip(name, colon + 1);

    switch (why) {
    case -EACCES:
        call_fail(call, 403, "you don't have access to template '%.*s'", (int)name.len, name.at);
        break;
    case -ENODATA:
        call_fail(call, 404, "tag '%.*s' does not exist for template '%.*s'", (int)tag.len, tag.at,
                  (int)colon, name.at);
        break;
    case -EINVAL:
        call_fail(call, 400, "Invalid template reference: '%.*s'", (int)name.len, name.at);
        break;
    default:
        call_fail(call, 404, "template '%.*s' not found", (int)name.len, name.at);
        break;
    }
}

static json_t *texts(const char *text)
{
    json_t *array = json_array();

    if (text) {
        (void)json_array_append_new(array, json_string(text));
    }
    return array;
}

/* How often a template was used is counted since the daemon's start. */
static void append(void *ctx, const struct template *t)
{
    if (t->snapshot_of) {
        return; /* GET /snapshots lists those */
    }
    json_t *row = json_object();

    (void)json_object_set_new(row, "templateID", json_string(t->id));
    (void)json_object_set_new(row, "buildID", json_string(t->build_id));
    (void)json_object_set_new(row, "cpuCount", json_integer(t->cpu_count));
    (void)json_object_set_new(row, "memoryMB", json_integer(t->memory_mb));
    (void)json_object_set_new(row, "diskSizeMB", json_integer(t->disk_mb));
    (void)json_object_set_new(row, "public", json_boolean(t->is_public));
    (void)json_object_set_new(row, "aliases", texts(t->alias));
    (void)json_object_set_new(row, "names", texts(t->alias));
    (void)json_object_set_new(row, "createdAt", stamp_json(t->created_ms));
    (void)json_object_set_new(row, "updatedAt", stamp_json(t->created_ms));
    (void)json_object_set_new(row, "createdBy", json_null());
    (void)json_object_set_new(row, "lastSpawnedAt",
                              t->last_spawned_ms ? stamp_json(t->last_spawned_ms) : json_null());
    (void)json_object_set_new(row, "spawnCount", json_integer(t->spawns));
    (void)json_object_set_new(row, "buildCount", json_integer(1));
    (void)json_object_set_new(row, "envdVersion", json_string(SANDBOX_ENVD_VERSION));
    (void)json_object_set_new(row, "buildStatus", json_string("ready"));
    (void)json_object_set_new(row, "isDefault", json_boolean(t->team_id == NULL));
    (void)json_array_append_new(ctx, row);
}

void handle_templates(struct call *call, const json_t *body)
{
    json_t *list = json_array();
    scoped_buf team;

    (void)body;
    buf_init(&team, API_PARAM_BYTES);
    int r = http_query_get(http_request(call->ex)->query, "teamID", &team);
    if (r < 0 || (r == 1 && !str_eq(buf_str(&team), str_of(call->team->id)))) {
        json_decref(list);
        call_fail(call, 400, "Team ID param mismatch with the API key");
        return;
    }
    templates_each(call->api->options.templates, call->team->id, append, list);
    call_json(call, 200, list);
}

void handle_alias(struct call *call, const json_t *body)
{
    int why = 0;
    const struct template *t =
        templates_find(call->api->options.templates, call->team->id, str_of(call->param), &why);

    (void)body;
    if (!t) {
        call_fail_template(call, why, str_of(call->param));
        return;
    }
    json_t *reply = json_object();
    (void)json_object_set_new(reply, "templateID", json_string(t->id));
    (void)json_object_set_new(reply, "public", json_boolean(t->is_public));
    call_json(call, 200, reply);
}
