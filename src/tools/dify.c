#include "tools/dify.h"

#include <errno.h>
#include <string.h>

#include "lib/base/compiler.h"
#include "lib/base/json.h"
#include "tools/execute.h"

enum { ERROR_BYTES_MAX = REMOTE_OUTPUT_BYTES_MAX + 256 };

/* ---- answers ---- */

static json_t *success(json_t *data)
{
    return json_pack("{si ss so}", "code", 0, "message", "success", "data", data);
}

json_t *dify_failure(int status, const char *message)
{
    json_t *text = json_string(message);

    return json_pack("{si so sn}", "code", -status, "message",
                     text ? text : json_string("the call failed"), "data");
}

/* Empty when the code succeeded, whatever it wrote to standard error. */
static json_t *error_of(const struct execute_result *result, int exit_code)
{
    const char *why = json_string_of(result->error, "value");
    scoped_buf(text, ERROR_BYTES_MAX);

    if (exit_code == 0) {
        return json_string("");
    }
    int r = buf_printf(&text, "process exited with code %d\n", exit_code);
    r = r < 0 ? r
              : buf_printf(&text, "%s%s", result->timed_out ? "error: timeout\n" : "",
                           why && !result->timed_out ? why : "");
    if (r == 0 && buf_len(&result->err) > 0) {
        (void)!buf_append(&text, buf_at(&result->err), buf_len(&result->err));
    }
    return execute_text(&text);
}

static json_t *answer_of(const struct execute_result *result)
{
    int exit_code = result->timed_out ? -1 : result->exit_code;

    return success(json_pack("{so so so si}", "stdout", execute_text(&result->out), "stderr",
                             execute_text(&result->err), "error", error_of(result, exit_code),
                             "exit_code", exit_code));
}

/* ---- run ---- */

static int language_take(const json_t *input, enum language *out, struct err *err)
{
    const char *name = json_string_of(input, "language");

    if (!name) {
        return err_set(err, EINVAL, "language: is required");
    }
    if (strcmp(name, "python3") == 0) {
        *out = LANGUAGE_PYTHON;
        return 0;
    }
    if (strcmp(name, "nodejs") == 0) {
        *out = LANGUAGE_JAVASCRIPT;
        return 0;
    }
    return err_set(err, EINVAL, "unsupported language");
}

/* [{name, version}] as names that an installer takes: name==version, or name@version. */
static int packages_take(const json_t *input, enum language language, json_t **out, struct err *err)
{
    const json_t *dependencies = json_object_get(input, "dependencies");

    *out = json_array();
    for (size_t i = 0; i < json_array_size(dependencies); i++) {
        const json_t *one = json_array_get(dependencies, i);
        const char *name = json_string_of(one, "name"), *version = json_string_of(one, "version");
        bool plain = !version || !version[0];

        if (!name) {
            return err_set(err, EINVAL, "dependencies[%zu].name: is required", i);
        }
        (void)json_array_append_new(*out, json_sprintf("%s%s%s", name,
                                                       plain                         ? ""
                                                       : language == LANGUAGE_PYTHON ? "=="
                                                                                     : "@",
                                                       plain ? "" : version));
    }
    return 0;
}

static int run_plan(struct tool_call *call, const json_t *input, struct execute_plan *plan,
                    json_t **packages, struct err *err)
{
    const json_t *code = json_object_get(input, "code");
    int r = language_take(input, &plan->language, err);

    r = r < 0 ? r : packages_take(input, plan->language, packages, err);
    if (r == 0 && json_string_length(code) == 0) {
        r = err_set(err, EINVAL, "code: is required");
    }
    if (r == 0 && json_string_length(code) > EXECUTE_CODE_BYTES_MAX) {
        r = err_set(err, EMSGSIZE, "code: is larger than %d bytes", EXECUTE_CODE_BYTES_MAX);
    }
    plan->code = (struct str){json_string_value(code), json_string_length(code)};
    plan->packages = *packages;
    plan->timeout_ms = execute_ms_max(call);
    plan->as_file = true;
    plan->offline = !json_is_true(json_object_get(input, "enable_network"));
    return r;
}

static int run(struct tool_call *call, const json_t *input, json_t **out, struct err *err)
{
    struct execute_plan plan = {0};
    scoped_execute_result result = {0};
    scoped_json *packages = NULL;
    int r = run_plan(call, input, &plan, &packages, err);

    r = r < 0 ? r : execute(call, &plan, &result, err);
    if (r == 0) {
        *out = answer_of(&result);
    }
    return r;
}

/* ---- dependencies ---- */

static int python_only(const json_t *input, struct err *err)
{
    enum language language = LANGUAGE_BASH;
    int r = language_take(input, &language, err);

    return r == 0 && language != LANGUAGE_PYTHON ? err_set(err, EINVAL, "unsupported language") : r;
}

/* Lists the packages of the template, as its Python reports them. */
static int list(struct tool_call *call, const json_t *input, json_t **out, struct err *err)
{
    static const char code[] = "import importlib.metadata, json\n"
                               "print(json.dumps(sorted(({'name': d.name, 'version': d.version}\n"
                               "    for d in importlib.metadata.distributions() if d.name),\n"
                               "    key=lambda one: one['name'].lower())))";
    const struct execute_plan plan = {.language = LANGUAGE_PYTHON,
                                      .code = STR(code),
                                      .timeout_ms = execute_ms_max(call),
                                      .as_file = true,
                                      .offline = true};
    scoped_execute_result result = {0};
    int r = python_only(input, err);

    r = r < 0 ? r : execute(call, &plan, &result, err);
    if (r < 0) {
        return r;
    }
    json_t *found = buf_len(&result.out)
                        ? json_loadb(buf_at(&result.out), buf_len(&result.out), 0, NULL)
                        : NULL;
    if (!json_is_array(found)) {
        json_decref(found);
        return err_set(err, EIO, "the packages of the template cannot be listed");
    }
    *out = success(json_pack("{so}", "dependencies", found));
    return 0;
}

static int update(struct tool_call *call, const json_t *input, json_t **out, struct err *err)
{
    int r = python_only(input, err);

    (void)call;
    if (r == 0) {
        *out = success(json_object());
    }
    return r;
}

/* ---- routes ---- */

const struct dify_route *dify_find(struct str path)
{
    static const struct dify_route routes[] = {
        {"POST", "/v1/sandbox/run", run},
        {"GET", "/v1/sandbox/dependencies", list},
        {"GET", "/v1/sandbox/dependencies/refresh", list},
        {"POST", "/v1/sandbox/dependencies/update", update},
    };

    for (size_t i = 0; i < countof(routes); i++) {
        if (str_eq(path, str_of(routes[i].path))) {
            return &routes[i];
        }
    }
    return NULL;
}
