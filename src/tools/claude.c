#include "tools/claude.h"

#include <errno.h>
#include <string.h>

#include "api/fields.h"
#include "tools/life.h"

#define CLAUDE_PACKAGE "@anthropic-ai/claude-code@latest"

enum { EXIT_MISSING = 97 }; /* of our script: there is no claude */

/* ---- bringing it up to date ---- */

/* The command line's own way needs to write where it was installed: by root, unless it lies in the
 * home directory. Each way counts when a claude answers afterwards. */
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
    box_result_fini(&answer->run);
    json_decref(answer->said);
}

static void answer_clear(struct claude_answer *answer)
{
    claude_answer_fini(answer);
    answer->run = (struct box_result){0};
    answer->said = NULL;
}

/* Conversations belong to a directory, so each question is asked where the last one was. */
static const char ask_script[] =
    "command -v claude >/dev/null || exit 97\n"
    "[ -n \"$TOOL_CWD\" ] || cd \"$(cat ~/.claude/.working_dir 2>/dev/null || echo ~)\" || exit 1\n"
    "set -- ${TOOL_RESUME:+--continue}\n"
    "unset TOOL_CWD TOOL_RESUME\n"
    "exec claude -p --output-format json \"$@\"";

static int ask(struct tool_call *call, const struct box *box,
               const struct claude_question *question, bool resume, struct claude_answer *out,
               struct err *err)
{
    scoped_json *env = question->env ? json_copy(json_unconst(question->env)) : json_object();
    const struct box_command command = {
        .script = ask_script,
        .cwd = question->cwd,
        .env = env,
        .input = question->prompt,
        .timeout_ms = life_left_ms(box),
    };

    answer_clear(out);
    (void)json_object_set_new(env, "TOOL_CWD", json_string(question->cwd ? question->cwd : ""));
    (void)json_object_set_new(env, "TOOL_RESUME", json_string(resume ? "yes" : ""));
    int r = box_run(call, box, &command, &out->run, err);
    if (r < 0) {
        return r;
    }
    if (out->run.exit_code == EXIT_MISSING) {
        return err_set(err, ESTALE,
                       "the Claude Code command line is not installed in sandbox %s: call"
                       " install_packages with preset claude_code_latest, or make the sandbox with"
                       " create_claude_code_sandbox",
                       ours(box->id));
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

static int update_for(struct tool_call *call, const struct box *box,
                      const struct claude_question *question, struct err *err)
{
    scoped_json *done = json_array();
    struct steps steps = {.call = call, .box = box, .env = question->env, .done = done};
    const char *way = NULL;

    call_progress(call, 0, 0, "The Claude Code command line asks to be updated");
    return claude_update(&steps, &way, err);
}

static int ask_or_begin(struct tool_call *call, const struct box *box,
                        const struct claude_question *question, struct claude_answer *out,
                        struct err *err)
{
    int r = ask(call, box, question, question->resume, out, err);

    if (r == 0 && question->resume && says(out, "No conversation found")) {
        r = ask(call, box, question, false, out, err);
    }
    return r;
}

int claude_ask(struct tool_call *call, const struct box *box,
               const struct claude_question *question, struct claude_answer *out, struct err *err)
{
    int r = ask_or_begin(call, box, question, out, err);

    if (r < 0 || !wants_update(out)) {
        return r;
    }
    r = update_for(call, box, question, err);
    if (r == 1) { /* otherwise what it said stands */
        r = ask_or_begin(call, box, question, out, err);
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
