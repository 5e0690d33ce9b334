/* setup_sandbox_heartbeat: something that is repeated inside a sandbox, with a log. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/json.h"
#include "lib/guard/said.h"
#include "tools/catalogue/handlers.h"
#include "tools/claude.h"
#include "tools/duration.h"
#include "tools/keys.h"
#include "tools/reply.h"
#include "tools/sandbox_timeout.h"

enum {
    NAME_LEN = 8,
    DIR_BYTES = 64,
    SCRIPT_BYTES_MAX = 256 * 1024,
    PROMPT_BYTES_MAX = 128 * 1024,
    START_TIMEOUT_MS = 30 * 1000,
    MARGIN_S = 60, /* that a sandbox outlives its heartbeat */
    MS_PER_S = 1000,
};

/* The loop is a child process of the script, and is started again unless we have stopped it. A beat
 * that takes longer than the interval delays the next one; beats never overlap. The script leads
 * its own session, so ending the session ends all of it. */
static const char loop_script[] =
    "#!/bin/bash\n"
    "# Runs task.sh every $interval seconds, until $end (seconds since 1970; 0: until stopped).\n"
    "cd \"$(dirname \"$0\")\" || exit 1\n"
    "dir=$PWD interval=$1 end=$2\n"
    "say() { echo \"[$(date -u +%FT%TZ)] $*\" >>\"$dir/log\"; }\n"
    "over() { [ \"$end\" != 0 ] && [ \"$(date +%s)\" -ge \"$end\" ]; }\n"
    "stop() { trap '' TERM; say stopped; rm -f \"$dir/pid\"; kill -TERM 0; exit 0; }\n"
    "beats() {\n"
    "    trap - TERM INT HUP\n"
    "    local beat=0 begun code\n"
    "    until over; do\n"
    "        beat=$((beat + 1)) begun=$(date +%s)\n"
    "        say \"beat $beat\"\n"
    "        (cd && exec bash -l \"$dir/task.sh\") </dev/null >>\"$dir/log\" 2>&1\n"
    "        code=$?\n"
    "        say \"beat $beat ended with code $code\"\n"
    "        left=$((begun + interval - $(date +%s)))\n"
    "        [ \"$left\" -le 0 ] || sleep \"$left\"\n"
    "    done\n"
    "    exit 0\n"
    "}\n"
    "trap stop TERM INT HUP\n"
    "echo $$ >\"$dir/pid\"\n"
    "say \"started: every $interval seconds\"\n"
    "until over; do\n"
    "    beats &\n"
    "    wait $! && break\n"
    "    say 'the loop was ended from outside, and is started again'\n"
    "    sleep 1\n"
    "done\n"
    "say 'ended: the time is over'\n"
    "rm -f \"$dir/pid\"\n";

struct heart {
    struct tool_call *call;
    const json_t *input;
    struct remote_sandbox sandbox;
    json_t *env;
    char dir[DIR_BYTES];
    int64_t interval_s, duration_s; /* duration 0: until stopped */
    struct buf task;                /* the script of a beat */
};

/* ---- the input ---- */

static int spans_parse(struct heart *heart, struct err *err)
{
    struct str duration = str_of(json_string_of(heart->input, "duration"));

    if (duration_parse(str_of(json_string_of(heart->input, "interval")), &heart->interval_s) < 0) {
        return err_set(err, EINVAL,
                       "interval: \"%.64s\" is not a time as \"30 seconds\", \"5 minutes\" or"
                       " \"1 hour\"",
                       ours(json_string_of(heart->input, "interval")));
    }
    if (duration_is_endless(duration)) {
        return 0;
    }
    if (duration_parse(duration, &heart->duration_s) < 0) {
        return err_set(err, EINVAL,
                       "duration: \"%.64s\" is not a time as \"6 hours\", nor \"until stopped\"",
                       ours(duration.at));
    }
    return 0;
}

static int asked_check(const struct heart *heart, struct err *err)
{
    bool command = json_string_of(heart->input, "command"),
         task = json_string_of(heart->input, "task");

    if (command == task) {
        return err_set(err, EINVAL,
                       command ? "command and task: give one of them"
                               : "command or task: say what is to be repeated");
    }
    return 0;
}

/* ---- the script of a beat ---- */

static const char prompt_head[] =
    "Write a bash script that does the following task once and then ends. It will be run again and"
    " again by a loop, without anybody to answer questions, so it must not wait, sleep or loop"
    " itself. What it prints goes to a log: print one short line with the result. Answer with the"
    " script alone, without explanations and without changing any file.\n\nThe task: ";

