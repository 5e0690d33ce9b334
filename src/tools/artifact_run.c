/* run_code_artifact: an artifact in a fresh sandbox.
 *
 * The folder has the artifact at its path, those that lie in one folder with it, and its input as
 * input.json; the input is on stdin too.
 * With an entry point that function is called with the input, and what it returns is the result.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/alloc.h"
#include "lib/base/json.h"
#include "tools/artifacts.h"
#include "tools/catalogue/handlers.h"
#include "tools/internal.h"

enum {
    INPUT_BYTES_MAX = 1024 * 1024,
    RESULT_BYTES_MAX = 1024 * 1024,
    SCRIPT_BYTES = 4096,
    ERROR_BYTES = 512
};

#define FOLDER ARTIFACT_FOLDER
#define RESULT FOLDER "/.result.json"
#define NO_FUNCTION "there is no function %s in %s"

/* $1 is the artifact, $2 the entry point, $3 what is said when there is no such function. */
static const char *const callers[LANGUAGES] = {
    [LANGUAGE_PYTHON] =
        "exec python3 -c 'import json, os, runpy, sys\n"
        "sys.path[:0] = [os.path.dirname(sys.argv[1]) or \".\", \".\"]\n"
        "made = runpy.run_path(sys.argv[1], run_name=\"artifact\").get(sys.argv[2])\n"
        "if not callable(made): sys.exit(sys.argv[3])\n"
        "json.dump(made(json.load(open(\"input.json\"))), open(\".result.json\", \"w\"))' \"$@\"",
    [LANGUAGE_JAVASCRIPT] =
        "exec node --input-type=module -e 'import fs from \"node:fs\"\n"
        "const [path, name, none] = process.argv.slice(1)\n"
        "const made = await import(process.cwd() + \"/\" + path)\n"
        "const call = made[name] ?? made.default?.[name]\n"
        "if (typeof call !== \"function\") { console.error(none); process.exit(1) }\n"
        "const out = await call(JSON.parse(fs.readFileSync(\"input.json\", \"utf8\")))\n"
        "fs.writeFileSync(\".result.json\", JSON.stringify(out ?? null))' \"$@\"",
    [LANGUAGE_TYPESCRIPT] =
        "exec node -r " EXECUTE_TYPESCRIPT "/node_modules/sucrase/register -e '(async () => {\n"
        "const fs = require(\"node:fs\"), [path, name, none] = process.argv.slice(1)\n"
        "const call = require(process.cwd() + \"/\" + path)[name]\n"
        "if (typeof call !== \"function\") { console.error(none); process.exit(1) }\n"
        "const out = await call(JSON.parse(fs.readFileSync(\"input.json\", \"utf8\")))\n"
        "fs.writeFileSync(\".result.json\", JSON.stringify(out ?? null))\n"
        "})().catch((error) => { console.error(error); process.exit(1) })' \"$@\"",
    [LANGUAGE_BASH] = "source \"$1\" || exit\n"
                      "declare -F \"$2\" >/dev/null || { echo \"$3\" >&2; exit 1; }\n"
                      "\"$2\"",
};

/* Reads the code, and runs none of it. */
static const char *const checkers[LANGUAGES] = {
    [LANGUAGE_PYTHON] = "exec python3 -c 'import ast, sys; ast.parse(open(sys.argv[1]).read(),"
                        " sys.argv[1])' \"$1\"",
    [LANGUAGE_JAVASCRIPT] = "exec node --check \"$1\"",
    [LANGUAGE_TYPESCRIPT] = "exec node -e 'require(\"" EXECUTE_TYPESCRIPT "/node_modules/sucrase\")"
                            ".transform(require(\"fs\").readFileSync(process.argv[1], \"utf8\"),"
                            " {transforms: [\"typescript\", \"imports\"]})' \"$1\"",
    [LANGUAGE_BASH] = "exec bash -n \"$1\"",
};

struct running {
    struct tool_call *call;
    const json_t *row;
    const char *path, *entrypoint;
    enum language language;
    bool dry;
    char *input; /* JSON */
    int64_t timeout_ms;
};

/* The path has letters, digits, ".", "_", "-" and "/", the entry point less: neither needs quotes.
 */
static void script_make(const struct running *run, char out[SCRIPT_BYTES])
{
    const char *what = run->dry             ? checkers[run->language]
                       : run->entrypoint[0] ? callers[run->language]
                                            : NULL;

    if (what) {
        (void)snprintf(out, SCRIPT_BYTES,
                       "cd " FOLDER " && export PYTHONPATH=/home/user && set -- %s %s '" NO_FUNCTION
                       "'\n%s",
                       run->path, run->entrypoint, run->entrypoint, run->path, what);
    } else {
        (void)snprintf(out, SCRIPT_BYTES,
                       "cd " FOLDER " && export PYTHONPATH=/home/user && exec %s %s",
                       language_command(run->language), run->path);
    }
}

static int place(const struct running *run, const struct remote_sandbox *sandbox, struct err *err)
{
    const json_t *content = json_object_get(run->row, "content");
    scoped_text path = NULL;
    size_t left = 0;
    int r = asprintf(&path, FOLDER "/%s", run->path) < 0 ? err_set(err, ENOMEM, "no memory") : 0;

    r = r < 0 ? r : artifacts_place(run->call, sandbox, run->path, &left, err);
    r = r < 0 ? r : artifact_helpers_place(run->call, sandbox, err);
    r = r < 0 ? r
              : remote_write(run->call, sandbox, path,
                             (struct str){json_string_value(content), json_string_length(content)},
                             err);
    return r < 0 ? r
                 : remote_write(run->call, sandbox, FOLDER "/input.json", str_of(run->input), err);
}

