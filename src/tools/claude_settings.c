#include "tools/claude_settings.h"

#include <stdbool.h>
#include <string.h>

#include "lib/base/compiler.h"

#define READING "Read", "Grep", "Glob"

#define DEVELOPMENT                                                                                \
    "Bash(ls:*)", "Bash(cat:*)", "Bash(find:*)", "Bash(grep:*)", "Bash(mkdir:*)", "Bash(cp:*)",    \
        "Bash(mv:*)", "Bash(touch:*)", "Bash(echo:*)", "Bash(pwd)", "Bash(git status:*)",          \
        "Bash(git diff:*)", "Bash(git log:*)", "Bash(git show:*)", "Bash(git branch:*)",           \
        "Bash(git checkout:*)", "Bash(git switch:*)", "Bash(git add:*)", "Bash(git commit:*)",     \
        "Bash(git stash:*)", "Bash(git fetch:*)", "Bash(git pull:*)", "Bash(git clone:*)"

#define BUILDING                                                                                   \
    "Bash(npm ci:*)", "Bash(npm install:*)", "Bash(npm run:*)", "Bash(npm test:*)", "Bash(npx:*)", \
        "Bash(pnpm:*)", "Bash(yarn:*)", "Bash(bun:*)", "Bash(node:*)", "Bash(tsc:*)",              \
        "Bash(pip install:*)", "Bash(python:*)", "Bash(python3:*)", "Bash(pytest:*)",              \
        "Bash(make:*)", "Bash(cmake:*)", "Bash(cargo:*)", "Bash(go build:*)", "Bash(go test:*)"

#define GUARDED                                                                                    \
    "Read(./.env)", "Read(./.env.*)", "Read(**/.env)", "Read(**/.env.*)", "Edit(**/.env)",         \
        "Edit(**/.env.*)", "Bash(curl:*)", "Bash(wget:*)"

#define DOCUMENTATION                                                                              \
    "WebFetch(domain:docs.anthropic.com)", "WebFetch(domain:code.claude.com)",                     \
        "WebFetch(domain:developer.mozilla.org)", "WebFetch(domain:docs.python.org)",              \
        "WebFetch(domain:nodejs.org)", "WebFetch(domain:react.dev)",                               \
        "WebFetch(domain:nextjs.org)", "WebFetch(domain:vercel.com)",                              \
        "WebFetch(domain:github.com)", "WebFetch(domain:raw.githubusercontent.com)"

/* Deny beats ask, and ask beats allow. */
static const struct preset {
    const char *name, *mode;
    const char *const *allow, *const *ask, *const *deny; /* each ends with NULL; or NULL */
} presets[] = {
    {.name = "allow_all", .mode = "bypassPermissions"},
    {.name = "dev_standard",
     .mode = "acceptEdits",
     .allow = (const char *const[]){READING, DEVELOPMENT, BUILDING, NULL},
     .ask = (const char *const[]){"Bash(git push:*)", "WebFetch", NULL},
     .deny = (const char *const[]){GUARDED, NULL}},
    {.name = "dev_webfetch_allowlist", /* asking for WebFetch as such would beat the list */
     .mode = "acceptEdits",
     .allow = (const char *const[]){READING, DEVELOPMENT, BUILDING, DOCUMENTATION, NULL},
     .ask = (const char *const[]){"Bash(git push:*)", NULL},
     .deny = (const char *const[]){GUARDED, NULL}},
    {.name = "ci_build_test",
     .mode = "dontAsk",
     .allow = (const char *const[]){READING, BUILDING, "Bash(ls:*)", "Bash(cat:*)",
                                    "Bash(git status:*)", "Bash(git diff:*)", NULL},
     .deny = (const char *const[]){GUARDED, "Bash(git push:*)", "WebFetch", "WebSearch", NULL}},
    {.name = "review_readonly",
     .mode = "dontAsk",
     .allow = (const char *const[]){READING, NULL},
     .deny = (const char *const[]){"Edit", "Write", "NotebookEdit", "Bash", "WebFetch", "WebSearch",
                                   NULL}},
    {.name = "plan_mode", .mode = "plan"},
};

static void rules_add(json_t *permissions, const char *name, const char *const *own,
                      const json_t *given)
{
    json_t *rules = json_array();

    for (; own && *own; own++) {
        (void)json_array_append_new(rules, json_string(*own));
    }
    for (size_t i = 0; i < json_array_size(given); i++) {
        (void)json_array_append(rules, json_array_get(given, i));
    }
    (void)json_object_set_new(permissions, name, rules);
}

/* A user who has chosen to allow everything is not asked to confirm it. */
static json_t *settings_of(const struct preset *preset, json_t *permissions, bool no_bypass)
{
    json_t *settings = json_object();

    (void)json_object_set_new(settings, "permissions", permissions);
    if (no_bypass) {
        (void)json_object_set_new(permissions, "disableBypassPermissionsMode",
                                  json_string("disable"));
    } else if (strcmp(preset->mode, "bypassPermissions") == 0) {
        (void)json_object_set_new(settings, "skipDangerousModePermissionPrompt", json_true());
    }
    return settings;
}

json_t *claude_settings(const char *name, const json_t *more)
{
    const json_t *directories = json_object_get(more, "additional_directories");
    bool no_bypass = json_is_true(json_object_get(more, "disable_bypass"));

    for (size_t i = 0; i < countof(presets); i++) {
        const struct preset *preset = &presets[i];

        if (strcmp(preset->name, name) == 0) {
            json_t *permissions = json_object();
            (void)json_object_set_new(permissions, "defaultMode", json_string(preset->mode));
            rules_add(permissions, "allow", preset->allow, json_object_get(more, "allow"));
            rules_add(permissions, "ask", preset->ask, json_object_get(more, "ask"));
            rules_add(permissions, "deny", preset->deny, json_object_get(more, "deny"));
            if (json_array_size(directories) > 0) {
                rules_add(permissions, "additionalDirectories", NULL, directories);
            }
            return settings_of(preset, permissions, no_bypass);
        }
    }
    return NULL;
}
