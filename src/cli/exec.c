/* exec.c - runs a command in a sandbox. */
#include <stdio.h>
#include <unistd.h>

#include "cli/session.h"
#include "cli/units.h"

static int detached_print(const struct cli *cli, const struct remote_end *end)
{
    if (cli->json) {
        scoped_json *answer = json_pack("{sI}", "pid", (json_int_t)end->pid);
        cli_print_json(answer);
    } else {
        printf("%u\n", end->pid);
    }
    return CLI_OK;
}

/* The time that a paused sandbox gets. False: --timeout is none. */
static bool resume_read(const struct cli *cli, int64_t *seconds)
{
    const char *limit = cli_option(cli, "--timeout");

    *seconds = LINK_RESUMED_S;
    return !limit || (units_duration(limit, seconds) && *seconds > 0);
}

static int exec_run(struct cli *cli)
{
    const char *env[CLI_OPTIONS_MAX];
    struct remote_signals signals = {.fd = -1};
    struct remote_end end = {0};
    struct link link = {0};
    struct err err;
    int64_t resume_s;
    struct session session = {
        .link = &link,
        .signals = &signals,
        .user = cli_option(cli, "--user"),
        .cwd = cli_option(cli, "--workdir"),
        .argv = (const char *const *)(const void *)cli->rest,
        .env = env,
        .env_n = session_values(cli, "--env", env),
        .input = cli_has(cli, "--interactive") || !isatty(STDIN_FILENO),
        .terminal = cli_has(cli, "--tty"),
        .detach = cli_has(cli, "--detach"),
    };

    if (cli->rest_n == 0) {
        return cli_usage(cli, "name a command: atoll exec %s ls -l", cli->words[0]);
    }
    if (session.detach && session.terminal) {
        return cli_usage(cli, "-d and -t exclude each other");
    }
    if (!resume_read(cli, &resume_s)) {
        return cli_usage(cli, "--timeout takes a time such as 90, 5m or 2h, not '%.32s'",
                         cli_option(cli, "--timeout"));
    }
    int r = session_link(cli, cli->words[0], (int)resume_s, &link, &err);
    r = r < 0 ? r : remote_signals_open(&signals, &err);
    r = r < 0 ? r : session_run(&session, &end, &err);
    remote_signals_close(&signals);
    if (r == 0 && session.detach && !end.interrupted) {
        return detached_print(cli, &end);
    }
    int code = session_code(r, &end, &err);
    if (cli->json && link.id[0]) {
        session_print_json(link.id, code);
    }
    return code;
}

static const struct option exec_options[] = {
    {.name = "--interactive", .letter = "-i", .help = "pass stdin on, also from a terminal"},
    {.name = "--tty", .letter = "-t", .help = "give the command a terminal, as large as this one"},
    {.name = "--user", .letter = "-u", .value = "USER", .help = "run it as this user"},
    {.name = "--workdir", .letter = "-w", .value = "DIR", .help = "run it in this directory"},
    {.name = "--env",
     .letter = "-e",
     .value = "NAME=VALUE",
     .help = "set a variable; NAME alone passes ours on",
     .repeats = true},
    {.name = "--detach", .letter = "-d", .help = "print its pid, do not wait: see `atoll attach`"},
    {.name = "--timeout",
     .value = "TIME",
     .help = "a paused sandbox is resumed for that long [5m]"},
    {.name = "--json", .help = "end stderr with the sandbox's id and the exit code"},
    {.name = "--quiet", .letter = "-q", .help = "do not tell that the sandbox was resumed"},
    {.name = NULL},
};

const struct command row_exec = {
    .name = "exec",
    .args = "[-it] [-u USER] [-w DIR] [-e NAME=VALUE] [-d] ID COMMAND...",
    .summary = "runs a command in a sandbox",
    .run = exec_run,
    .group = GROUP_SANDBOXES,
    .bits = COMMAND_JSON | COMMAND_QUIET,
    .words_min = 1,
    .words_max = 1,
    .plain_words = 1,
    .takes = TAKES_SANDBOX,
    .options = exec_options,
    .about = "The exit code is that of the command, or 128 and the number of the signal that\n"
             "ended it; 126 and 127 mean that it could not be started. stdin is passed on if\n"
             "it is no terminal: in a loop over lines, add </dev/null. Ctrl-C ends the\n"
             "command; with -t it goes inside.",
    .examples = "atoll exec -it i0123456789abcdefghij bash\n"
                "cat data.csv | atoll exec i0123456789abcdefghij sort",
};
