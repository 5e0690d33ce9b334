/* create_claude_code_sandbox: a sandbox in which the Claude Code command line is ready to be asked.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/alloc.h"
#include "lib/base/json.h"
#include "tools/catalogue/handlers.h"
#include "tools/claude.h"
#include "tools/claude_settings.h"
#include "tools/create.h"
#include "tools/keys.h"
#include "tools/reply.h"

enum { PATH_BYTES_MAX = 4096 + 64, PROGRESS_STEPS = 5 };

/* The shells of terminals and of commands are told whose sandbox they are in; where Claude Code
 * works is kept for send_sandbox_input. The last line is that directory. */
static const char prepare_script[] =
    "set -e\n"
    "mkdir -p -- \"$TOOL_DIR\" 2>/dev/null || sudo install -d -o \"$(id -un)\" -- \"$TOOL_DIR\"\n"
    "cd -- \"$TOOL_DIR\"\n"
    "mkdir -p ~/.claude\n"
    "pwd > ~/.claude/.working_dir\n"
    "for file in ~/.profile ~/.bashrc; do\n"
    "    touch \"$file\"\n"
    "    sed -i '/^export E2B_SANDBOX_ID=/d' \"$file\"\n"
    "    echo \"export E2B_SANDBOX_ID=$TOOL_ID\" >> \"$file\"\n"
    "done\n"
    "[ -e ~/.claude.json ] || echo '{\"hasCompletedOnboarding\": true}' > ~/.claude.json\n"
    "pwd";

static const char key_script[] =
    "[ -n \"$ANTHROPIC_API_KEY$ANTHROPIC_AUTH_TOKEN$CLAUDE_CODE_OAUTH_TOKEN\" ]";

struct making {
    struct tool_call *call;
    const json_t *input;
    struct remote_sandbox sandbox;
    struct steps steps;
    json_t *reply;
};

/* ---- files ---- */

static int memory_write(const struct making *making, const char *name, const char *path,
                        struct err *err)
{
    const json_t *text = json_object_get(making->input, name);

    return text ? remote_write(making->call, &making->sandbox, path,
                               (struct str){json_string_value(text), json_string_length(text)}, err)
                : 0;
}

/* The settings are where the command line looks in its working directory, and where it looks from
 * any other. */
static int files_write(const struct making *making, struct err *err)
{
    json_t *settings =
        claude_settings(json_string_of(making->input, "permissions_preset"), making->input);
    const char *dir = json_string_of(making->reply, "working_dir");
    char project[PATH_BYTES_MAX], local[PATH_BYTES_MAX];

    (void)json_object_set_new(making->reply, "settings", settings);
    (void)snprintf(project, sizeof(project), "%s/CLAUDE.md", dir);
    (void)snprintf(local, sizeof(local), "%s/.claude/settings.local.json", dir);
    scoped_text text = json_dumps(settings, JSON_INDENT(2));
    int r =
        remote_write(making->call, &making->sandbox, ".claude/settings.json", str_of(text), err);
    r = r < 0 ? r : remote_write(making->call, &making->sandbox, local, str_of(text), err);
    r = r < 0 ? r : memory_write(making, "user_memory", ".claude/CLAUDE.md", err);
    return r < 0 ? r : memory_write(making, "project_memory", project, err);
}

/* ---- steps ---- */

/* Uses the template of that name when there is one; otherwise installs what is missing into
 * `base`. */
static int remote_make(struct making *making, struct err *err)
{
    const char *alias = json_string_of(making->input, "template_alias");
    int r = create_remote(making->call, making->input, alias, &making->sandbox, err);
    bool missing =
        r == -ENOENT && (strcmp(alias, "claude") == 0 || strcmp(alias, "claude-code") == 0);

    if (missing) {
        r = create_remote(making->call, making->input, "base", &making->sandbox, err);
    }
    if (r < 0) {
        return r;
    }
    making->reply = reply_new(&making->sandbox);
    (void)json_object_set_new(making->reply, "template_alias",
                              json_string(missing ? "base" : alias));
    (void)json_object_set_new(
        making->reply, "urls",
        reply_urls(&making->sandbox, json_object_get(making->input, "ports")));
    if (missing) {
        reply_note(making->reply, "There is no template claude, so base was used and the command"
                                  " line installed; atoll template build claude makes one, and"
                                  " this quicker.");
    }
    return 0;
}

