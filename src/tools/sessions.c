/* start_shell_session, send_shell_session_input and kill_shell_session. */
#include <errno.h>
#include <string.h>

#include "lib/base/json.h"
#include "lib/base/utf8.h"
#include "tools/ansi.h"
#include "tools/catalogue/handlers.h"
#include "tools/keys.h"
#include "tools/reply.h"
#include "tools/terminal.h"

enum { KEYS_TYPED_BYTES_MAX = 4 * 1024 * 1024, MS_PER_S = 1000 };

static uint32_t pid_of(const json_t *input)
{
    return (uint32_t)json_integer_value(json_object_get(input, "pid"));
}

/* ---- output ---- */

/* The last `max` characters of valid UTF-8; *left_out: how many there are before. */
static struct str last_characters(struct str text, size_t max, size_t *left_out)
{
    size_t all = utf8_characters(text);

    *left_out = all > max ? all - max : 0;
    for (size_t skip = *left_out; skip > 0; skip--) {
        text = str_skip(text, 1);
        while (text.len && ((unsigned char)text.at[0] & 0xc0) == 0x80) {
            text = str_skip(text, 1);
        }
    }
    return text;
}

static int readable(const struct buf *bytes, bool strip, struct buf *out, struct err *err)
{
    scoped_buf(plain, TERMINAL_OUTPUT_BYTES_MAX);
    char *at;

    if ((strip ? ansi_strip(buf_str(bytes), &plain) : terminal_unmark(buf_str(bytes), &plain)) <
        0) {
        return err_set(err, EMSGSIZE, "the session showed too much");
    }
    struct str text = buf_str(&plain);
    if (buf_reserve(out, UTF8_REPLACEMENT_BYTES * text.len + 1, &at) < 0) {
        return err_set(err, EMSGSIZE, "the session showed too much");
    }
    buf_commit(out, utf8_repair(text, at));
    return 0;
}

static int show(json_t *reply, const json_t *input, const struct terminal_output *output,
                struct err *err)
{
    bool strip = json_is_true(json_object_get(input, "strip_ansi"));
    const json_t *max = json_object_get(input, "max_chars");
    size_t left_out = 0;
    scoped_buf(text, UTF8_REPLACEMENT_BYTES * (size_t)TERMINAL_OUTPUT_BYTES_MAX + 1);

    int r = readable(&output->bytes, strip, &text, err);
    if (r < 0) {
        return r;
    }
    struct str shown = buf_str(&text);
    if (max) {
        shown = last_characters(shown, (size_t)json_integer_value(max), &left_out);
    }
    (void)json_object_set_new(reply, "output", json_stringn(shown.at ? shown.at : "", shown.len));
    (void)json_object_set_new(reply, "truncated", json_boolean(left_out > 0));
    if (left_out > 0) {
        reply_note(reply, "The first %zu characters were left out: max_chars is %lld.", left_out,
                   (long long)json_integer_value(max));
    }
    return 0;
}

/* ---- the tools ---- */

int tool_start_shell_session(struct tool_call *call, const json_t *input, json_t **out,
                             struct err *err)
{
    struct terminal_output output = {0};
    scoped_json *env = NULL;
    struct remote_sandbox sandbox;
    uint32_t pid = 0;
    int r = remote_connect_input(call, input, &sandbox, err);

    r = r < 0 ? r : keys_env(call, sandbox.id, json_object_get(input, "envs"), &env, err);
    if (r < 0) {
        return r;
    }
    const struct terminal_plan plan = {
        .cwd = json_string_of(input, "cwd"),
        .env = env,
        .cols = (uint16_t)json_integer_value(json_object_get(input, "cols")),
        .rows = (uint16_t)json_integer_value(json_object_get(input, "rows")),
    };
    buf_init(&output.bytes, TERMINAL_OUTPUT_BYTES_MAX);
    r = terminal_start(call, &sandbox, &plan, &pid, &output, err);
    scoped_json *reply = reply_new(&sandbox);
    (void)json_object_set_new(reply, "pid", json_integer((json_int_t)pid));
    r = r < 0 ? r : show(reply, input, &output, err);
    if (r == 0) {
        *out = move_ptr(&reply);
    }
    buf_fini(&output.bytes);
    return r;
}

