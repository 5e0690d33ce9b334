/* cli.h - the `atoll` command line: one command is one file, which has its row (command.h), and one
 * line of command_list.h. */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "cli/command.h"
#include "lib/base/compiler.h"
#include "lib/base/err.h"
#include "lib/base/json.h"
#include "lib/base/str.h"
#include "serve/daemon/config.h"
#include "serve/daemon/paths.h"

/* Exit codes, which scripts rely on: docs/man/atoll.1.in lists them. */
enum {
    CLI_OK = 0,
    CLI_FAILED = 1,
    CLI_USAGE = 2,
    CLI_NOT_FOUND = 3, /* the daemon has nothing of that name */
    CLI_NO_DAEMON = 4, /* none answers */
    CLI_INTERRUPTED = 130,
};

enum { CLI_OPTIONS_MAX = 64 };

struct cli {
    const char *program; /* as the user called us */
    const struct command *command;
    const struct subcommand *sub; /* NULL: it has none, or none was named */
    struct config config;
    struct paths paths;
    char **words; /* after the command's name, without flags; the sub-command's name is the first */
    int words_n;
    char **rest; /* words that were not read: behind "--", or of another program */
    int rest_n;
    bool json, quiet, help;
    bool data_named;            /* --data was given: it wins over the SDKs' variables */
    const char *url, *key, *ca; /* of the daemon, if they were given: they win over all */
    struct {
        const char *name, *value; /* the long name; NULL for a flag */
    } options[CLI_OPTIONS_MAX];   /* the command's own, in order */
    int options_n;
};

/* Whether a flag or an option was given; the value that was given last, or NULL. */
bool cli_has(const struct cli *cli, const char *option);
const char *cli_option(const struct cli *cli, const char *option);

/* Reads the arguments behind the command's name. Returns an exit code; CLI_OK: run it. */
int cli_arguments(struct cli *cli, int argc, char **argv);

/* Parts of `template` and `doctor`. */
int cli_sandbox_history(struct cli *cli, const char *id);
int cli_template_build(struct cli *cli);

void cli_help_print(void);     /* of the whole program */
void cli_settings_print(void); /* all settings */

/* Prints "atoll: <sentence>" on stderr and returns the code. */
int cli_fail(int code, const char *fmt, ...) printf_like(2, 3);

/* The exit code that belongs to the outcome of a call. */
int cli_code(int r);

/* The same for a failure of a call: prints its sentence, and finds the code that belongs to it. */
int cli_failed(int r, const struct err *err);
int cli_result(int r, const struct err *err); /* CLI_OK, or the same */

/* The arguments are wrong: prints a sentence and the command's usage. */
int cli_usage(const struct cli *cli, const char *fmt, ...) printf_like(2, 3);

/* Prints an answer of the API as it is, for --json: indented on a terminal, on one line elsewhere.
 */
void cli_print_json(const json_t *json);

/* Tells that a thing of that name was removed or changed: "Deleted NAME", NAME with -q, or
 * {"name": NAME} with --json. Without `done`: nothing, unless it is asked for. */
void cli_print_done(const struct cli *cli, const char *done, const char *name);

/* ---- the daemon of this data directory (call.c) ---- */

struct endpoint {
    char url[256];
    char key[128];   /* the default team's */
    char admin[128]; /* the operator's, for /admin; "": not wanted. Both are sent if both are set */
    char ca[512];    /* a file with the authorities to trust; "": those of the environment */
};

/* Errors of calls, beside the errors of the system. */
enum {
    CALL_NOT_FOUND = ENODATA,   /* the daemon has nothing of that name (404) */
    CALL_NO_DAEMON = EHOSTDOWN, /* no daemon was found to be asked */
};

/* -CALL_NO_DAEMON with a sentence when no daemon serves the data directory, -EACCES when the caller
 * may not know its key. */
must_check int endpoint_find(const struct cli *cli, struct endpoint *out, struct err *err);

/* The daemon of --url or --data, if one was given; else the daemon that the SDKs would choose by
 * E2B_API_URL and E2B_API_KEY. Values that neither gives come from the data directory. */
