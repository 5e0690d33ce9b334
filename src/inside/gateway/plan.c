#include "inside/gateway/plan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/alloc.h"
#include "lib/base/json.h"

#define GITHUB "github/"

enum {
    PATH_BYTES_MAX = 4096,
};

const char *plan_kind_name(enum plan_kind kind)
{
    static const char *const names[] = {
        [PLAN_COMMAND] = "command",
        [PLAN_NPM] = "npm",
        [PLAN_PYPI] = "pypi",
        [PLAN_GITHUB] = "github",
    };
    return names[kind];
}

struct str plan_package(const struct plan *plan)
{
    struct str source = str_of(plan->source);

    if (plan->kind == PLAN_NPM) { /* the first @ is a scope's */
        size_t at = 1 + str_find(str_skip(source, 1), '@');
        return (struct str){source.at, at < source.len ? at : source.len};
    }
    return (struct str){source.at, strcspn(source.at, "[=<>~! ")};
}

/* ---- checks ---- */

static bool is_word(struct str s)
{
    for (size_t i = 0; i < s.len; i++) {
        char c = char_lower(s.at[i]);
        if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || strchr("_.-", c))) {
            return false;
        }
    }
    return s.len > 0 && s.at[0] != '.' && s.at[0] != '-';
}

static bool is_repository(struct str name)
{
    struct str rest = str_skip(name, strlen(GITHUB)), owner, repo;

    return str_split(&rest, '/', &owner) && str_split(&rest, '/', &repo) && !rest.at &&
           is_word(owner) && is_word(repo);
}

static int string_check(const json_t *server, const char *name, const char *field, bool needed,
                        struct err *err)
{
    const json_t *value = json_object_get(server, field);

    if (!value) {
        return needed ? err_set(err, EINVAL, "%s.%s is needed", name, field) : 0;
    }
    return json_is_string(value) && json_string_length(value) > 0
               ? 0
               : err_set(err, EINVAL, "%s.%s must be a string that is not empty", name, field);
}

static int args_check(const json_t *args, const char *name, struct err *err)
{
    const json_t *item;
    size_t i;

    if (args && !json_is_array(args)) {
        return err_set(err, EINVAL, "%s.args must be an array of strings", name);
    }
    json_array_foreach (args, i, item) {
        if (!json_is_string(item)) {
            return err_set(err, EINVAL, "%s.args[%zu] must be a string", name, i);
        }
    }
    return 0;
}

static int envs_check(json_t *envs, const char *name, struct err *err)
{
    if (envs && !json_is_object(envs)) {
        return err_set(err, EINVAL, "%s.envs must be an object of strings", name);
    }
    for (void *at = json_object_iter(envs); at; at = json_object_iter_next(envs, at)) {
        const char *var = json_object_iter_key(at);
        if (!*var || strchr(var, '=') || !json_is_string(json_object_iter_value(at))) {
            return err_set(err, EINVAL, "%s.envs.%.100s must be a variable with a string", name,
                           var);
        }
    }
    return 0;
}

/* `all` is the list `known` as text, for the sentence. */
static int fields_check(json_t *server, const char *name, const char *const *known, const char *all,
                        struct err *err)
{
    for (void *at = json_object_iter(server); at; at = json_object_iter_next(server, at)) {
        const char *field = json_object_iter_key(at);
        size_t i = 0;
        while (known[i] && strcmp(known[i], field) != 0) {
            i++;
        }
        if (!known[i]) {
            return err_set(err, EINVAL, "%s has no field %.40s, but: %s", name, field, all);
        }
    }
    return 0;
}

/* ---- the three kinds ---- */

static json_t *or_empty(json_t *value, json_t *empty)
{
    if (!value) {
        return empty;
    }
    json_decref(empty);
    return json_incref(value);
}

static void source_set(struct plan *plan, const json_t *server)
{
    plan->kind = json_string_of(server, "npm")    ? PLAN_NPM
                 : json_string_of(server, "pypi") ? PLAN_PYPI
                                                  : PLAN_COMMAND;
    plan->source = plan->kind == PLAN_COMMAND
                       ? NULL
                       : xstrdup(json_string_of(server, plan_kind_name(plan->kind)));
    plan->with = xstrdup(json_string_of(server, "with"));
    plan->program = xstrdup(json_string_of(server, plan->kind == PLAN_COMMAND ? "command" : "run"));
}

