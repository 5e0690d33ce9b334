/* execute.h - code in, result out: a sandbox that lives for one piece of code.
 *
 *      create ─► files ─► packages ─► run ─► collect ─► kill, whatever happened
 *
 * Where the template code-interpreter-v1 is available, Python runs in its kernel: the last
 * expression, charts and tables are results; so does JavaScript unless it is to be a program.
 * Otherwise the code is a file that is run, in that template or in `base`. Bash always runs this
 * way.
 *
 * Blocks:   the fiber.
 * Threads:  the loop's.
 */
#ifndef TOOLS_EXECUTE_H
#define TOOLS_EXECUTE_H

#include "tools/remote.h"
#include "wire/tools.h"

#define EXECUTE_PATH TOOLS_PATH_EXECUTE
#define EXECUTE_TYPESCRIPT "/tmp/.typescript" /* where execute_prepare() puts what runs it */

enum {
    EXECUTE_CODE_BYTES_MAX = 1024 * 1024,
    EXECUTE_PACKAGES_MAX = 64,
    EXECUTE_FILES_MAX = 64,
    EXECUTE_INSTALL_S_MAX = 300,
    EXECUTE_STATUS_LATE = 124, /* the exit code of what ran too long, as timeout(1) has it */
};

enum language {
    LANGUAGE_PYTHON,
    LANGUAGE_JAVASCRIPT,
    LANGUAGE_TYPESCRIPT,
    LANGUAGE_BASH,
    LANGUAGES
};

/* python, node, javascript, typescript, bash; -EINVAL for another word. */
must_check int language_find(const char *name, enum language *out);
const char *language_name(enum language language);

struct execute_plan { /* borrowed */
    enum language language;
    struct str code;
    const json_t *packages; /* array of names; may be NULL */
    const json_t *envs;     /* object of strings; may be NULL */
    const json_t *shells;   /* array of names; may be NULL */
    const json_t *files;    /* object: path to content; may be NULL */
    int64_t timeout_ms;     /* of the code itself */
    bool as_program;        /* its status and its output count more than its last expression */
    bool as_file;           /* run as a file, also where there is a kernel */
    bool offline;           /* no internet, once the packages are there */
};

struct execute_result {
    struct buf out, err;
    json_t *results; /* array of MIME bundles */
    json_t *error;   /* {"name", "value", "traceback"}; NULL: none */
    int exit_code;
    bool timed_out;
    bool truncated;   /* the beginning of an output was left out, or results were */
    bool interpreted; /* in code-interpreter-v1; else in `base` */
    int64_t duration_ms;
};
void execute_result_fini(struct execute_result *result);
#define scoped_execute_result scoped(execute_result_fini) struct execute_result

/* An output as JSON. */
json_t *execute_text(const struct buf *output);

/* 0 when there is a result, even if the code failed or its packages could not be installed. *out is
 * good for execute_result_fini() in every case. */
must_check int execute(struct tool_call *call, const struct execute_plan *plan,
                       struct execute_result *out, struct err *err);

/* A sandbox of the template for one piece of work, that ends itself when nobody ends it. */
must_check int execute_remote(struct tool_call *call, const char *template_name, const json_t *envs,
                              const json_t *shells, int64_t life_ms, bool offline,
                              struct remote_sandbox *out, struct err *err);

/* Installs what TypeScript needs to run as a file. */
must_check int execute_prepare(struct tool_call *call, const struct remote_sandbox *sandbox,
                               enum language language, struct remote_result *log, struct err *err);

/* How a file of that language is run: the words before its name. */
const char *language_command(enum language language);
const char *language_suffix(enum language language);

/* The most that a piece of code may take, as the operator says. */
int64_t execute_ms_max(const struct tool_call *call);

#endif
