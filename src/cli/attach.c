/* attach.c - prints the output of a command that runs in a sandbox already, and waits for its end.
 */
#include <stdio.h>
#include <stdlib.h>

#include "cli/session.h"

static bool pid_read(const char *text, uint32_t *out)
{
    char *end = NULL;
    unsigned long pid = strtoul(text, &end, 10);

    *out = (uint32_t)pid;
    return text[0] >= '1' && text[0] <= '9' && !*end && pid <= INT32_MAX;
}

static int attach_run(struct cli *cli)
{
    struct remote_signals signals = {.fd = -1};
    struct remote_end end = {0};
    struct link link = {0};
    struct err err;
    struct session session = {.link = &link, .signals = &signals, .ends_at_once = true};

    if (!pid_read(cli->words[1], &session.attach_pid)) {
        return cli_usage(cli, "'%.32s' is not a pid as `atoll exec -d` prints it", cli->words[1]);
    }
    int r = session_link(cli, cli->words[0], LINK_RESUMED_S, &link, &err);
    r = r < 0 ? r : remote_signals_open(&signals, &err);
    r = r < 0 ? r : session_run(&session, &end, &err);
    remote_signals_close(&signals);
    if (r < 0 && end.unknown) {
        return cli_fail(CLI_NOT_FOUND,
                        "%s has no command with the pid %u; one that has ended is kept for 30 s",
                        link.id, session.attach_pid);
    }
    int code = session_code(r, &end, &err);
    if (cli->json && link.id[0]) {
        session_print_json(link.id, code);
    }
    return code;
}

static const struct option options[] = {
    {.name = "--json", .help = "end stderr with the sandbox's id and the exit code"},
    {.name = "--quiet", .letter = "-q", .help = "do not tell that a sandbox was resumed"},
    {.name = NULL},
};

const struct command row_attach = {
    .name = "attach",
    .args = "ID PID",
    .summary = "prints the output of a command that was started with `exec -d`",
    .run = attach_run,
    .group = GROUP_SANDBOXES,
    .bits = COMMAND_JSON | COMMAND_QUIET,
    .words_min = 2,
    .words_max = 2,
    .takes = TAKES_SANDBOX,
    .options = options,
    .about = "\nPrints what the command has written and nobody has read yet (the last 1 MB of\n"
             "it) and what it writes from now on, waits for its end, and exits with its\n"
             "code. Ctrl-C leaves it running. The output is kept for 30 s after the command\n"
             "has ended: to read it later, or twice, let the command write into a file.",
    .examples = "pid=$(atoll exec -d i7i9 make all)\n"
                "atoll attach i7i9 $pid",
};