/* The value that the entry point returned; NULL: none. */
static json_t *result_read(const struct running *run, const struct remote_sandbox *sandbox)
{
    scoped_buf(text, RESULT_BYTES_MAX);
    bool cut = false;
    struct err err;

    if (remote_read(run->call, sandbox, RESULT, RESULT_BYTES_MAX, &text, &cut, &err) < 0 || cut) {
        return NULL;
    }
    return json_loadb(buf_at(&text), buf_len(&text), JSON_DECODE_ANY, NULL);
}

static json_t *text_json(const struct buf *text)
{
    return json_stringn(buf_len(text) ? buf_at(text) : "", buf_len(text));
}

static void answer_error(const struct running *run, const struct remote_result *result,
                         json_t *answer)
{
    char none[ERROR_BYTES], text[ERROR_BYTES];

    (void)snprintf(none, sizeof(none), NO_FUNCTION "\n", run->entrypoint, run->path);
    if (result->timed_out) {
        (void)snprintf(text, sizeof(text), "the artifact ran longer than %lld ms and was stopped",
                       (long long)run->timeout_ms);
    } else if (str_ends(buf_str(&result->err), str_of(none))) {
        (void)snprintf(text, sizeof(text), NO_FUNCTION, run->entrypoint, run->path);
    } else if (result->exit_code != 0) {
        (void)snprintf(text, sizeof(text), "%s with status %d: stderr says why",
                       run->dry ? "the check ended" : "the artifact ended", result->exit_code);
    }
    bool failed = result->timed_out || result->exit_code != 0;
    (void)json_object_set_new(answer, "error", failed ? json_string(text) : json_null());
    (void)json_object_set_new(answer, "success", json_boolean(!failed));
}

static int run_in(const struct running *run, const struct remote_sandbox *sandbox, json_t *answer,
                  struct err *err)
{
    char script[SCRIPT_BYTES];
    scoped_remote_result result = {0}, log = {0};
    int r = place(run, sandbox, err);

    r = r < 0 ? r : execute_prepare(run->call, sandbox, run->language, &log, err);
    script_make(run, script);
    const struct remote_command command = {.script = script,
                                           .input = run->dry ? STR("") : str_of(run->input),
                                           .timeout_ms = run->timeout_ms};
    r = r < 0 ? r : remote_run(run->call, sandbox, &command, &result, err);
    if (r < 0) {
        return r;
    }
    json_t *made =
        run->entrypoint[0] && !run->dry && result.exit_code == 0 ? result_read(run, sandbox) : NULL;
    if (made) {
        (void)json_object_set_new(answer, "result", made);
    }
    (void)json_object_set_new(answer, "stdout", text_json(&result.out));
    (void)json_object_set_new(answer, "stderr", text_json(&result.err));
    (void)json_object_set_new(answer, "truncated", json_boolean(result.out_cut || result.err_cut));
    (void)json_object_set_new(
        answer, "exitCode",
        json_integer(result.timed_out ? EXECUTE_STATUS_LATE : result.exit_code));
    (void)json_object_set_new(answer, "durationMs", json_integer(result.duration_ms));
    answer_error(run, &result, answer);
    return 0;
}

static int plan_make(struct running *run, const json_t *input, struct err *err)
{
    const json_t *timeout = json_object_get(input, "timeoutMs");
    const json_t *given = json_object_get(input, "input");
    const char *language = json_string_of(input, "language");
    const char *entrypoint = json_string_of(input, "entrypoint");
    int64_t most_ms = execute_ms_max(run->call);

    run->path = json_string_of(run->row, "path");
    run->dry = strcmp(json_string_of(input, "mode"), "dry_run") == 0;
    run->timeout_ms = json_integer_value(timeout);
    run->entrypoint = entrypoint ? entrypoint : json_string_of(run->row, "entrypoint");
    if (!language) {
        language = json_string_of(run->row, "language");
    }
    run->input = given ? json_dumps(given, JSON_COMPACT | JSON_ENCODE_ANY) : xstrdup("null");
    if (!run->input || strlen(run->input) > INPUT_BYTES_MAX) {
        return err_set(err, EMSGSIZE, "input: is larger than %d bytes", INPUT_BYTES_MAX);
    }
    if (run->timeout_ms > most_ms) {
        return err_set(err, EINVAL, "timeoutMs: must be at most %lld", (long long)most_ms);
    }
    int r = artifact_language(language, run->path, &run->language, err);
    return r < 0 ? r : artifact_entrypoint_check(run->entrypoint, err);
}

int tool_run_code_artifact(struct tool_call *call, const json_t *input, json_t **out,
                           struct err *err)
{
    scoped_json *row = NULL;
    struct running run = {.call = call};
    struct remote_sandbox sandbox;
    int r = artifact_find(call, json_string_of(input, "codePath"), &row, err);

    run.row = row;
    r = r < 0 ? r : plan_make(&run, input, err);
    r = r < 0 ? r
              : execute_remote(call, "base", NULL, json_object_get(input, "shells"), run.timeout_ms,
                               false, &sandbox, err);
    if (r == 0) {
        json_t *answer = artifact_json(row);
        (void)json_object_set_new(answer, "mode", json_string(run.dry ? "dry_run" : "run"));
        (void)json_object_set_new(answer, "language", json_string(language_name(run.language)));
        (void)json_object_set_new(answer, "entrypoint", json_string(run.entrypoint));
        r = run_in(&run, &sandbox, answer, err);
        remote_kill(call, &sandbox);
        if (r == 0) {
            *out = answer;
        } else {
            json_decref(answer);
        }
    }
    free(run.input);
    return r;
}
