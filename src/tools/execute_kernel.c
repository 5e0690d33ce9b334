#include "tools/execute_kernel.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/fields.h"
#include "base/json_text.h"
#include "tools/side.h"

enum { PORT = 49999, ANSWER_BYTES_MAX = 24 * 1024 * 1024 };

/* ---- asking, with a limit ---- */

/* Two fibers beside: one asks, the other ends it when the time is over. */
struct asking {
    struct tool_call *call;
    const struct box *box;
    const json_t *body;
    int64_t timeout_ms;
    struct side question, clock;
    struct buf lines;
    int status, error;
    bool late;
    struct err err;
};

static void ask(void *arg)
{
    struct asking *asking = arg;

    asking->error = box_http(asking->call, asking->box, PORT, "POST", "/execute", asking->body,
                             &asking->status, &asking->lines, &asking->err);
}

static void wait_and_end(void *arg)
{
    struct asking *asking = arg;

    if (call_sleep(asking->call, asking->timeout_ms) == 0) {
        asking->late = true;
        side_cancel(&asking->question);
    }
}

static int ask_within(struct asking *asking, struct err *err)
{
    if (side_start(&asking->question, ask, asking) < 0) {
        return err_set(err, EBUSY, "too much is under way: try again later");
    }
    bool limited = side_start(&asking->clock, wait_and_end, asking) == 0;
    side_join(&asking->question);
    if (limited) {
        side_cancel(&asking->clock);
        side_join(&asking->clock);
    }
    if (asking->error < 0 && !asking->late) {
        *err = asking->err;
        return asking->error;
    }
    return 0;
}

/* ---- what it says ---- */

static void result_add(struct execute_result *out, const json_t *line)
{
    json_t *result = json_deep_copy(line);

    (void)json_object_del(result, "type");
    (void)json_array_append_new(out->results, result);
}

/* Ends of programs are told as errors: their status is what counts. */
static int exit_code_of(const json_t *error)
{
    const char *name = json_string_value(json_object_get(error, "name"));
    const char *value = json_string_value(json_object_get(error, "value"));
    bool ended = name && value && strcmp(name, "SystemExit") == 0;
    long code = ended ? strtol(value, NULL, 10) : 1;

    return code >= 0 && code < 256 ? (int)code : 1;
}

static void line_take(struct execute_result *out, const json_t *line)
{
    const char *type = json_string_value(json_object_get(line, "type"));
    const json_t *text = json_object_get(line, "text");

    if (!type) {
        return;
    }
    if (strcmp(type, "stdout") == 0 || strcmp(type, "stderr") == 0) {
        struct buf *to = type[3] == 'o' ? &out->out : &out->err;
        size_t room = to->max - buf_len(to), n = json_string_length(text);
        (void)!buf_append(to, json_string_value(text), n < room ? n : room);
    } else if (strcmp(type, "result") == 0) {
        result_add(out, line);
    } else if (strcmp(type, "error") == 0) {
        json_decref(out->error);
        out->error = json_deep_copy(line);
        (void)json_object_del(out->error, "type");
        out->exit_code = exit_code_of(line);
        if (out->exit_code == 0) {
            json_decref(out->error);
            out->error = NULL;
        }
    }
}

/* False: there is more than anybody would read. */
static bool lines_take(struct execute_result *out, struct str lines)
{
    struct str text;
    size_t values = 0;

    while (lines.len > 0 && str_split(&lines, '\n', &text)) {
        values += json_text_values(text);
        if (values > JSON_TEXT_VALUES_MAX) {
            return false;
        }
        scoped_json *line = text.len > 0 ? json_loadb(text.at, text.len, 0, NULL) : NULL;

        line_take(out, line);
    }
    return true;
}

int kernel_run(struct tool_call *call, const struct box *box, const struct execute_plan *plan,
               struct execute_result *out, struct err *err)
{
    scoped_json *body = json_pack("{ss% ss}", "code", plan->code.at, plan->code.len, "language",
                                  language_name(plan->language));
    struct asking asking = {.call = call, .box = box, .body = body, .timeout_ms = plan->timeout_ms};

    if (!body) {
        return err_set(err, EINVAL, "code: is not UTF-8");
    }
    if (json_object_size(plan->envs) > 0) {
        (void)json_object_set(body, "env_vars", json_unconst(plan->envs));
    }
    buf_init(&asking.lines, ANSWER_BYTES_MAX);
    int r = ask_within(&asking, err);
    if (r == 0 && !asking.late && asking.status != 200) {
        r = err_set(err, EIO, "the interpreter answered %d: %.*s", asking.status,
                    (int)(buf_len(&asking.lines) < 160 ? buf_len(&asking.lines) : 160),
                    buf_len(&asking.lines) ? buf_at(&asking.lines) : "");
    }
    if (r == 0 && !lines_take(out, buf_str(&asking.lines))) {
        r = err_set(err, EMSGSIZE, "the code showed more than %d values", JSON_TEXT_VALUES_MAX);
    }
    out->timed_out = r == 0 && asking.late;
    buf_fini(&asking.lines);
    return r;
}