/* Enter is a carriage return: programs that read keys know no other. */
static int type(struct tool_call *call, const struct remote_sandbox *sandbox, const json_t *input,
                struct err *err)
{
    const json_t *text = json_object_get(input, "input");
    bool enter = json_is_true(json_object_get(input, "append_newline"));
    size_t len = json_string_length(text);
    scoped_buf(keys, KEYS_TYPED_BYTES_MAX);

    if (len == 0) {
        return 0; /* only a look */
    }
    if (buf_append(&keys, json_string_value(text), len) < 0 ||
        (enter && buf_append(&keys, "\r", 1) < 0)) {
        return err_set(err, EMSGSIZE, "input: is longer than %d bytes", KEYS_TYPED_BYTES_MAX);
    }
    return terminal_type(call, sandbox, pid_of(input), buf_str(&keys), err);
}

/* Earlier output is read before the input is sent, so that the prompt that ends the wait is a later
 * one. */
static int talk(struct tool_call *call, const struct remote_sandbox *sandbox, const json_t *input,
                struct terminal_output *output, struct err *err)
{
    double wait_s = json_number_value(json_object_get(input, "wait_seconds"));
    int r = terminal_read(call, sandbox, pid_of(input), 0, output, err);

    if (r < 0 || output->ended) {
        return r;
    }
    r = type(call, sandbox, input, err);
    return r < 0 ? r
                 : terminal_read(call, sandbox, pid_of(input), (int64_t)(wait_s * MS_PER_S), output,
                                 err);
}

static json_t *told(const struct remote_sandbox *sandbox, const json_t *input,
                    const struct terminal_output *output, struct err *err)
{
    scoped_json *reply = reply_new(sandbox);

    (void)json_object_set_new(reply, "pid", json_integer((json_int_t)pid_of(input)));
    (void)json_object_set_new(reply, "ended", json_boolean(output->ended));
    if (output->ended) {
        (void)json_object_set_new(reply, "exit_code", json_integer(output->exit_code));
    }
    return show(reply, input, output, err) < 0 ? NULL : move_ptr(&reply);
}

int tool_send_shell_session_input(struct tool_call *call, const json_t *input, json_t **out,
                                  struct err *err)
{
    struct terminal_output output = {0};
    struct remote_sandbox sandbox;
    int r = remote_connect_input(call, input, &sandbox, err);

    buf_init(&output.bytes, TERMINAL_OUTPUT_BYTES_MAX);
    r = r < 0 ? r : terminal_check(call, &sandbox, pid_of(input), err);
    r = r < 0 ? r : talk(call, &sandbox, input, &output, err);
    if (r == 0) {
        *out = told(&sandbox, input, &output, err);
        r = *out ? 0 : -err->code;
    }
    buf_fini(&output.bytes);
    return r;
}

int tool_kill_shell_session(struct tool_call *call, const json_t *input, json_t **out,
                            struct err *err)
{
    struct remote_sandbox sandbox;
    int r = remote_connect_input(call, input, &sandbox, err);

    r = r < 0 ? r : terminal_check(call, &sandbox, pid_of(input), err);
    if (r < 0) {
        return r;
    }
    scoped_json *request = json_pack("{s{sI}ss}", "process", "pid", (json_int_t)pid_of(input),
                                     "signal", "SIGNAL_SIGKILL");
    r = remote_rpc(call, &sandbox, "/process.Process/SendSignal", request, NULL, err);
    if (r < 0) {
        return r;
    }
    *out = reply_new(&sandbox);
    (void)json_object_set_new(*out, "pid", json_integer((json_int_t)pid_of(input)));
    (void)json_object_set_new(*out, "killed", json_true());
    return 0;
}