static int prepare(struct making *making, struct err *err)
{
    scoped_json *env = json_copy(json_unconst(making->steps.env));
    struct steps steps = making->steps;

    (void)json_object_set_new(env, "TOOL_DIR",
                              json_string(json_string_of(making->input, "working_dir")));
    (void)json_object_set_new(env, "TOOL_ID", json_string(making->sandbox.id));
    steps.env = env;
    int r = steps_run(&steps, "prepare", prepare_script, err);
    struct str output = str_of(steps_output(&steps));
    const char *dir = json_string_of(making->input, "working_dir");
    while (r == 1 && output.len && output.at[output.len - 1] == '\n') {
        output.len--;
    }
    (void)json_object_set_new(making->reply, "working_dir",
                              r == 1 ? json_stringn(output.at, output.len) : json_string(dir));
    return r;
}

static int update(struct making *making, struct err *err)
{
    const char *way = NULL;
    int r = claude_update(&making->steps, &way, err);

    if (r == 1) {
        (void)json_object_set_new(making->reply, "updated_by", json_string(way));
        r = steps_run(&making->steps, "claude --version", "claude --version", err);
    }
    if (r == 1) {
        const char *version = steps_output(&making->steps);
        (void)json_object_set_new(making->reply, "claude_version",
                                  json_stringn(version, strcspn(version, " \n")));
    }
    return r;
}

static int key_check(struct making *making, struct err *err)
{
    int r = steps_run(&making->steps, "look for a key", key_script, err);

    if (r == 0) {
        reply_note(making->reply, "No anthropic_api_key was given and the team has stored none:"
                                  " prompts will fail until send_sandbox_input is given"
                                  " ANTHROPIC_API_KEY in envs.");
    }
    return r;
}

/* 1: all is there; 0: a step failed, and the reply tells. */
static int set_up(struct making *making, struct err *err)
{
    call_progress(making->call, 1, PROGRESS_STEPS, "Preparing the sandbox");
    int r = prepare(making, err);

    if (r == 1) {
        call_progress(making->call, 2, PROGRESS_STEPS, "Writing settings and memory");
        r = files_write(making, err);
        r = r < 0 ? r : 1;
    } else if (r == 0) {
        (void)json_object_set_new(making->reply, "settings", json_object());
    }
    if (r == 1) {
        call_progress(making->call, 3, PROGRESS_STEPS, "Updating the Claude Code command line");
        r = update(making, err);
    }
    int key = r < 0 ? r : key_check(making, err);
    return key < 0 ? key : r;
}

int tool_create_claude_code_sandbox(struct tool_call *call, const json_t *input, json_t **out,
                                    struct err *err)
{
    struct making making = {.call = call, .input = input};
    scoped_json *env = NULL;

    call_progress(call, 0, PROGRESS_STEPS, "Starting the sandbox");
    int r = remote_make(&making, err);
    if (r < 0) {
        return r;
    }
    making.steps = (struct steps){.call = call, .sandbox = &making.sandbox, .done = json_array()};
    (void)json_object_set_new(making.reply, "steps", making.steps.done);
    r = keys_env(call, making.sandbox.id, NULL, &env, err);
    if (r == 0) {
        making.steps.env = env;
        r = set_up(&making, err);
    }
    if (r < 0) {
        remote_kill(call, &making.sandbox);
        json_decref(making.reply);
        return r;
    }
    (void)json_object_set_new(making.reply, "success", json_boolean(r == 1));
    *out = making.reply;
    return 0;
}
