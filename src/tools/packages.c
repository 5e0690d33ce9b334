/* install_packages: presets first, then commands, each with its result. */
#include "tools/packages.h"

#include <errno.h>
#include <string.h>

#include "lib/base/json.h"
#include "tools/catalogue/handlers.h"
#include "tools/claude.h"
#include "tools/keys.h"
#include "tools/reply.h"

#define NPM_GLOBAL "sudo npm install --global --no-fund --no-audit --loglevel=error "

/* Each ends with a command that shows that the program works. */
static const struct {
    const char *name, *script;
} presets[] = {
    /* openclaw needs a newer Node.js than Debian has, and its installation checks that. Node.js
     * trusts only the authorities compiled into it, unless NODE_USE_SYSTEM_CA adds those that the
     * sandbox trusts. */
    {"openclaw", "new() { node -e 'process.exit(parseInt(process.versions.node) < 24 ? 1 : 0)'; }\n"
                 "new || { " NPM_GLOBAL "node@24 && hash -r && new; } || exit 1\n"
                 "sudo env NODE_USE_SYSTEM_CA=1 PATH=\"/usr/local/bin:$PATH\" npm install --global "
                 "--no-fund --no-audit"
                 " --loglevel=error openclaw@latest && openclaw --version"},
    {"remotion", /* its renderer is a browser: these are what that one needs of Debian */
     "sudo apt-get update -q && sudo DEBIAN_FRONTEND=noninteractive apt-get install -q -y"
     " --no-install-recommends libnss3 libdbus-1-3 libatk1.0-0 libatk-bridge2.0-0 libgbm1"
     " libasound2t64 libxrandr2 libxkbcommon0 libxfixes3 libxcomposite1 libxdamage1"
     " libpango-1.0-0 libcairo2 libcups2 && " NPM_GLOBAL
     "@remotion/cli@latest && remotion --help | head -n 1"},
    {"pnpm", NPM_GLOBAL "pnpm@latest && pnpm --version"},
    {"bun", NPM_GLOBAL "bun@latest && bun --version"},
};

/* Reports the last way that was tried, with the time of all. */
static int claude_preset(struct steps *steps, const char *preset, struct err *err)
{
    scoped_json *tries = json_array();
    struct steps inner = *steps;
    const char *way = NULL;
    int64_t took_ms = 0;

    inner.done = tries;
    int r = claude_update(&inner, &way, err);
    for (size_t i = 0; i < json_array_size(tries); i++) {
        took_ms += json_integer_value(json_object_get(json_array_get(tries, i), "duration_ms"));
    }
    if (r >= 0) {
        json_t *last = json_array_get(tries, json_array_size(tries) - 1);
        (void)json_object_set_new(last, "name", json_string(preset));
        (void)json_object_set_new(last, "duration_ms", json_integer(took_ms));
        (void)json_array_append(steps->done, last);
    }
    return r;
}

int packages_preset(struct steps *steps, const char *preset, struct err *err)
{
    for (size_t i = 0; i < countof(presets); i++) {
        if (strcmp(presets[i].name, preset) == 0) {
            return steps_run(steps, preset, presets[i].script, err);
        }
    }
    return claude_preset(steps, preset, err);
}

/* Installs each entry of the array; *all is cleared when one fails. */
static int install_each(struct steps *steps, const json_t *names, bool are_presets, bool *all,
                        struct err *err)
{
    size_t n = json_array_size(names);
    int r = 0;

    for (size_t i = 0; r >= 0 && i < n; i++) {
        const char *name = json_string_value(json_array_get(names, i));

        call_progress(steps->call, (uint32_t)i, (uint32_t)n, "%.80s", name);
        r = are_presets ? packages_preset(steps, name, err) : steps_run(steps, name, name, err);
        *all = *all && r == 1;
    }
    return r < 0 ? r : 0;
}

static json_t *presets_of(const json_t *input)
{
    json_t *all = json_array();
    json_t *one = json_object_get(input, "preset");
    const json_t *several = json_object_get(input, "presets");

    if (one) {
        (void)json_array_append(all, one);
    }
    (void)json_array_extend(all, json_unconst(several));
    return all;
}

int tool_install_packages(struct tool_call *call, const json_t *input, json_t **out,
                          struct err *err)
{
    scoped_json *named = presets_of(input);
    scoped_json *env = NULL, *done = json_array();
    const json_t *commands = json_object_get(input, "commands");
    struct remote_sandbox sandbox;
    bool all = true;

    if (json_array_size(named) == 0 && json_array_size(commands) == 0) {
        return err_set(err, EINVAL, "preset, presets or commands: say what to install");
    }
    int r = remote_connect_input(call, input, &sandbox, err);
    r = r < 0 ? r : keys_env(call, sandbox.id, NULL, &env, err);
    struct steps steps = {
        .call = call,
        .sandbox = &sandbox,
        .env = env,
        .done = done,
        .limit_s = json_integer_value(json_object_get(input, "command_timeout_seconds")),
    };
    r = r < 0 ? r : install_each(&steps, named, true, &all, err);
    r = r < 0 ? r : install_each(&steps, commands, false, &all, err);
    if (r < 0) {
        return r;
    }
    *out = reply_new(&sandbox);
    (void)json_object_set_new(*out, "success", json_boolean(all));
    (void)json_object_set(*out, "results", done);
    return 0;
}
