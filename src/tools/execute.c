#include "tools/execute.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/json.h"
#include "tools/artifact_path.h"
#include "tools/create.h"
#include "tools/execute_kernel.h"
#include "tools/internal.h"

enum {
    SCRIPT_BYTES_MAX = 32 * 1024,
    PACKAGE_BYTES_MAX = 256,
    PATH_BYTES_MAX = 1024,
    COMMAND_BYTES_MAX = 2048,
    MAIN_BYTES = 32,
    LIFE_SPARE_MS = 120 * 1000, /* beyond what the steps may take */
};

#define INTERPRETER "code-interpreter-v1"

/* Node.js finds out whether it is an ES module; its warning about that is of no use. */
#define JAVASCRIPT_COMMAND "node --disable-warning=MODULE_TYPELESS_PACKAGE_JSON"

/* A module whose imports are calls of require(), in an async function: so its top level may await.
 * Its imports pass through sucrase too. */
#define TYPESCRIPT_COMMAND                                                                         \
    "node -r " EXECUTE_TYPESCRIPT "/node_modules/sucrase/register -e '"                            \
    "const Module = require(\"module\"), fs = require(\"fs\"), path = require(\"path\")\n"         \
    "const { transform } = require(\"" EXECUTE_TYPESCRIPT "/node_modules/sucrase\")\n"             \
    "const file = process.argv[1] = path.resolve(process.argv[1])\n"                               \
    "const main = process.mainModule = new Module(file)\n"                                         \
    "main.filename = file\n"                                                                       \
    "main.paths = Module._nodeModulePaths(path.dirname(file))\n"                                   \
    "const { code } = transform(fs.readFileSync(file, \"utf8\"),"                                  \
    " { transforms: [\"typescript\", \"imports\"], filePath: file })\n"                            \
    "main._compile(`(async () => {${code}\n})()`, file)'"

/* ---- languages ---- */

static const struct {
    const char *name, *suffix, *command, *installer, *install;
} languages[LANGUAGES] = {
    [LANGUAGE_PYTHON] = {"python", ".py", "python3", "pip",
                         "pip install --no-input --disable-pip-version-check --quiet"
                         " --root-user-action=ignore"},
    [LANGUAGE_JAVASCRIPT] = {"javascript", ".js", JAVASCRIPT_COMMAND, "npm",
                             "npm install --no-fund --no-audit --loglevel=error"},
    [LANGUAGE_TYPESCRIPT] = {"typescript", ".ts", TYPESCRIPT_COMMAND, "npm",
                             "npm install --no-fund --no-audit --loglevel=error"},
    [LANGUAGE_BASH] = {"bash", ".sh", "bash", "apt",
                       "sudo apt-get update -qq && sudo DEBIAN_FRONTEND=noninteractive apt-get"
                       " install -y -qq --no-install-recommends"},
};

int language_find(const char *name, enum language *out)
{
    for (size_t i = 0; i < LANGUAGES; i++) {
        if (strcmp(languages[i].name, name) == 0) {
            *out = (enum language)i;
            return 0;
        }
    }
    *out = LANGUAGE_JAVASCRIPT;
    return strcmp(name, "node") == 0 ? 0 : -EINVAL;
}

const char *language_name(enum language language)
{
    return languages[language].name;
}

const char *language_command(enum language language)
{
    return languages[language].command;
}

const char *language_suffix(enum language language)
{
    return languages[language].suffix;
}

/* ---- the sandbox ---- */

int64_t execute_ms_max(const struct tool_call *call)
{
    return tools_options(call_tools(call))->code_s_max * 1000;
}

int execute_remote(struct tool_call *call, const char *template_name, const json_t *envs,
                   const json_t *shells, int64_t life_ms, bool offline, struct remote_sandbox *out,
                   struct err *err)
{
    int64_t most_s = tools_options(call_tools(call))->sandbox_s_max;
    int64_t life_s = (life_ms + LIFE_SPARE_MS) / 1000;
    scoped_json *input =
        json_pack("{sI}", "timeout_seconds", (json_int_t)(life_s < most_s ? life_s : most_s));

