/* describe.c - describes a new sandbox by its template and its caller's options. */
#include <stdlib.h>

#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/encode.h"
#include "lib/base/text.h"
#include "serve/sandbox/internal.h"

enum { CREATED_AHEAD_MAX_MS = 1000 };

static json_t *copy_object(const json_t *object)
{
    json_t *own = object ? json_deep_copy(object) : json_object();

    if (!own) {
        abort();
    }
    return own;
}

/* The template's environment first, so that the create's wins. */
static json_t *plan_init(const struct template *template, const json_t *env_vars)
{
    json_t *env = json_loads(template->env_json ? template->env_json : "{}", 0, NULL);

    if (!json_is_object(env)) {
        json_decref(env);
        env = json_object();
    }
    if (env_vars) {
        json_t *own = copy_object(env_vars);
        (void)json_object_update(env, own);
        json_decref(own);
    }
    json_t *init = json_pack("{soss?ss?}", "envVars", env, "defaultUser", template->user,
                             "defaultWorkdir", template->workdir);
    if (!init) {
        abort(); /* the template's words were checked when it was stored */
    }
    return init;
}

static char *make_token(void)
{
    uint8_t bytes[SANDBOX_TOKEN_BYTES];
    scoped_buf(text, 2 * sizeof(bytes));

    id_random(bytes, sizeof(bytes));
    if (base64_encode(&text, bytes, sizeof(bytes), BASE64_URL_NOPAD) < 0 ||
        buf_append(&text, "", 1) < 0) {
        abort();
    }
    return xstrdup(buf_at(&text));
}

/* Stores the commands with the sandbox: its template may be gone or changed when it starts again. A
 * copy has those of its source. */
static void keep_commands(json_t *options, const struct template *template)
{
    if (template->start_cmd) {
        (void)json_object_set_new(options, "startCmd", json_string(template->start_cmd));
    }
    if (template->ready_cmd) {
        (void)json_object_set_new(options, "readyCmd", json_string(template->ready_cmd));
    }
    if (template->start_context) {
        (void)json_object_set_new(options, "startContext",
                                  json_loads(template->start_context, 0, NULL));
    }
}

static void put(json_t **field, json_t *value)
{
    json_decref(*field);
    *field = value;
}

/* Lists are in the order of creation, so no two are created in the same millisecond. A clock that
 * was set back by more than a burst explains is believed. */
static int64_t created_now(struct sandboxes *all)
{
    int64_t now = clock_wall_ms();
    bool ahead = all->created_ms >= now && all->created_ms - now < CREATED_AHEAD_MAX_MS;

    all->created_ms = ahead ? all->created_ms + 1 : now;
    return all->created_ms;
}

void sandbox_describe(struct sandbox *sb, const struct sandbox_params *params)
{
    const struct template *template = params->template;

    text_set(&sb->team_id, params->team_id);
    text_set(&sb->template_id, template->id);
    text_set(&sb->template_alias, template->alias);
    text_set(&sb->build_id, template->build_id);
    text_set(&sb->layers, template->layers);
    text_set(&sb->fork_of, params->fork_of);
    free(sb->access_token);
    sb->access_token = params->secure ? make_token() : NULL;
    put(&sb->metadata, copy_object(params->metadata));
    put(&sb->env_vars, copy_object(params->env_vars));
    put(&sb->options, copy_object(params->options));
    keep_commands(sb->options, template);
    put(&sb->init, plan_init(template, params->env_vars));
    bool listed = !sb->internal && sb->state != SANDBOX_PARKING;
    sb->created_ms = sb->started_ms = listed ? created_now(sb->all) : clock_wall_ms();
    sb->execution = execution_new();
    sb->end_ms = sb->started_ms + params->timeout_ms;
    sb->cpu_count = template->cpu_count;
    sb->memory_mb = template->memory_mb;
    sb->disk_mb = template->disk_mb;
}
