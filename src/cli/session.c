#include "cli/session.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "cli/sandboxes.h"
#include "cli/units.h"

enum {
    COLS_DEFAULT = 80,
    ROWS_DEFAULT = 24,
    CODE_NOT_FOUND = 127,   /* as shells have it */
    CODE_NOT_STARTED = 126, /* likewise */
    CODE_OUTPUT_LOST = 141, /* as of a program that SIGPIPE ended */
};

/* Templates differ in their shells; every one that can be entered has /bin/sh. */
const char *const session_shell[] = {
    "/bin/sh", "-c",
    "s=${SHELL:-}; [ -x \"$s\" ] || s=$(command -v bash || echo /bin/sh); exec \"$s\" -l", NULL};

void session_tell_resumed(const struct cli *cli, const struct link *link, int resume_s)
{
    char span[UNITS_BYTES];

    if (!cli->quiet) {
        (void)fprintf(stderr,
                      "Resumed sandbox %s, which was paused; it has %s until its timeout.\n",
                      link->id, units_age(resume_s, span));
    }
}

int session_link(const struct cli *cli, const char *word, int resume_s, struct link *out,
                 struct err *err)
{
    struct endpoint endpoint;
    char id[ID_SANDBOX_LEN + 1];
    bool resumed = false;
    int r = endpoint_choose(cli, &endpoint, err);

    r = r < 0 ? r : sandbox_find(&endpoint, word, id, err);
    r = r < 0 ? r : link_open(&endpoint, id, resume_s, out, &resumed, err);
    if (r == 0 && resumed) {
        session_tell_resumed(cli, out, resume_s);
    }
    return r;
}

int session_values(const struct cli *cli, const char *option, const char **out)
{
    int n = 0;

    for (int i = 0; i < cli->options_n; i++) {
        if (strcmp(cli->options[i].name, option) == 0) {
            out[n++] = cli->options[i].value;
        }
    }
    return n;
}

static int env_make(const struct session *session, json_t **out, struct err *err)
{
    json_t *env = json_object();
    const char *term = getenv("TERM");

    if (session->terminal) {
        (void)json_object_set_new(env, "TERM",
                                  json_string(term && term[0] ? term : "xterm-256color"));
    }
    for (int i = 0; i < session->env_n; i++) {
        const char *equals = strchr(session->env[i], '=');
        char name[256];
        const char *value = NULL;
        size_t len = equals ? (size_t)(equals - session->env[i]) : strlen(session->env[i]);

        if (len > 0 && str_copy(name, sizeof(name), (struct str){session->env[i], len})) {
            value = equals ? equals + 1 : getenv(name); /* a name alone: our own value */
        }
        if (!value || json_object_set_new(env, name, json_string(value)) < 0) {
            json_decref(env);
            return err_set(err, EINVAL,
                           "-e %.80s: give NAME=VALUE, or the NAME of a variable that is set",
                           session->env[i]);
        }
    }
    *out = env;
    return 0;
}

static int terminal_enter(struct termios *before, struct process_plan *process, struct err *err)
{
    struct winsize size = {0};

    if (tcgetattr(STDIN_FILENO, before) < 0) {
        return err_set(err, ENOTTY, "stdin is not a terminal: leave out -t");
    }
    (void)ioctl(STDIN_FILENO, TIOCGWINSZ, &size);
    process->cols = size.ws_col ? size.ws_col : COLS_DEFAULT;
    process->rows = size.ws_row ? size.ws_row : ROWS_DEFAULT;
    struct termios raw = *before;
    cfmakeraw(&raw);
    return tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) < 0 ? err_sys(err, "set the terminal's mode")
                                                        : 0;
}

int session_run(const struct session *session, struct remote_end *end, struct err *err)
{
    bool input = (session->input || session->terminal) && !session->detach;
    scoped_json *env = NULL;
    struct remote_plan plan = {
        .link = session->link,
        .user = session->user,
        .process = {.argv = session->argv, .cwd = session->cwd, .takes_input = input},
        .input = input ? STDIN_FILENO : -1,
        .terminal = session->terminal,
        .detach = session->detach,
        .ends_at_once = session->ends_at_once,
        .keep_alive_s = session->keep_alive_s,
        .attach_pid = session->attach_pid,
        .signals = session->signals,
        .output = session->spares_stdout ? remote_print_aside : remote_print,
    };
    struct termios before;

    *end = (struct remote_end){0};
    int r = env_make(session, &env, err);
    plan.process.env = env;
    if (r == 0 && session->terminal) {
        r = terminal_enter(&before, &plan.process, err);
    }
    if (r < 0) {
        return r;
    }
    r = remote_run(&plan, end, err);
    if (session->terminal) {
        (void)tcsetattr(STDIN_FILENO, TCSADRAIN, &before);
    }
    return r;
}

int session_code(int r, const struct remote_end *end, const struct err *err)
{
    if (r == 0) {
        return end->code;
    }
    if (r == -EPIPE) {
        return CODE_OUTPUT_LOST;
    }
    if (!end->unstartable) {
        return cli_failed(r, err);
    }
    bool missing = strstr(err->msg, "not found") || strstr(err->msg, "No such file");
    return cli_fail(missing ? CODE_NOT_FOUND : CODE_NOT_STARTED, "%s", err->msg);
}

void session_print_json(const char *id, int code)
{
    scoped_json *line = json_pack("{sssi}", "sandboxID", id, "exitCode", code);
    char *text = json_dumps(line, JSON_COMPACT);

    (void)fprintf(stderr, "%s\n", text ? text : "null");
    free(text);
}