static bool is_program(struct str directory, const char *name)
{
    char path[PATH_BYTES_MAX];
    int n = snprintf(path, sizeof(path), "%.*s/%s", (int)directory.len, directory.at, name);

    return n > 0 && (size_t)n < sizeof(path) && access(path, X_OK) == 0;
}

static bool is_on_path(const char *name)
{
    const char *path = getenv("PATH");
    struct str rest = str_of(path ? path : ""), directory;

    while (str_split(&rest, ':', &directory)) {
        if (directory.len && is_program(directory, name)) {
            return true;
        }
    }
    return false;
}

/* A server that npm and PyPI do not have runs when the template has its program. Otherwise the
 * sentence says what to do. */
static int source_check(const char *name, const json_t *entry, struct err *err)
{
    const char *repository = json_string_of(entry, "repository");
    const char *command = json_string_of(entry, "command");

    if (!repository || (command && is_on_path(command))) {
        return 0;
    }
    if (command) {
        return err_set(err, ENOENT,
                       "%s needs the program %s, which npm and PyPI do not have: put it on the "
                       "PATH of a template of your own (source: github.com/%s)",
                       name, command, repository);
    }
    return err_set(err, ENOENT,
                   "%s is known as a Docker image alone, not from npm or PyPI: give its "
                   "repository as \"github/%s\", with installCmd and runCmd",
                   name, repository);
}

static int known_plan(struct plan *plan, const char *name, const json_t *entry,
                      const json_t *fields, struct err *err)
{
    const char *prefix = json_string_of(entry, "prefix");
    int r = source_check(name, entry, err);

    if (r < 0) {
        return r;
    }
    plan->name = xstrdup(name);
    plan->prefix = xstrdup(prefix ? prefix : name);
    source_set(plan, entry);
    plan->args = catalogue_args(entry, fields);
    plan->env = catalogue_env(entry, fields);
    return 0;
}

static int own_plan(struct plan *plan, const char *name, json_t *server, struct err *err)
{
    static const char *const known[] = {"npm",  "pypi", "command", "run",
                                        "with", "args", "envs",    NULL};
    int sources = !!json_object_get(server, "npm") + !!json_object_get(server, "pypi") +
                  !!json_object_get(server, "command");
    int r = 0;

    if (sources == 0) {
        return err_set(err, ENOENT,
                       "unknown MCP server %.100s: it is not in the catalogue, and gives no npm, "
                       "pypi or command",
                       name);
    }
    bool packaged = json_object_get(server, "run") || json_object_get(server, "with");
    if (sources > 1 || (json_object_get(server, "command") && packaged)) {
        return err_set(err, EINVAL,
                       "%s may give one of npm, pypi and command; run and with go with a "
                       "package alone",
                       name);
    }
    for (size_t i = 0; i < 5 && r == 0; i++) {
        r = string_check(server, name, known[i], false, err);
    }
    r = r == 0 ? fields_check(server, name, known, "npm pypi command run with args envs", err) : r;
    r = r == 0 ? args_check(json_object_get(server, "args"), name, err) : r;
    r = r == 0 ? envs_check(json_object_get(server, "envs"), name, err) : r;
    if (r < 0) {
        return r;
    }
    plan->name = xstrdup(name);
    plan->prefix = xstrdup(name);
    source_set(plan, server);
    plan->args = or_empty(json_object_get(server, "args"), json_array());
    plan->env = or_empty(json_object_get(server, "envs"), json_object());
    return 0;
}

/* The Python SDK's types spell these fields with an underscore, and are sent as they are. */
static const char *either(const json_t *server, const char *a, const char *b)
{
    return json_object_get(server, a) || !json_object_get(server, b) ? a : b;
}

