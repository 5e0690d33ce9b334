#include "tools/claude.h"

#include <errno.h>
#include <string.h>

#include "lib/base/json.h"
#include "tools/sandbox_timeout.h"

#define CLAUDE_PACKAGE "@anthropic-ai/claude-code@latest"

/* Exit codes of our script. */
enum {
    EXIT_UNREACHABLE = 96, /* nobody answers at the model's address */
    EXIT_MISSING = 97,     /* there is no claude */
    EXIT_NO_KEY = 98,      /* it failed, and nothing is there that it could log in with */
};

/* ---- bringing it up to date ---- */

/* The updater of the command line itself must write where it was installed: as root, unless that is
 * in the home directory. A way has succeeded when a claude answers afterwards. */
static const struct {
    const char *name, *script;
} ways[] = {
    {"claude update", "at=$(command -v claude) || { echo 'claude is not installed'; exit 1; }\n"
                      "case $at in \"$HOME\"/*) as= ;; *) as=\"sudo env PATH=$PATH\" ;; esac\n"
                      "timeout -k 5 180 $as claude update </dev/null && claude --version"},
    {"npm install --global " CLAUDE_PACKAGE,
     "timeout -k 5 300 sudo npm install --global --force --no-fund --no-audit " CLAUDE_PACKAGE
     " && hash -r && claude --version"},
    {"its installer",
     "set -o pipefail\n"
     "curl -fsSL --max-time 60 https://claude.ai/install.sh | timeout -k 5 300 bash"
     " && PATH=$HOME/.local/bin:$PATH && claude --version"},
};

int claude_update(struct steps *steps, const char **way, struct err *err)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < countof(ways); i++) {
        *way = ways[i].name;
        r = steps_run(steps, ways[i].name, ways[i].script, err);
    }
    return r;
}

/* ---- asking ---- */

void claude_answer_fini(struct claude_answer *answer)
{
    remote_result_fini(&answer->run);
    json_decref(answer->said);
}

static void answer_clear(struct claude_answer *answer)
{
    claude_answer_fini(answer);
    answer->run = (struct remote_result){0};
    answer->said = NULL;
}

/* Conversations belong to a directory, so each question is asked where the last one was. The
 * command line tries for minutes to reach the model, so an address that does not answer is detected
 * first. */
static const char ask_script[] =
    "command -v claude >/dev/null || exit 97\n"
    "[ -n \"$TOOL_CWD\" ] || cd \"$(cat ~/.claude/.working_dir 2>/dev/null || echo ~)\" || exit 1\n"
    "set -- ${TOOL_RESUME:+--continue}\n"
    "[ -z \"$TOOL_RESUME\" ] || [ -z \"$TOOL_SESSION\" ] || set -- --resume \"$TOOL_SESSION\"\n"
    "unset TOOL_CWD TOOL_RESUME TOOL_SESSION\n"
    "cloud=$CLAUDE_CODE_USE_BEDROCK$CLAUDE_CODE_USE_VERTEX\n"
    "key=$ANTHROPIC_API_KEY$ANTHROPIC_AUTH_TOKEN$CLAUDE_CODE_OAUTH_TOKEN$cloud\n"
    "at=${ANTHROPIC_BASE_URL:-https://api.anthropic.com}\n"
    "if [ -n \"$key\" ] && [ -z \"$cloud\" ] && command -v curl >/dev/null; then\n"
    "    curl -sS -o /dev/null --connect-timeout 10 --max-time 20 \"$at\" >&2 || exit 96\n"
    "fi\n"
    "claude -p --output-format json \"$@\"\n"
    "code=$?\n"
    "[ $code = 0 ] || [ -n \"$key\" ] || [ -s ~/.claude/.credentials.json ] || exit 98\n"
    "exit $code";