must_check int endpoint_choose(const struct cli *cli, struct endpoint *out, struct err *err);

/* Calls `one` for every word behind the sub-command. All are tried: each failure is a sentence with
 * its word, and each success is told as cli_print_done() does. Returns the exit code: for one word
 * the code of its failure, for several CLI_FAILED if one failed. */
int cli_each_word(const struct cli *cli, const struct endpoint *endpoint,
                  int (*one)(const struct endpoint *endpoint, const char *word, struct err *err),
                  const char *done);

/* A sub-command that asks the daemon, once or for each of its words. */
struct daemon_call {
    const char *name;
    int (*run)(const struct cli *cli, const struct endpoint *endpoint, struct err *err);
    int (*each)(const struct endpoint *endpoint, const char *word, struct err *err); /* or run */
    const char *done; /* of each, for cli_each_word() */
};

/* Chooses the daemon and runs the row of cli->sub. Returns the exit code. */
int cli_daemon_call(const struct cli *cli, const struct daemon_call *subs, size_t n);

/* The daemon with the operator's rights: by ATOLL_ADMIN_KEY (and E2B_API_URL) if it is set, else by
 * the token in the data directory. */
must_check int endpoint_admin(const struct cli *cli, struct endpoint *out, struct err *err);

/* Sends a request with the key and waits for the answer. `body` may be NULL. A status other than
 * 2xx is a failure with the API's own message. *answer is NULL when there was no body; the caller
 * decrefs it. Blocks. */
must_check int endpoint_call(const struct endpoint *endpoint, const char *method, const char *path,
                             const json_t *body, json_t **answer, struct err *err);
/* The same for an answer that is data: its texts keep their control characters, so they are not for
 * a terminal (terminal_text.h). */
must_check int endpoint_call_verbatim(const struct endpoint *endpoint, const char *method,
                                      const char *path, const json_t *body, json_t **answer,
                                      struct err *err);

/* A request that is sent together with others. */
struct request {
    const char *method;
    char path[256];
    const json_t *body; /* or NULL */
    json_t *answer;     /* the caller decrefs it; NULL: none */
    int r;
    struct err err; /* when r is negative */
};

/* Sends all, several at a time, and waits for all answers. Blocks. */
void endpoint_call_all(const struct endpoint *endpoint, struct request *requests, size_t n);

/* The same for a GET whose answer is a list, page by page: calls each with every row. */
must_check int endpoint_each(const struct endpoint *endpoint, const char *path,
                             void (*each)(void *ctx, const json_t *row), void *ctx,
                             struct err *err);

/* All rows of such a list in one, with their control characters: for --json and for a grid. */
must_check int endpoint_list(const struct endpoint *endpoint, const char *path, json_t **list,
                             struct err *err);

/* The same for a GET whose answer is lines: calls line with each as it comes, without its newline,
 * until the daemon ends the answer. */
must_check int endpoint_lines(const struct endpoint *endpoint, const char *path,
                              void (*line)(void *ctx, struct str line), void *ctx, struct err *err);

/* PUTs a file to a URL that the API of this daemon gave. */
must_check int endpoint_upload(const struct endpoint *endpoint, const char *url, int fd,
                               int64_t bytes, struct err *err);

/* Sends a file as the body of a call, from its position. */
must_check int endpoint_send(const struct endpoint *endpoint, const char *method, const char *path,
                             int fd, int64_t bytes, json_t **answer, struct err *err);

/* Writes the answer of a call to a file as it comes. A failure may leave a part of it there. */
must_check int endpoint_save(const struct endpoint *endpoint, const char *method, const char *path,
                             int fd, struct err *err);

/* GETs a file of a sandbox into an unnamed one, which is the caller's. */
must_check int endpoint_download(const struct endpoint *endpoint, const char *sandbox_id,
                                 const char *path, struct err *err);

/* For the path of a request: "/" and other characters with a meaning there become %XX. */
void endpoint_escape(const char *text, char *out, size_t size);

/* ---- its answers ---- */

/* A member of an answer, for a person's eyes: "-" when there is none. */
const char *answer_text(const json_t *object, const char *name);

#endif