    if (envs) {
        (void)json_object_set(input, "envs", json_unconst(envs));
    }
    if (shells) {
        (void)json_object_set(input, "shells", json_unconst(shells));
    }
    if (offline) {
        (void)json_object_set_new(input, "allow_internet", json_false());
    }
    return create_remote(call, input, template_name, out, err);
}

/* The interpreter's template may be missing, or not ready yet. */
static int open_box(struct tool_call *call, const struct execute_plan *plan,
                    struct remote_sandbox *sandbox, bool *interpreted, struct err *err)
{
    int64_t life_ms = plan->timeout_ms + (int64_t)EXECUTE_INSTALL_S_MAX * 1000;
    bool offline = plan->offline && json_array_size(plan->packages) == 0;
    int r = -ENOENT;

    if (plan->language != LANGUAGE_BASH) {
        r = execute_remote(call, INTERPRETER, plan->envs, plan->shells, life_ms, offline, sandbox,
                           err);
        *interpreted = r == 0;
    }
    if (r == -ENOENT || r == -EAGAIN) {
        r = execute_remote(call, "base", plan->envs, plan->shells, life_ms, offline, sandbox, err);
    }
    return r;
}

/* ---- files ---- */

#define HOME "/home/user/"

/* The path of code that runs as a file. */
static void main_path(enum language language, char out[MAIN_BYTES])
{
    (void)snprintf(out, MAIN_BYTES, HOME "main%s", language_suffix(language));
}

static int file_check(const char *path, enum language language, struct err *err)
{
    char code[MAIN_BYTES];
    struct str below = str_of(path);

    if (!path[0] || below.len > PATH_BYTES_MAX) {
        return err_set(err, EINVAL, "files: a path must have 1 to %d bytes", PATH_BYTES_MAX);
    }
    if (str_starts(below, STR(HOME))) {
        below = str_skip(below, sizeof(HOME) - 1);
    }
    const char *why = path_wrong(below);
    if (why) {
        return err_set(err, EINVAL, "files: \"%.80s\" %s, which is /home/user here", path, why);
    }
    main_path(language, code);
    return str_eq(below, str_skip(str_of(code), sizeof(HOME) - 1))
               ? err_set(err, EINVAL,
                         "files: \"%.80s\" is where the code is placed: give it"
                         " another name",
                         path)
               : 0;
}

static int files_check(const json_t *files, enum language language, struct err *err)
{
    if (json_object_size(files) > EXECUTE_FILES_MAX) {
        return err_set(err, EINVAL, "files: at most %d may be given", EXECUTE_FILES_MAX);
    }
    json_each (files, it) {
        int r = file_check(json_object_iter_key(it), language, err);

        if (r < 0) {
            return r;
        }
    }
    return 0;
}

static int write_files(struct tool_call *call, const struct remote_sandbox *sandbox,
                       const json_t *files, struct err *err)
{
    json_each (files, it) {
        const json_t *content = json_object_iter_value(it);
        struct str data = {json_string_value(content), json_string_length(content)};
        int r = remote_write(call, sandbox, json_object_iter_key(it), data, err);

        if (r < 0) {
            return r;
        }
    }
    return 0;
}

/* ---- packages ---- */

/* Only characters of a package, a version or an extra; none that a shell or an installer reads
 * otherwise. */