/* 0 when the command line ran, however it ended. */
static int ask_failed(const struct remote_sandbox *sandbox, const struct claude_answer *answer,
                      struct err *err)
{
    switch (answer->run.exit_code) {
    case EXIT_MISSING:
        return err_set(err, ESTALE,
                       "the Claude Code command line is not installed in sandbox %s: call"
                       " install_packages with preset claude_code_latest, or make the sandbox with"
                       " create_claude_code_sandbox",
                       ours(sandbox->id));
    case EXIT_NO_KEY:
        return err_set(err, ESTALE,
                       "ANTHROPIC_API_KEY is not set in sandbox %s: give it in envs, or make the"
                       " sandbox with create_claude_code_sandbox and anthropic_api_key",
                       ours(sandbox->id));
    case EXIT_UNREACHABLE:
        return err_set(err, EIO,
                       "the model's API cannot be reached from sandbox %s: nobody answers at"
                       " https://api.anthropic.com, or where ANTHROPIC_BASE_URL points",
                       ours(sandbox->id));
    default:
        return 0;
    }
}

static int ask(struct tool_call *call, const struct remote_sandbox *sandbox,
               const struct claude_question *question, bool resume, struct claude_answer *out,
               struct err *err)
{
    scoped_json *env = question->env ? json_copy(json_unconst(question->env)) : json_object();
    const struct remote_command command = {
        .script = ask_script,
        .cwd = question->cwd,
        .env = env,
        .input = question->prompt,
        .timeout_ms = timeout_limit_ms(sandbox, question->limit_s),
    };

    answer_clear(out);
    (void)json_object_set_new(env, "TOOL_CWD", json_string(question->cwd ? question->cwd : ""));
    (void)json_object_set_new(env, "TOOL_RESUME", json_string(resume ? "yes" : ""));
    (void)json_object_set_new(env, "TOOL_SESSION",
                              json_string(question->session ? question->session : ""));
    int r = remote_run(call, sandbox, &command, &out->run, err);
    if (r < 0) {
        return r;
    }
    r = ask_failed(sandbox, out, err);
    if (r < 0) {
        return r;
    }
    out->said = json_loadb(buf_at(&out->run.out), buf_len(&out->run.out), 0, NULL);
    return 0;
}

static bool buf_has(const struct buf *text, const char *words)
{
    return buf_len(text) > 0 && memmem(buf_at(text), buf_len(text), words, strlen(words));
}

static bool says(const struct claude_answer *answer, const char *words)
{
    return !claude_text(answer) &&
           (buf_has(&answer->run.out, words) || buf_has(&answer->run.err, words));
}

static bool wants_update(const struct claude_answer *answer)
{
    return says(answer, "needs an update") || says(answer, "run `claude update`") ||
           says(answer, "run: claude update");
}

static int update_for(struct tool_call *call, const struct remote_sandbox *sandbox,
                      const struct claude_question *question, struct err *err)
{
    scoped_json *done = json_array();
    struct steps steps = {.call = call, .sandbox = sandbox, .env = question->env, .done = done};
    const char *way = NULL;

    call_progress(call, 0, 0, "The Claude Code command line asks to be updated");
    return claude_update(&steps, &way, err);
}

static int ask_or_begin(struct tool_call *call, const struct remote_sandbox *sandbox,
                        const struct claude_question *question, struct claude_answer *out,
                        struct err *err)
{
    int r = ask(call, sandbox, question, question->resume, out, err);

    if (r == 0 && question->resume && !question->session && says(out, "No conversation found")) {
        r = ask(call, sandbox, question, false, out, err);
    }
    return r;
}

int claude_ask(struct tool_call *call, const struct remote_sandbox *sandbox,
               const struct claude_question *question, struct claude_answer *out, struct err *err)
{
    int r = ask_or_begin(call, sandbox, question, out, err);

    if (r < 0 || !wants_update(out)) {
        return r;
    }
    r = update_for(call, sandbox, question, err);
    if (r == 1) { /* otherwise what it said stands */
        r = ask_or_begin(call, sandbox, question, out, err);
        out->updated = r == 0;
    }
    return r;
}

const char *claude_text(const struct claude_answer *answer)
{
    bool good = answer->run.exit_code == 0 && !answer->run.timed_out &&
                !json_is_true(json_object_get(answer->said, "is_error"));

    return good ? json_string_of(answer->said, "result") : NULL;
}