/* A script in a fence of Markdown, or bare. */
static struct str unfenced(struct str text)
{
    const char *fence = text.len ? memmem(text.at, text.len, "```", 3) : NULL;

    if (!fence) {
        return text;
    }
    struct str rest = str_skip(text, (size_t)(fence - text.at));
    rest = str_skip(rest, str_find(rest, '\n') + 1);
    const char *end = rest.len ? memmem(rest.at, rest.len, "```", 3) : NULL;
    return end ? (struct str){rest.at, (size_t)(end - rest.at)} : rest;
}

/* "WHAT: " and the first line that a program said, which had the sandbox's keys. */
static int program_failed(const struct heart *heart, int code, const char *what, struct str text,
                          struct err *err)
{
    struct guard *guard = NULL;
    struct said said;
    int r = keys_guard(heart->call, heart->sandbox.id, heart->env, &guard, err);

    text.len = str_find(text, '\n');
    if (r == 0) {
        r = err_set(err, code, "%s: %s", ours(what),
                    text.len ? guard_said(guard, text, &said) : ours("no reason was given"));
    }
    guard_free(guard);
    return r;
}

static int task_written(struct heart *heart, struct err *err)
{
    scoped_claude_answer answer = {0};
    scoped_buf(prompt, PROMPT_BYTES_MAX);

    if (buf_printf(&prompt, "%s%s", prompt_head, json_string_of(heart->input, "task")) < 0) {
        return err_set(err, EMSGSIZE, "task: is too long");
    }
    call_progress(heart->call, 1, 3, "Claude Code writes the script");
    const struct claude_question question = {
        .prompt = buf_str(&prompt),
        .env = heart->env,
        .resume = json_is_true(json_object_get(heart->input, "resume_session")),
        .limit_s = json_integer_value(json_object_get(heart->input, "command_timeout_seconds")),
    };
    int r = claude_ask(heart->call, &heart->sandbox, &question, &answer, err);
    if (r < 0) {
        return r;
    }
    const char *text = claude_text(&answer);
    const char *why = json_string_of(answer.said, "result");
    if (!text) {
        return program_failed(heart, EIO, "Claude Code did not write the script",
                              why ? str_of(why) : buf_str(&answer.run.err), err);
    }
    struct str script = unfenced(str_of(text));
    return buf_append(&heart->task, script.at, script.len) < 0
               ? err_set(err, EMSGSIZE, "the script is too long")
               : 0;
}

/* The key is for the model that writes the script, and not for the script. */
static int task_asked(struct heart *heart, struct err *err)
{
    json_t *key = json_object_get(heart->input, "anthropic_api_key");
    json_t *before = heart->env;
    int r;

    if (!key) {
        return task_written(heart, err);
    }
    heart->env = json_copy(before);
    (void)json_object_set(heart->env, "ANTHROPIC_API_KEY", key);
    r = task_written(heart, err);
    json_decref(heart->env);
    heart->env = before;
    return r;
}

static int task_make(struct heart *heart, struct err *err)
{
    const char *command = json_string_of(heart->input, "command");

    if (!command) {
        return task_asked(heart, err);
    }
    return buf_printf(&heart->task, "%s\n", command) < 0
               ? err_set(err, EMSGSIZE, "command: is too long")
               : 0;
}

/* ---- starting it ---- */

static int files_write(const struct heart *heart, struct err *err)
{
    char path[DIR_BYTES + 16];

    (void)snprintf(path, sizeof(path), "%s/task.sh", heart->dir);
    int r = remote_write(heart->call, &heart->sandbox, path, buf_str(&heart->task), err);
    (void)snprintf(path, sizeof(path), "%s/heartbeat.sh", heart->dir);
    return r < 0 ? r : remote_write(heart->call, &heart->sandbox, path, str_of(loop_script), err);
}

/* The last line is the pid; before that a script that bash cannot read is refused. */
static const char start_script[] =
    "cd -- \"$TOOL_DIR\" && chmod +x heartbeat.sh && bash -n task.sh || exit 1\n"
    "interval=$TOOL_INTERVAL end=$TOOL_END\n"
    "unset TOOL_DIR TOOL_INTERVAL TOOL_END\n"
    "setsid nohup ./heartbeat.sh \"$interval\" \"$end\" </dev/null >/dev/null 2>&1 &\n"
    "echo $! && pwd";