static bool is_package(const char *name)
{
    static const char known[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "@._/[]=<>~!,+:^-";

    return name && name[0] && name[0] != '-' && strlen(name) <= PACKAGE_BYTES_MAX &&
           strspn(name, known) == strlen(name);
}

static int packages_check(const json_t *packages, struct err *err)
{
    if (json_array_size(packages) > EXECUTE_PACKAGES_MAX) {
        return err_set(err, EINVAL, "packages: at most %d may be given", EXECUTE_PACKAGES_MAX);
    }
    for (size_t i = 0; i < json_array_size(packages); i++) {
        const char *name = json_string_value(json_array_get(packages, i));

        if (!is_package(name)) {
            return err_set(err, EINVAL, "packages[%zu]: \"%.80s\" cannot be the name of a package",
                           i, name ? name : "");
        }
    }
    return 0;
}

static void log_take(struct execute_result *out, struct remote_result *log)
{
    struct buf *said = buf_len(&log->err) > 0 ? &log->err : &log->out;

    buf_fini(&out->err);
    out->err = *said;
    *said = (struct buf){0};
}

/* Those that the installer's log speaks of; log NULL: all. */
static void packages_named(const json_t *packages, const struct buf *log, struct buf *out)
{
    for (size_t i = 0; i < json_array_size(packages); i++) {
        const char *name = json_string_value(json_array_get(packages, i));
        size_t n = strcspn(name, "=<>~![");

        if (!log || memmem(buf_at(log), buf_len(log), name, n)) {
            (void)!buf_printf(out, "%s%s", buf_len(out) ? ", " : "", name);
        }
    }
}

static void failure_set(struct execute_result *out, const char *name, const char *fmt, ...)
    printf_like(3, 4);

static void failure_set(struct execute_result *out, const char *name, const char *fmt, ...)
{
    char text[sizeof(((struct err *)0)->msg)];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    json_decref(out->error);
    out->error = json_pack("{ss ss ss}", "name", name, "value", text, "traceback", "");
}

static void install_failed(const struct execute_plan *plan, struct remote_result *log,
                           struct execute_result *out)
{
    scoped_buf(names, SCRIPT_BYTES_MAX);

    out->exit_code = log->timed_out ? EXECUTE_STATUS_LATE : log->exit_code;
    out->truncated = log->out_cut || log->err_cut;
    log_take(out, log);
    packages_named(plan->packages, &out->err, &names);
    if (buf_len(&names) == 0) {
        packages_named(plan->packages, NULL, &names);
    }
    failure_set(out, "PackageError", "%s could not install %.*s%s; stderr has the end of its log",
                languages[plan->language].installer, PACKAGE_BYTES_MAX, buf_at(&names),
                log->timed_out ? ": it took too long" : "");
}

/* 1 when it is done; 0 when it cannot be, and *out says why, with the end of the log. */
static int install(struct tool_call *call, const struct remote_sandbox *sandbox,
                   const struct execute_plan *plan, struct execute_result *out, struct err *err)
{
    scoped_remote_result log = {0};
    scoped_buf(script, SCRIPT_BYTES_MAX);

    int r = buf_printf(&script, "%s", languages[plan->language].install);
    for (size_t i = 0; r == 0 && i < json_array_size(plan->packages); i++) {
        r = buf_printf(&script, " '%s'", json_string_value(json_array_get(plan->packages, i)));
    }
    if (r < 0 || buf_append(&script, "", 1) < 0) {
        return err_set(err, EINVAL, "packages: their names are too long together");
    }
    call_progress(call, 1, 3, "installing packages with %s", languages[plan->language].installer);
    const struct remote_command command = {.script = buf_at(&script),
                                           .timeout_ms = (int64_t)EXECUTE_INSTALL_S_MAX * 1000};
    r = remote_run(call, sandbox, &command, &log, err);
    if (r < 0 || (log.exit_code == 0 && !log.timed_out)) {
        return r < 0 ? r : 1;
    }
    install_failed(plan, &log, out);
    return 0;
}

/* The interpreter's template has it already, for its kernel. */
#define TYPESCRIPT_INSTALL                                                                         \
    "[ -d /usr/lib/atoll/node_modules/sucrase ] && ln -sfn /usr/lib/atoll " EXECUTE_TYPESCRIPT     \
    " || npm install --prefix " EXECUTE_TYPESCRIPT                                                 \
    " --no-fund --no-audit --loglevel=error sucrase"

int execute_prepare(struct tool_call *call, const struct remote_sandbox *sandbox,
                    enum language language, struct remote_result *log, struct err *err)
{
    const struct remote_command command = {.script = TYPESCRIPT_INSTALL,
                                           .timeout_ms = (int64_t)EXECUTE_INSTALL_S_MAX * 1000};

    if (language != LANGUAGE_TYPESCRIPT) {
        return 0;
    }
    int r = remote_run(call, sandbox, &command, log, err);
    return r == 0 && log->exit_code != 0
               ? err_set(err, EIO, "TypeScript cannot be run here: npm could not install sucrase")
               : r;
}

/* ---- running ---- */

static int run_file(struct tool_call *call, const struct remote_sandbox *sandbox,
                    const struct execute_plan *plan, struct execute_result *out, struct err *err)
{
    char path[MAIN_BYTES], script[COMMAND_BYTES_MAX];
    scoped_remote_result result = {0}, log = {0};

    main_path(plan->language, path);
    (void)snprintf(script, sizeof(script), "exec %s %s", language_command(plan->language), path);
    int r = execute_prepare(call, sandbox, plan->language, &log, err);
    r = r < 0 ? r : remote_write(call, sandbox, path, plan->code, err);
    if (r < 0) {
        return r;
    }
    const struct remote_command command = {.script = script, .timeout_ms = plan->timeout_ms};
    r = remote_run(call, sandbox, &command, &result, err);
    if (r == 0) {
        out->out = result.out;
        out->err = result.err;
        result.out = result.err = (struct buf){0};
        out->exit_code = result.exit_code;
        out->timed_out = result.timed_out;
        out->truncated = result.out_cut || result.err_cut;
    }
    return r;
}

/* A program waits for its event loop and has an exit status: a JavaScript kernel has neither. A
 * Python kernel has the status, and charts. */
static bool is_for_kernel(const struct execute_plan *plan, bool interpreted)
{
    return interpreted && !plan->as_file &&
           (plan->language == LANGUAGE_PYTHON || !plan->as_program);
}

static int run_code(struct tool_call *call, const struct remote_sandbox *sandbox,
                    const struct execute_plan *plan, struct execute_result *out, struct err *err)
{
    int64_t begun_ms = clock_mono_ms();
    call_progress(call, 2, 3, "running the code");
    int r = is_for_kernel(plan, out->interpreted) ? kernel_run(call, sandbox, plan, out, err)
                                                  : run_file(call, sandbox, plan, out, err);

    out->duration_ms = clock_mono_ms() - begun_ms;
    if (r == 0 && out->timed_out) {
        out->exit_code = EXECUTE_STATUS_LATE;
        failure_set(out, "TimeoutError", "the code ran longer than %lld seconds and was stopped",
                    (long long)plan->timeout_ms / 1000);
    }
    return r;
}

/* Open connections are reset: nothing that an installer left behind goes on. */
static int internet_cut(struct tool_call *call, const struct remote_sandbox *sandbox,
                        struct err *err)
{
    scoped_json *body = json_pack("{sb}", "allow_internet_access", 0);

    return remote_api(call, "PUT", sandbox->id, "/network", body, NULL, err);
}

static int execute_in(struct tool_call *call, const struct remote_sandbox *sandbox,
                      const struct execute_plan *plan, struct execute_result *out, struct err *err)
{
    int r = write_files(call, sandbox, plan->files, err);

    if (r == 0 && json_array_size(plan->packages) > 0) {
        r = install(call, sandbox, plan, out, err);
        if (r <= 0) {
            return r;
        }
        r = plan->offline ? internet_cut(call, sandbox, err) : 0;
    }
    return r < 0 ? r : run_code(call, sandbox, plan, out, err);
}

int execute(struct tool_call *call, const struct execute_plan *plan, struct execute_result *out,
            struct err *err)
{
    struct remote_sandbox sandbox;

    *out = (struct execute_result){.results = json_array()};
    buf_init(&out->out, REMOTE_OUTPUT_BYTES_MAX);
    buf_init(&out->err, REMOTE_OUTPUT_BYTES_MAX);
    int r = packages_check(plan->packages, err);
    r = r < 0 ? r : files_check(plan->files, plan->language, err);
    call_progress(call, 0, 3, "starting a sandbox");
    r = r < 0 ? r : open_box(call, plan, &sandbox, &out->interpreted, err);
    if (r < 0) {
        return r;
    }
    r = execute_in(call, &sandbox, plan, out, err);
    remote_kill(call, &sandbox);
    return r;
}

json_t *execute_text(const struct buf *output)
{
    json_t *text = json_stringn(buf_len(output) ? buf_at(output) : "", buf_len(output));

    return text ? text : json_string("(not UTF-8)");
}

void execute_result_fini(struct execute_result *result)
{
    buf_fini(&result->out);
    buf_fini(&result->err);
    json_decref(result->results);
    json_decref(result->error);
}