static int github_plan(struct plan *plan, const char *name, json_t *server, struct err *err)
{
    static const char *const known[] = {"runCmd",      "run_cmd", "installCmd",
                                        "install_cmd", "envs",    NULL};
    const char *run = either(server, "runCmd", "run_cmd");
    const char *install = either(server, "installCmd", "install_cmd");

    if (!is_repository(str_of(name))) {
        return err_set(err, EINVAL, "%.100s is no repository: github/<owner>/<name>", name);
    }
    int r = fields_check(server, name, known, "runCmd installCmd envs", err);
    r = r == 0 ? string_check(server, name, run, true, err) : r;
    r = r == 0 ? string_check(server, name, install, false, err) : r;
    r = r == 0 ? envs_check(json_object_get(server, "envs"), name, err) : r;
    if (r < 0) {
        return r;
    }
    if (asprintf(&plan->source, "https://github.com/%s.git", name + strlen(GITHUB)) < 0) {
        abort();
    }
    plan->kind = PLAN_GITHUB;
    plan->name = xstrdup(name);
    plan->prefix = xstrdup(name);
    plan->program = xstrdup(json_string_of(server, run));
    plan->install = xstrdup(json_string_of(server, install));
    plan->args = json_array();
    plan->env = or_empty(json_object_get(server, "envs"), json_object());
    return 0;
}

/* ---- all of them ---- */

static int plan_read(struct plan *plan, const char *name, json_t *server,
                     const struct catalogue *catalogue, struct err *err)
{
    const json_t *entry = catalogue_find(catalogue, name);

    if (strlen(name) > PLAN_NAME_LEN_MAX) {
        return err_set(err, EINVAL, "the name %.40s... is longer than %d bytes", name,
                       PLAN_NAME_LEN_MAX);
    }
    if (!json_is_object(server)) {
        return err_set(err, EINVAL, "%s must be an object", name);
    }
    if (str_starts(str_of(name), STR(GITHUB))) {
        return github_plan(plan, name, server, err);
    }
    if (!is_word(str_of(name))) {
        return err_set(err, EINVAL, "%s is no name of a server: letters, digits, and _ . - alone",
                       name);
    }
    if (!entry) {
        return own_plan(plan, name, server, err);
    }
    int r = catalogue_check(entry, name, server, err);
    return r == 0 ? known_plan(plan, name, entry, server, err) : r;
}

static int object_read(struct str text, json_t **out, struct err *err)
{
    json_error_t where;
    json_t *config = json_loadb(text.at, text.len, JSON_REJECT_DUPLICATES, &where);

    if (!config) {
        return err_set(err, EINVAL, "the configuration is no JSON: %s at line %d, column %d",
                       where.text, where.line, where.column);
    }
    if (!json_is_object(config) || json_object_size(config) == 0 ||
        json_object_size(config) > PLANS_MAX) {
        json_decref(config);
        return err_set(err, EINVAL, "the configuration must be an object of 1 to %d servers",
                       PLANS_MAX);
    }
    *out = config;
    return 0;
}

static void plans_move(struct plans *from, struct plans *to)
{
    *to = *from;
    from->n = 0;
}

int plans_read(struct str text, const struct catalogue *catalogue, struct plans *out,
               struct err *err)
{
    json_auto_t *config = NULL;
    scoped_plans plans = {.n = 0};
    int r = object_read(text, &config, err);

    for (void *at = json_object_iter(config); at && r == 0;
         at = json_object_iter_next(config, at)) {
        r = plan_read(&plans.all[plans.n++], json_object_iter_key(at), json_object_iter_value(at),
                      catalogue, err);
    }
    if (r < 0) {
        return r;
    }
    plans_move(&plans, out);
    return 0;
}

int plans_pull(char *const *names, size_t n, const struct catalogue *catalogue, struct plans *out,
               struct err *err)
{
    scoped_plans plans = {.n = 0};

    if (n > PLANS_MAX) {
        return err_set(err, E2BIG, "at most %d servers can be pulled at once", PLANS_MAX);
    }
    for (size_t i = 0; i < n; i++) {
        const json_t *entry = catalogue_find(catalogue, names[i]);
        if (!entry) {
            return err_set(err, ENOENT, "unknown MCP server %.100s: it is not in the catalogue",
                           names[i]);
        }
        int r = known_plan(&plans.all[plans.n++], names[i], entry, NULL, err);
        if (r < 0) {
            return r;
        }
    }
    plans_move(&plans, out);
    return 0;
}

static void plan_fini(struct plan *plan)
{
    free(plan->name);
    free(plan->prefix);
    free(plan->source);
    free(plan->with);
    free(plan->program);
    free(plan->install);
    json_decref(plan->args);
    json_decref(plan->env);
    *plan = (struct plan){.name = NULL};
}

void plans_fini(struct plans *plans)
{
    for (size_t i = 0; i < plans->n; i++) {
        plan_fini(&plans->all[i]);
    }
    plans->n = 0;
}
