/* connect.c - a login shell in a sandbox, at this terminal. */
#include <stdio.h>
#include <unistd.h>

#include "cli/session.h"

enum { CONNECT_ALIVE_S = 60 }; /* the sandbox does not end while somebody is in it */

static int connect_run(struct cli *cli)
{
    struct remote_signals signals = {.fd = -1};
    struct remote_end end = {0};
    struct link link;
    struct err err;
    bool person = isatty(STDIN_FILENO);
    struct session session = {
        .link = &link,
        .signals = &signals,
        .user = cli_option(cli, "--user"),
        .cwd = cli_option(cli, "--workdir"),
        .argv = session_shell,
        .input = true,
        .terminal = person,
        .keep_alive_s = CONNECT_ALIVE_S,
    };
    int r = session_link(cli, cli->words[0], LINK_RESUMED_S, &link, &err);

    r = r < 0 ? r : remote_signals_open(&signals, &err);
    if (r == 0 && person) {
        (void)fprintf(stderr, "Connected to %s. Leave with `exit` or Ctrl-D; it keeps running.\n",
                      link.id);
    }
    r = r < 0 ? r : session_run(&session, &end, &err);
    remote_signals_close(&signals);
    return session_code(r, &end, &err);
}

static const struct option connect_options[] = {
    {.name = "--user", .letter = "-u", .value = "USER", .help = "log in as this user"},
    {.name = "--workdir", .letter = "-w", .value = "DIR", .help = "begin in this directory"},
    {.name = NULL},
};

const struct command row_connect = {
    .name = "connect",
    .args = "ID",
    .summary = "opens a terminal in a sandbox, and resumes it if it is paused",
    .run = connect_run,
    .group = GROUP_SANDBOXES,
    .words_min = 1,
    .words_max = 1,
    .takes = TAKES_SANDBOX,
    .options = connect_options,
    .about = "\nStarts a login shell. `exit` or Ctrl-D leaves it; the sandbox keeps running,\n"
             "and does not reach its timeout while the terminal is open. Without a terminal\n"
             "the shell reads its commands from stdin.",
    .examples = "atoll connect i0123456789abcdefghij",
};
