/* claude.h - the Claude Code command line inside a sandbox: brought up to date, and asked.
 *
 * Blocks:   the fiber.
 * Threads:  the loop's.
 */
#ifndef TOOLS_CLAUDE_H
#define TOOLS_CLAUDE_H

#include "tools/steps.h"

/* Installs it or brings it up to date: ways are tried one after the other, until one succeeds. *way
 * is its name; 1, or 0 when all of them failed. Each way is a step. */
must_check int claude_update(struct steps *steps, const char **way, struct err *err);

struct claude_question { /* borrowed */
    struct str prompt;
    const char *cwd;     /* NULL: where the sandbox was made to work */
    const json_t *env;   /* may be NULL */
    bool resume;         /* go on with the latest conversation of that directory, if there is one */
    const char *session; /* with resume: with this one; NULL: the latest */
    int64_t limit_s;     /* 0: as long as the sandbox lives */
};

struct claude_answer {
    struct remote_result run;
    json_t *said; /* its output as JSON; NULL: it was none */
    bool updated; /* it had to be, before it answered */
};
void claude_answer_fini(struct claude_answer *answer);
#define scoped_claude_answer scoped(claude_answer_fini) struct claude_answer

/* 0 when it ran, whatever it said. -ESTALE with the sentence when it is not installed. */
must_check int claude_ask(struct tool_call *call, const struct remote_sandbox *sandbox,
                          const struct claude_question *question, struct claude_answer *out,
                          struct err *err);

/* The text of an answer that went well; NULL: it did not. */
const char *claude_text(const struct claude_answer *answer);

#endif