static int start(const struct heart *heart, struct remote_result *out, struct err *err)
{
    scoped_json *env = json_copy(heart->env);
    int64_t end_s = heart->duration_s ? clock_wall_ms() / MS_PER_S + heart->duration_s : 0;
    const struct remote_command command = {
        .script = start_script, .env = env, .timeout_ms = START_TIMEOUT_MS};

    (void)json_object_set_new(env, "TOOL_DIR", json_string(heart->dir));
    (void)json_object_set_new(env, "TOOL_INTERVAL",
                              json_sprintf("%lld", (long long)heart->interval_s));
    (void)json_object_set_new(env, "TOOL_END", json_sprintf("%lld", (long long)end_s));
    int r = remote_run(heart->call, &heart->sandbox, &command, out, err);
    if (r == 0 && out->exit_code != 0) {
        r = program_failed(heart, EINVAL, "the heartbeat could not be started", buf_str(&out->err),
                           err);
    }
    return r;
}

/* ---- the answer ---- */

static void set_path(json_t *reply, const char *field, struct str dir, const char *name)
{
    (void)json_object_set_new(reply, field, json_sprintf("%.*s/%s", (int)dir.len, dir.at, name));
}

static json_t *describe(const struct heart *heart, struct buf *said)
{
    json_t *reply = reply_new(&heart->sandbox);
    struct str rest = buf_str(said), pid = {0}, dir = {0};
    char stamp[CLOCK_STAMP_BYTES];

    (void)str_split(&rest, '\n', &pid);
    (void)str_split(&rest, '\n', &dir);
    (void)json_object_set_new(reply, "pid", json_integer(pid.at ? strtol(pid.at, NULL, 10) : 0));
    set_path(reply, "script_path", dir, "heartbeat.sh");
    set_path(reply, "task_path", dir, "task.sh");
    set_path(reply, "log_path", dir, "log");
    (void)json_object_set_new(reply, "script",
                              json_stringn(buf_at(&heart->task), buf_len(&heart->task)));
    (void)json_object_set_new(reply, "interval_seconds", json_integer(heart->interval_s));
    if (heart->duration_s) {
        clock_stamp(clock_wall_ms() + heart->duration_s * MS_PER_S, stamp);
        (void)json_object_set_new(reply, "ends_at", json_string(stamp));
    }
    return reply;
}

static int life_cover(struct heart *heart, bool *covered, struct err *err)
{
    int64_t least_s = json_integer_value(json_object_get(heart->input, "timeout_seconds"));
    int64_t wanted_s = heart->duration_s ? heart->duration_s + MARGIN_S : 0;
    int64_t until_ms = clock_wall_ms() + (wanted_s > least_s ? wanted_s : least_s) * MS_PER_S;
    int r = timeout_extend(heart->call, &heart->sandbox, until_ms, err);

    *covered = heart->sandbox.expires_ms >= until_ms - (int64_t)MARGIN_S * MS_PER_S;
    return r;
}

static int beat(struct heart *heart, json_t **out, struct err *err)
{
    scoped_remote_result said = {0};
    char name[NAME_LEN + 1];
    bool covered = true;

    id_alnum(name, NAME_LEN);
    (void)snprintf(heart->dir, sizeof(heart->dir), ".heartbeats/%s", name);
    int r = task_make(heart, err);
    r = r < 0 ? r : life_cover(heart, &covered, err);
    r = r < 0 ? r : files_write(heart, err);
    call_progress(heart->call, 2, 3, "Starting it");
    r = r < 0 ? r : start(heart, &said, err);
    if (r < 0) {
        return r;
    }
    *out = describe(heart, &said.out);
    if (!covered || !heart->duration_s) {
        reply_note(*out, covered ? "It runs until it is stopped, or the sandbox expires: extend"
                                   " its life before, with send_sandbox_input."
                                 : "The sandbox expires before the duration is over: it lives as"
                                   " long as the operator allows.");
    }
    reply_note(*out, "Stop it with: kill %lld.",
               (long long)json_integer_value(json_object_get(*out, "pid")));
    return 0;
}

int tool_setup_sandbox_heartbeat(struct tool_call *call, const json_t *input, json_t **out,
                                 struct err *err)
{
    struct heart heart = {.call = call, .input = input};
    int r = asked_check(&heart, err);

    r = r < 0 ? r : spans_parse(&heart, err);
    r = r < 0 ? r
              : remote_connect(call, json_string_of(input, "sandbox_id"), -1, &heart.sandbox, err);
    r = r < 0 ? r
              : keys_env(call, heart.sandbox.id, json_object_get(input, "envs"), &heart.env, err);
    if (r < 0) {
        return r;
    }
    buf_init(&heart.task, SCRIPT_BYTES_MAX);
    r = beat(&heart, out, err);
    buf_fini(&heart.task);
    json_decref(heart.env);
    return r;
}
