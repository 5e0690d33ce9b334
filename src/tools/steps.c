#include "tools/steps.h"

#include <errno.h>
#include <string.h>

#include "lib/base/json.h"
#include "lib/base/utf8.h"
#include "tools/sandbox_timeout.h"

enum { STEP_SCRIPT_BYTES_MAX = 1024 * 1024 };

/* A cut must not fall into a character. */
static json_t *tail_json(const struct buf *text, size_t max)
{
    struct str tail = buf_str(text);

    if (tail.len > max) {
        tail = str_skip(tail, tail.len - max);
        while (tail.len && ((unsigned char)tail.at[0] & 0xc0) == 0x80) {
            tail = str_skip(tail, 1);
        }
    }
    return json_stringn(tail.at ? tail.at : "", tail.len);
}

static void step_note(json_t *done, const char *name, const struct remote_result *result)
{
    bool success = result->exit_code == 0 && !result->timed_out;
    json_t *step = json_object();

    (void)json_object_set_new(step, "name", json_string(name));
    (void)json_object_set_new(step, "success", json_boolean(success));
    (void)json_object_set_new(step, "exit_code", json_integer(result->exit_code));
    (void)json_object_set_new(step, "output", tail_json(&result->out, STEP_OUTPUT_BYTES_MAX));
    (void)json_object_set_new(step, "duration_ms", json_integer(result->duration_ms));
    (void)json_array_append_new(done, step);
}

int steps_run(struct steps *steps, const char *name, const char *script, struct err *err)
{
    scoped_remote_result result = {0};
    scoped_buf(whole, STEP_SCRIPT_BYTES_MAX);

    if (buf_printf(&whole, "exec 2>&1\n%s", script) < 0 || buf_append(&whole, "", 1) < 0) {
        return err_set(err, EMSGSIZE, "%s: the script is longer than %d bytes", name,
                       STEP_SCRIPT_BYTES_MAX);
    }
    const struct remote_command command = {.script = buf_at(&whole),
                                           .cwd = steps->cwd,
                                           .env = steps->env,
                                           .timeout_ms =
                                               timeout_limit_ms(steps->sandbox, steps->limit_s)};
    int r = remote_run(steps->call, steps->sandbox, &command, &result, err);
    if (r < 0) {
        return r;
    }
    step_note(steps->done, name, &result);
    return result.exit_code == 0 && !result.timed_out;
}

const char *steps_output(const struct steps *steps)
{
    size_t n = json_array_size(steps->done);
    const json_t *last = n > 0 ? json_array_get(steps->done, n - 1) : NULL;
    const char *output = json_string_of(last, "output");

    return output ? output : "";
}
