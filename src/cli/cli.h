/* cli.h - the `atoll` command line: one command is one file and one row of the table in main.c. */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/base/compiler.h"
#include "lib/base/err.h"
#include "lib/base/json.h"
#include "lib/base/str.h"
#include "serve/daemon/config.h"
#include "serve/daemon/paths.h"

enum { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2, CLI_INTERRUPTED = 130 };

enum { CLI_OPTIONS_MAX = 64 };

struct cli {
    const char *program; /* as the user called us */
    struct config config;
    struct paths paths;
    char **words; /* after the command's name, without flags */
    int words_n;
    bool flag;       /* the command's own flag was given */
    bool data_named; /* --data was given: it wins over the SDKs' variables */
    struct {
        const char *name, *value;
    } options[CLI_OPTIONS_MAX]; /* the command's own options with a value, in order */
    int options_n;
};

/* Each returns an exit code. */
int cli_serve(struct cli *cli);
int cli_prepare(struct cli *cli);
int cli_keeper(struct cli *cli);
int cli_env(struct cli *cli);
int cli_ca(struct cli *cli);
int cli_doctor(struct cli *cli);
int cli_sandbox_history(struct cli *cli, const char *id); /* doctor's, of one sandbox */
int cli_logs(struct cli *cli);
int cli_disk(struct cli *cli);
int cli_key(struct cli *cli);
int cli_team(struct cli *cli);
int cli_admin_key(struct cli *cli);
int cli_shell(struct cli *cli);
int cli_template(struct cli *cli);
int cli_template_build(struct cli *cli); /* template's, of one Dockerfile */
int cli_mcp(struct cli *cli);
int cli_tool(struct cli *cli);
int cli_version(struct cli *cli);
int cli_help(struct cli *cli);

/* Printed by `COMMAND --help`, and by a command that is called with wrong arguments. */
extern const char cli_ca_usage[], cli_env_usage[], cli_disk_usage[], cli_logs_usage[],
    cli_key_usage[], cli_team_usage[], cli_admin_key_usage[], cli_shell_usage[],
    cli_template_usage[], cli_mcp_usage[], cli_tool_usage[];

/* Prints "atoll: <sentence>" on stderr and returns the code. */
int cli_fail(int code, const char *fmt, ...) printf_like(2, 3);

/* ---- the daemon of this data directory (call.c) ---- */

struct endpoint {
    char url[256];
    char key[128];   /* the default team's */
    char admin[128]; /* the operator's, for /admin; "": not wanted */
};

/* -ENOENT with a sentence when no daemon serves the data directory, -EACCES when the caller may not
 * know its key. */
must_check int endpoint_find(const struct cli *cli, struct endpoint *out, struct err *err);

/* The daemon of --data, if that was given; else the daemon that the SDKs would choose by
 * E2B_API_URL and E2B_API_KEY. Values that neither gives come from the data directory. */
must_check int endpoint_choose(const struct cli *cli, struct endpoint *out, struct err *err);

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

/* The same for a GET whose answer is a list, page by page: calls each with every row. */
must_check int endpoint_each(const struct endpoint *endpoint, const char *path,
                             void (*each)(void *ctx, const json_t *row), void *ctx,
                             struct err *err);

/* The same for a GET whose answer is lines: calls line with each as it comes, without its newline,
 * until the daemon ends the answer. */
must_check int endpoint_lines(const struct endpoint *endpoint, const char *path,
                              void (*line)(void *ctx, struct str line), void *ctx, struct err *err);

/* PUTs a file to a URL that the API of this daemon gave. */
must_check int endpoint_upload(const struct endpoint *endpoint, const char *url, int fd,
                               int64_t bytes, struct err *err);

/* GETs a file of a sandbox into an unnamed one, which is the caller's. */
must_check int endpoint_download(const struct endpoint *endpoint, const char *sandbox_id,
                                 const char *path, struct err *err);

/* For the path of a request: "/" and other characters with a meaning there become %XX. */
void endpoint_escape(const char *text, char *out, size_t size);

/* ---- its answers ---- */

/* A member of an answer, for a person's eyes: "-" when there is none. */
const char *answer_text(const json_t *object, const char *name);

#endif
