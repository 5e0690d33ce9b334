/* run_code, and POST /api/code/execute: the same work in two shapes. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/encode.h"
#include "lib/base/json.h"
#include "lib/base/utf8.h"
#include "tools/catalogue/execute.h"
#include "tools/catalogue/handlers.h"
#include "tools/execute.h"
#include "tools/internal.h"
#include "tools/text_forms.h"

static int timeout_take(struct tool_call *call, const json_t *seconds, const char *name,
                        int64_t *out_ms, struct err *err)
{
    int64_t most_s = execute_ms_max(call) / 1000;
    int64_t wanted_s = seconds ? json_integer_value(seconds) : most_s;

    if (wanted_s > most_s) {
        return err_set(err, EINVAL, "%s: must be at most %lld", name, (long long)most_s);
    }
    *out_ms = wanted_s * 1000;
    return 0;
}

/* ---- POST /api/code/execute ---- */

/* "NameError: name 'x' is not defined", and where. */
static json_t *error_text(const json_t *error)
{
    scoped_buf(text, REMOTE_OUTPUT_BYTES_MAX);

    const char *traceback = json_string_of(error, "traceback");
    if (!error ||
        buf_printf(&text, "%s: %s", json_string_of(error, "name"), json_string_of(error, "value")) <
            0 ||
        (traceback && traceback[0] && buf_printf(&text, "\n%s", traceback) < 0)) {
        return json_null();
    }
    return execute_text(&text);
}

static json_t *answer_of(const struct execute_result *result)
{
    json_t *answer = json_object();
    bool success = result->exit_code == 0 && !result->error;

    (void)json_object_set_new(answer, "stdout", execute_text(&result->out));
    (void)json_object_set_new(answer, "stderr", execute_text(&result->err));
    (void)json_object_set_new(answer, "exitCode", json_integer(result->exit_code));
    (void)json_object_set_new(answer, "truncated", json_boolean(result->truncated));
    (void)json_object_set_new(answer, "error", error_text(result->error));
    (void)json_object_set_new(answer, "success", json_boolean(success));
    (void)json_object_set(answer, "results", result->results);
    (void)json_object_set_new(answer, "durationMs", json_integer(result->duration_ms));
    (void)json_object_set_new(answer, "template",
                              json_string(result->interpreted ? "code-interpreter-v1" : "base"));
    return answer;
}

static int input_check(const json_t *input, json_t **checked, struct err *err)
{
    scoped_json *schema = json_loads(tools_execute.input, 0, NULL);

    *checked = json_deep_copy(input);
    return input_take(schema, *checked, err);
}

/* Its input was not checked: only inputs of catalogue tools are. */
int tool_execute_code(struct tool_call *call, const json_t *input, json_t **out, struct err *err)
{
    scoped_json *checked = NULL;
    scoped_execute_result result = {0};
    struct execute_plan plan = {.as_program = true};
    int r = input_check(input, &checked, err);

    if (r == 0) {
        const json_t *code = json_object_get(checked, "code");
        plan.code = (struct str){json_string_value(code), json_string_length(code)};
        plan.packages = json_object_get(checked, "packages");
        plan.envs = json_object_get(checked, "envs");
        plan.files = json_object_get(checked, "files");
        plan.shells = json_object_get(checked, "shells");
        r = timeout_take(call, json_object_get(checked, "timeout_seconds"), "timeout_seconds",
                         &plan.timeout_ms, err);
    }
    if (r == 0 && language_find(json_string_of(checked, "language"), &plan.language) < 0) {
        r = err_set(err, EINVAL, "language: is none that is known");
    }
    r = r < 0 ? r : execute(call, &plan, &result, err);
    if (r == 0) {
        *out = answer_of(&result);
    }
    return r;
}

/* ---- run_code ---- */

static json_t *log_of(const struct buf *text)
{
    json_t *list = json_array();

    if (buf_len(text) > 0) {
        (void)json_array_append_new(list, execute_text(text));
    }
    return list;
}

/* The code as text. It may be base64, which saves workflow builders the quoting. */
static int code_take(const json_t *input, struct buf *out, struct err *err)
{
    const json_t *code = json_object_get(input, "code");
    struct str text = {json_string_value(code), json_string_length(code)};
    bool encoded = strcmp(json_string_of(input, "inputFormat"), "base64") == 0;
    int r = encoded ? base64_decode(out, text) : buf_append(out, text.at, text.len);

    if (r == -EINVAL) {
        return err_set(err, EINVAL, "code: is not base64");
    }
    if (r < 0) {
        return err_set(err, EMSGSIZE, "code: is larger than %d bytes", EXECUTE_CODE_BYTES_MAX);
    }
    return utf8_valid(buf_str(out)) ? 0 : err_set(err, EINVAL, "code: is not UTF-8");
}

int tool_run_code(struct tool_call *call, const json_t *input, json_t **out, struct err *err)
{
    scoped_execute_result result = {0};
    struct execute_plan plan = {.packages = json_object_get(input, "dependencies"),
                                .shells = json_object_get(input, "shells")};
    scoped_buf(code, EXECUTE_CODE_BYTES_MAX);

    int r = code_take(input, &code, err);
    r = r < 0 ? r
              : timeout_take(call, json_object_get(input, "timeoutSeconds"), "timeoutSeconds",
                             &plan.timeout_ms, err);
    if (r == 0) {
        plan.code = buf_str(&code);
        r = language_find(json_string_of(input, "execLanguage"), &plan.language);
    }
    r = r < 0 ? r : execute(call, &plan, &result, err);
    if (r < 0) {
        return r;
    }
    *out = json_pack("{s{so so} sb sO sO? sI ss}", "logs", "stdout", log_of(&result.out), "stderr",
                     log_of(&result.err), "truncated", (int)result.truncated, "results",
                     result.results, "error", result.error, "durationMs",
                     (json_int_t)result.duration_ms, "template",
                     result.interpreted ? "code-interpreter-v1" : "base");
    return 0;
}
