#include "inside/gateway/install.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/alloc.h"
#include "lib/base/buf.h"
#include "lib/base/fd.h"
#include "lib/base/log.h"
#include "lib/base/small_file.h"

enum {
    SOURCE_BYTES_MAX = 4096,
    OUR_VARIABLES = 3, /* HOME, USER, LOGNAME */
    OUR_WORDS = 4,     /* of a command: sh, -c, the program, NULL */
};

extern char **environ;

void account_find(const char *name, struct account *out)
{
    const struct passwd *entry = getuid() == 0 ? getpwnam(name) : NULL;

    *out = (struct account){.is_other = entry != NULL};
    if (!entry) {
        entry = getpwuid(getuid());
    }
    (void)snprintf(out->name, sizeof(out->name), "%s", entry ? entry->pw_name : "root");
    (void)snprintf(out->home, sizeof(out->home), "%s", entry ? entry->pw_dir : "/");
    out->user = (struct child_user){.uid = entry ? entry->pw_uid : getuid(),
                                    .gid = entry ? entry->pw_gid : getgid()};
}

/* ---- commands ---- */

static char *format(const char *fmt, ...) printf_like(1, 2);
static char *format(const char *fmt, ...)
{
    char *out = NULL;
    va_list ap;

    va_start(ap, fmt);
    int n = vasprintf(&out, fmt, ap);
    va_end(ap);
    if (n < 0) {
        abort();
    }
    return out;
}

/* A name for what is installed: the package with its version and what is beside it. Servers that
 * take the same share it. */
