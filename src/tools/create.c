/* create_sandbox, and what every tool that makes a sandbox shares with it. */
#include "tools/create.h"

#include <errno.h>
#include <string.h>

#include "lib/base/fiber.h"
#include "lib/base/json.h"
#include "tools/artifacts.h"
#include "tools/catalogue/handlers.h"
#include "tools/internal.h"
#include "tools/keys.h"
#include "tools/reply.h"

/* ---- variables ---- */

/* The variables that a tool's own parameters set inside. */
static const struct {
    const char *parameter, *variable;
} own_variables[] = {
    {"github_token", "GITHUB_TOKEN"},           {"github_user", "GITHUB_USER"},
    {"vercel_token", "VERCEL_TOKEN"},           {"vercel_team_id", "VERCEL_TEAM_ID"},
    {"vercel_team_id", "VERCEL_ORG_ID"}, /* Vercel's command line knows a team by this name */
    {"vercel_project_id", "VERCEL_PROJECT_ID"}, {"anthropic_api_key", "ANTHROPIC_API_KEY"},
};

static json_t *own_of(const json_t *input)
{
    json_t *own = json_object();

    for (size_t i = 0; i < countof(own_variables); i++) {
        json_t *value = json_object_get(input, own_variables[i].parameter);

        if (value) {
            (void)json_object_set(own, own_variables[i].variable, value);
        }
    }
    return own;
}

/* git calls a helper that takes the token from the variable, so that no file and no URL holds the
 * token. A caller that sets git's configuration by variables already does not get the helper. */
static void git_given_the_token(json_t *vars)
{
    static const char helper[] = "!f() { [ \"$1\" = get ] && printf 'username=%s\\npassword=%s\\n'"
                                 " \"${GITHUB_USER:-x-access-token}\" \"$GITHUB_TOKEN\"; }; f";

    if (json_object_get(vars, "GITHUB_TOKEN") && !json_object_get(vars, "GIT_CONFIG_COUNT")) {
        (void)json_object_set_new(vars, "GIT_CONFIG_COUNT", json_string("1"));
        (void)json_object_set_new(vars, "GIT_CONFIG_KEY_0",
                                  json_string("credential.https://github.com.helper"));
        (void)json_object_set_new(vars, "GIT_CONFIG_VALUE_0", json_string(helper));
    }
}

/* ---- making it ---- */

static json_t *body_of(const json_t *input, const char *template_alias, json_t *vars)
{
    json_t *body = json_object();

    (void)json_object_set_new(body, "templateID", json_string(template_alias));
    (void)json_object_set_new(body, "secure",
                              json_boolean(!json_is_false(json_object_get(input, "secure"))));
    field_copy(body, "timeout", input, "timeout_seconds");
    field_copy(body, "metadata", input, "metadata");
    field_copy(body, "allow_internet_access", input, "allow_internet");
    field_copy(body, "shells", input, "shells");
    if (vars) {
        (void)json_object_set(body, "envVars", vars);
    }
    return body;
}

static bool is_by_command(const json_t *input)
{
    const char *way = json_string_of(input, "env_injection");

    return way && strcmp(way, "command") == 0;
}

static int created(struct tool_call *call, const json_t *input, const char *template_alias,
                   struct remote_sandbox *out, struct err *err)
{
    bool by_command = is_by_command(input);
    scoped_json *own = own_of(input);
    scoped_json *vars = NULL, *secret_names = NULL;
    const struct keys_layers layers = {
        .own = own, .envs = json_object_get(input, "envs"), .stored = true};
    int r = keys_merge(call, &layers, &vars, &secret_names, err);

    if (r < 0) {
        return r;
    }
    git_given_the_token(vars);
    scoped_json *body = body_of(input, template_alias, by_command ? NULL : vars);
    r = remote_create(call, body, out, err);
    if (r < 0) {
        return r;
    }
    if (json_array_size(json_object_get(input, "shells")) > 0) {
        r = artifact_helpers_place(call, out, err);
    }
    r = r < 0 ? r : keys_record(call, out->id, vars, secret_names, by_command, err);
    if (r == 0 && fiber_cancelled(fiber_self())) {
        r = call_was_cancelled(err); /* perhaps while nothing was waited for */
    }
    if (r < 0) {
        remote_kill(call, out);
    }
    return r;
}

/* E2B calls its template "claude-code"; the recipe here is called "claude". */
int create_remote(struct tool_call *call, const json_t *input, const char *template_alias,
                  struct remote_sandbox *out, struct err *err)
{
    int r = created(call, input, template_alias, out, err);

    if (r != -ENOENT || strcmp(template_alias, "claude-code") != 0) {
        return r;
    }
    r = created(call, input, "claude", out, err);
    return r == -ENOENT ? err_set(err, ENOENT,
                                  "template 'claude-code' not found: `atoll template build claude`"
                                  " makes it, and create_claude_code_sandbox does without it")
                        : r;
}

static int code_place(struct tool_call *call, const json_t *input,
                      const struct remote_sandbox *sandbox, json_t *reply, struct err *err)
{
    size_t left = 0;

    if (!json_is_true(json_object_get(input, "code_folder"))) {
        return 0;
    }
    int r = artifacts_place(call, sandbox, NULL, &left, err);
    r = r < 0 ? r : artifact_helpers_place(call, sandbox, err);
    if (r == 0 && left > 0) {
        reply_note(reply, "%zu artifacts did not fit into " ARTIFACT_FOLDER ".", left);
    }
    return r;
}

int tool_create_sandbox(struct tool_call *call, const json_t *input, json_t **out, struct err *err)
{
    const char *alias = json_string_of(input, "template_alias");
    struct remote_sandbox sandbox;
    int r = create_remote(call, input, alias, &sandbox, err);

    if (r < 0) {
        return r;
    }
    *out = reply_new(&sandbox);
    (void)json_object_set_new(*out, "template_alias", json_string(alias));
    (void)json_object_set_new(*out, "urls", reply_urls(&sandbox, json_object_get(input, "ports")));
    r = code_place(call, input, &sandbox, *out, err);
    if (r < 0) {
        json_decref(*out);
        *out = NULL;
        remote_kill(call, &sandbox);
    }
    return r;
}
