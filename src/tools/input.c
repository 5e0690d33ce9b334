/* send_sandbox_input: a prompt, a command, or only more time. */
#include <errno.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/json.h"
#include "tools/catalogue/handlers.h"
#include "tools/claude.h"
#include "tools/keys.h"
#include "tools/reply.h"
#include "tools/sandbox_timeout.h"

enum {
    KEEP_ALIVE_S = 1800, /* that a sandbox has at least, afterwards */
    EXTEND_S = 3600,     /* as KEEP_ALIVE_S, unless the call says how much */
    MS_PER_S = 1000,
};

struct input_call {
    struct tool_call *call;
    const json_t *input;
    struct remote_sandbox sandbox;
    json_t *env; /* of the command */
};

/* ---- prompts and commands ---- */

static int64_t limit_of(const struct input_call *in)
{
    return json_integer_value(json_object_get(in->input, "command_timeout_seconds"));
}

static int run_shell(const struct input_call *in, const char *script, json_t **out, struct err *err)
{
    scoped_remote_result result = {0};
    const struct remote_command command = {
        .script = script,
        .cwd = json_string_of(in->input, "cwd"),
        .env = in->env,
        .timeout_ms = timeout_limit_ms(&in->sandbox, limit_of(in)),
    };
    int r = remote_run(in->call, &in->sandbox, &command, &result, err);

    if (r < 0) {
        return r;
    }
    *out = reply_new(&in->sandbox);
    reply_result(*out, &result);
    return 0;
}

static void reply_answer(json_t *reply, const struct claude_answer *answer)
{
    const char *session = json_string_of(answer->said, "session_id");
    const char *text = json_string_of(answer->said, "result");

    reply_result(reply, &answer->run);
    (void)json_object_set_new(reply, "success", json_boolean(claude_text(answer) != NULL));
    (void)json_object_set_new(reply, "updated", json_boolean(answer->updated));
    if (text) { /* its output is the same in JSON: not shown twice */
        (void)json_object_set_new(reply, "result", json_string(text));
        (void)json_object_del(reply, "stdout");
    }
    if (session) {
        (void)json_object_set_new(reply, "session_id", json_string(session));
    }
}

static int run_claude(const struct input_call *in, json_t **out, struct err *err)
{
    const json_t *prompt = json_object_get(in->input, "input");
    const struct claude_question question = {
        .prompt = {json_string_value(prompt), json_string_length(prompt)},
        .cwd = json_string_of(in->input, "cwd"),
        .env = in->env,
        .resume = json_is_true(json_object_get(in->input, "resume_session")),
        .session = json_string_of(in->input, "session_id"),
        .limit_s = limit_of(in),
    };
    scoped_claude_answer answer = {0};
    int r = claude_ask(in->call, &in->sandbox, &question, &answer, err);

    if (r < 0) {
        return r;
    }
    *out = reply_new(&in->sandbox);
    reply_answer(*out, &answer);
    return 0;
}

static void note_the_end(const struct input_call *in, json_t *reply)
{
    if (!json_is_true(json_object_get(reply, "timed_out"))) {
        return;
    }
    if (timeout_limit_ms(&in->sandbox, limit_of(in)) < timeout_left_ms(&in->sandbox)) {
        reply_note(reply, "It was ended because command_timeout_seconds were over.");
    } else {
        reply_note(reply,
                   "It was ended %d seconds before the sandbox expires, so that its output could"
                   " be returned: give a longer timeout_seconds, or use extend_lifecycle before.",
                   TIMEOUT_MARGIN_S);
    }
}

static int run_in_it(struct input_call *in, bool is_prompt, json_t **out, struct err *err)
{
    json_t *key = json_object_get(in->input, "anthropic_api_key");
    int r = keys_env(in->call, in->sandbox.id, json_object_get(in->input, "envs"), &in->env, err);

    if (r == 0 && key) {
        (void)json_object_set(in->env, "ANTHROPIC_API_KEY", key);
    }
    if (r == 0) {
        r = is_prompt ? run_claude(in, out, err)
                      : run_shell(in, json_string_of(in->input, "input"), out, err);
        json_decref(in->env);
    }
    if (r == 0) {
        note_the_end(in, *out);
    }
    return r;
}

/* ---- more time ---- */

static void note_the_most(const struct input_call *in, int64_t until_ms, bool asked, json_t *reply)
{
    if (asked && in->sandbox.expires_ms < until_ms - MS_PER_S) {
        reply_note(reply, "It cannot live longer: this is the most that the operator allows.");
    }
}

static int extend(struct input_call *in, int64_t more_s, json_t **out, struct err *err)
{
    int64_t until_ms = clock_wall_ms() + more_s * MS_PER_S;
    int r = timeout_extend(in->call, &in->sandbox, until_ms, err);

    if (r == 0) {
        *out = reply_new(&in->sandbox);
        (void)json_object_set_new(*out, "success", json_true());
        note_the_most(in, until_ms, true, *out);
    }
    return r;
}

/* Output from inside shows that the sandbox runs. With timeout_seconds the end was set when we
 * connected. */
static int keep_alive(struct input_call *in, int64_t timeout_s, json_t **out, struct err *err)
{
    int64_t until_ms = clock_wall_ms() + (int64_t)KEEP_ALIVE_S * MS_PER_S;
    int r = timeout_extend(in->call, &in->sandbox,
                           timeout_s < 0 ? until_ms : in->sandbox.expires_ms, err);

    r = r < 0 ? r : run_shell(in, "echo heartbeat", out, err);
    if (r == 0) {
        note_the_most(in, until_ms, timeout_s < 0, *out);
    }
    return r;
}

/* ---- the tool ---- */

static int input_check(const json_t *input, const char *action, struct err *err)
{
    const char *text = json_string_of(input, "input");

    if (!text || !text[0]) {
        return err_set(err, EINVAL, "input: is required for action %s", action);
    }
    return 0;
}

int tool_send_sandbox_input(struct tool_call *call, const json_t *input, json_t **out,
                            struct err *err)
{
    const char *action = json_string_of(input, "action");
    const json_t *timeout = json_object_get(input, "timeout_seconds");
    int64_t timeout_s = timeout ? json_integer_value(timeout) : -1;
    bool extends = strcmp(action, "extend_lifecycle") == 0;
    bool keeps = strcmp(action, "keep_alive") == 0;
    struct input_call in = {.call = call, .input = input};
    int r = extends || keeps ? 0 : input_check(input, action, err);

    if (r == 0) {
        r = remote_connect(call, json_string_of(input, "sandbox_id"), extends ? -1 : timeout_s,
                           &in.sandbox, err);
    }
    if (r < 0) {
        return r;
    }
    if (extends) {
        r = extend(&in, timeout_s < 0 ? EXTEND_S : timeout_s, out, err);
    } else if (keeps) {
        r = keep_alive(&in, timeout_s, out, err);
    } else {
        r = run_in_it(&in, strcmp(action, "claude_code") == 0, out, err);
    }
    if (r == 0) {
        (void)json_object_set_new(*out, "action", json_string(action));
    }
    return r;
}