static char *key_of(const struct plan *plan)
{
    static const char kept[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.@-";
    char *key = plan->with ? format("%s_%s", plan->source, plan->with) : xstrdup(plan->source);

    for (char *at = key; *at; at++) {
        if (!strchr(kept, *at) || (at == key && *at == '.')) {
            *at = '_';
        }
    }
    return key;
}

static char *directory_of(const struct place *place, const struct plan *plan)
{
    bool packaged = plan->kind == PLAN_NPM || plan->kind == PLAN_PYPI;
    scoped_text key = packaged ? key_of(plan) : xstrdup(plan->name);

    return format("%s/%s/%s", place->root, plan_kind_name(plan->kind), key);
}

/* Whether a variable "NAME=..." of ours gives way: to the account's, to the plan's, or because it
 * is a secret of the gateway. */
static bool is_hidden(const char *var, const struct plan *plan)
{
    static const char *const ours[] = {"HOME", "USER", "LOGNAME", "GATEWAY_ACCESS_TOKEN"};
    char name[256];
    struct str whole = str_of(var);

    whole.len = str_find(whole, '=');
    for (size_t i = 0; i < countof(ours); i++) {
        if (str_eq(whole, str_of(ours[i]))) {
            return true;
        }
    }
    return str_copy(name, sizeof(name), whole) && json_object_get(plan->env, name);
}

static char **env_make(const struct place *place, const struct plan *plan)
{
    size_t n = 0, max = json_object_size(plan->env) + OUR_VARIABLES + 1;

    for (char **at = environ; *at; at++) {
        max++;
    }
    char **env = xcalloc(max, sizeof(char *));
    for (char **at = environ; *at; at++) {
        if (!is_hidden(*at, plan)) {
            env[n++] = xstrdup(*at);
        }
    }
    env[n++] = format("HOME=%s", place->account.home);
    env[n++] = format("USER=%s", place->account.name);
    env[n++] = format("LOGNAME=%s", place->account.name);
    for (void *at = json_object_iter(plan->env); at; at = json_object_iter_next(plan->env, at)) {
        env[n++] = format("%s=%s", json_object_iter_key(at),
                          json_string_value(json_object_iter_value(at)));
    }
    return env;
}

static void texts_free(char **texts)
{
    for (char **at = texts; at && *at; at++) {
        free(*at);
    }
    free(texts);
}

void command_fini(struct command *command)
{
    texts_free(command->argv);
    texts_free(command->env);
    free(command->cwd);
    *command = (struct command){NULL, NULL, NULL};
}

/* The name of the one program that an npm package has, by npm's own rule for running a package:
 * its only one, or the one that is called as the package is. */
static const char *npm_program(json_t *bin, const char *package)
{
    const char *slash = strrchr(package, '/');
    const char *last = slash ? slash + 1 : package;

    if (json_is_string(bin) || json_object_get(bin, last)) {
        return last;
    }
    return json_object_size(bin) == 1 ? json_object_iter_key(json_object_iter(bin)) : NULL;
}

static int npm_find(const char *directory, const struct plan *plan, char **out, struct err *err)
{
    char package[SOURCE_BYTES_MAX];

    if (plan->program) {
        *out = format("%s/node_modules/.bin/%s", directory, plan->program);
        return 0;
    }
    if (!str_copy(package, sizeof(package), plan_package(plan))) {
        return err_set(err, EINVAL, "%s.npm is no name of a package", plan->name);
    }
    scoped_text path = format("%s/node_modules/%s/package.json", directory, package);
    json_auto_t *described = json_load_file(path, 0, NULL);
    json_auto_t *bin = json_incref(json_object_get(described, "bin"));
    const char *program = npm_program(bin, package);
    if (!program) {
        return err_set(err, ENOENT,
                       "%s: the package %s has no program to run, or several: name "
                       "it with \"run\"",
                       plan->name, package);
    }
    *out = format("%s/node_modules/.bin/%s", directory, program);
    return 0;
}

static int program_find(const struct place *place, const struct plan *plan, char **out,
                        struct err *err)
{
    scoped_text directory = directory_of(place, plan);
    struct str package;

    switch (plan->kind) {
    case PLAN_NPM:
        return npm_find(directory, plan, out, err);
    case PLAN_PYPI:
        package = plan->program ? str_of(plan->program) : plan_package(plan);
        *out = format("%s/venv/bin/%.*s", directory, (int)package.len, package.at);
        return 0;
    case PLAN_COMMAND:
    case PLAN_GITHUB:
        *out = xstrdup(plan->program);
        return 0;
    }
    abort();
}

int command_make(const struct place *place, const struct plan *plan, struct command *out,
                 struct err *err)
{
    scoped_text program = NULL;
    const json_t *arg;
    size_t i, n = 0;
    int r = program_find(place, plan, &program, err);

    if (r < 0) {
        return r;
    }
    out->argv = xcalloc(json_array_size(plan->args) + OUR_WORDS, sizeof(char *));
    out->env = env_make(place, plan);
    if (plan->kind == PLAN_GITHUB) {
        scoped_text directory = directory_of(place, plan);
        out->cwd = format("%s/repo", directory);
        out->argv[n++] = xstrdup("/bin/sh");
        out->argv[n++] = xstrdup("-c");
    } else {
        out->cwd = xstrdup(place->account.home);
    }
    out->argv[n++] = move_ptr(&program);
    json_array_foreach (plan->args, i, arg) {
        out->argv[n++] = xstrdup(json_string_value(arg));
    }
    return 0;
}

/* ---- installing ---- */

/* uv installs in a second or two what pip takes half a minute for; a template may be without it.
 *
 * $1: the server's directory, $2: its source, $3: what to run in the repository, $4: what is
 * installed beside it, or "". */
static const char *const scripts[] = {
    [PLAN_NPM] = "npm install --prefix \"$1\" --no-audit --no-fund --no-update-notifier "
                 "--loglevel=error -- \"$2\" ${4:+\"$4\"}",
    [PLAN_PYPI] =
        "if command -v uv >/dev/null; then\n"
        "  export UV_NATIVE_TLS=1 UV_PYTHON_DOWNLOADS=never UV_NO_PROGRESS=1\n"
        "  [ -z \"$PIP_INDEX_URL\" ] || export UV_DEFAULT_INDEX=\"$PIP_INDEX_URL\"\n"
        "  uv venv --quiet --python python3 \"$1/venv\"\n"
        "  uv pip install --quiet --python \"$1/venv/bin/python\" -- \"$2\" ${4:+\"$4\"}\n"
        "else\n"
        "  python3 -m venv --without-pip \"$1/venv\"\n"
        "  python3 -m pip --python \"$1/venv/bin/python\" --quiet "
        "--disable-pip-version-check install -- \"$2\" ${4:+\"$4\"}\n"
        "fi",
    [PLAN_GITHUB] = "git clone --quiet --depth 1 -- \"$2\" \"$1/repo\"\n"
                    "cd \"$1/repo\"\n"
                    "sh -c \"$3\"",
};

/* Installs one at a time: two servers may need the same package, and the second then finds it
 * installed. */
static const char begin[] = "set -e\n"
                            "exec 9>\"$1.lock\"\n"
                            "flock 9\n"
                            "mark() { printf '%s\\n' \"$source\" \"$run\" \"$beside\"; }\n"
                            "source=$2 run=$3 beside=$4\n"
                            "if mark | cmp -s - \"$1/.installed\"; then exit 0; fi\n"
                            "rm -rf \"$1\"\n"
                            "mkdir -p \"$1\"";

struct install {
    struct child *child;
    const struct install_handler *handler;
    void *ctx;
    const struct plan *plan;
};

static const char *install_command(const struct plan *plan)
{
    return plan->install ? plan->install : ":";
}

static const char *beside(const struct plan *plan)
{
    return plan->with ? plan->with : "";
}

static bool is_installed(const char *directory, const struct plan *plan)
{
    char text[SOURCE_BYTES_MAX];
    scoped_text path = format("%s/.installed", directory);
    scoped_text mark = format("%s\n%s\n%s\n", plan->source, install_command(plan), beside(plan));
    ssize_t n = small_file_read(AT_FDCWD, path, text, sizeof(text));

    return n >= 0 && str_eq((struct str){text, (size_t)n}, str_of(mark));
}

/* The directory's parents are made by us, the rest by the account. */
static int parents_make(const struct place *place, const char *directory, struct err *err)
{
    char path[SOURCE_BYTES_MAX];

    for (const char *at = strchr(directory + 1, '/'); at; at = strchr(at + 1, '/')) {
        (void)snprintf(path, sizeof(path), "%.*s", (int)(at - directory), directory);
        bool made = mkdir(path, 0755) == 0;
        if (!made && errno != EEXIST) {
            return err_sys(err, "make the directory %s", path);
        }
        if (made && place->account.is_other && strlen(path) >= strlen(place->root) &&
            chown(path, place->account.user.uid, place->account.user.gid) < 0) {
            return err_sys(err, "hand the directory %s to %s", path, place->account.name);
        }
    }
    return 0;
}

static void on_output(void *ctx, bool is_error, struct str bytes)
{
    (void)ctx, (void)is_error, (void)bytes; /* its end is kept by the child */
}

static void on_exited(void *ctx, int64_t status, int signal)
{
    struct install *install = ctx;
    struct child *child = move_ptr(&install->child);
    struct err err = {.code = 0};

    if (status || signal) {
        (void)err_set(&err, EIO, "could not be installed from %s", install->plan->source);
    }
    install->handler->done(install->ctx, &err, child_tail(child));
    child_free(child);
}

static const struct child_handler child_handler = {.on_output = on_output, .on_exit = on_exited};

static int child_run(struct install *install, const struct place *place, const char *directory,
                     struct err *err)
{
    const struct plan *plan = install->plan;
    char **env = env_make(place, plan);
    scoped_text script = format("%s\n%s\nmark >\"$1/.installed\"", begin, scripts[plan->kind]);
    const char *const argv[] = {
        "/bin/sh",    "-c", script, "sh", directory, plan->source, install_command(plan),
        beside(plan), NULL};
    struct child_options options = {
        .loop = place->loop,
        .argv = (char **)(uintptr_t)argv,
        .env = env,
        .cwd = place->account.home,
        .input = -1,
        .inherited = {-1, -1},
        .user = place->account.is_other ? &place->account.user : NULL,
        .handler = &child_handler,
        .ctx = install,
    };
    int r = child_start(&options, &install->child, err);
    texts_free(env);
    return r;
}

int install_start(const struct place *place, const struct plan *plan,
                  const struct install_handler *handler, void *ctx, struct install **out,
                  struct err *err)
{
    scoped_text directory = directory_of(place, plan);

    *out = NULL;
    if (plan->kind == PLAN_COMMAND || is_installed(directory, plan)) {
        return 0;
    }
    int r = parents_make(place, directory, err);
    if (r < 0) {
        return r;
    }
    struct install *install = xnew(struct install);
    *install = (struct install){.handler = handler, .ctx = ctx, .plan = plan};
    r = child_run(install, place, directory, err);
    if (r < 0) {
        free(install);
        return r;
    }
    log_info("%s: installing %s", plan->name, plan->source);
    *out = install;
    return 0;
}

void install_free(struct install *install)
{
    if (install) {
        child_free(install->child);
        free(install);
    }
}
