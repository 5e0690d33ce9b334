#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "serve/daemon/prepare_host.h"
#include "serve/daemon/stop.h"
#include "serve/daemon/supervisor.h"
#include "serve/daemon/template_preparer.h"

static int serve(struct cli *cli)
{
    if (geteuid() == 0) {
        return supervisor_run(&cli->config, &cli->paths, cli->program);
    }
    return supervisor_unprivileged(&cli->config, &cli->paths, cli->program);
}

static int keeper(struct cli *cli)
{
    if (geteuid() != 0) {
        return cli_fail(CLI_FAILED, "the keeper must be started as root");
    }
    return supervisor_keeper(&cli->config, &cli->paths);
}

static int prepare(struct cli *cli)
{
    struct server_user who;
    struct err err;
    sigset_t signals;

    if (geteuid() != 0) {
        return cli_fail(CLI_FAILED, "prepare must be started as root");
    }
    stop_block(&signals);
    if (cli->words_n == 1 && strcmp(cli->words[0], "all") != 0) {
        return cli_fail(CLI_USAGE, "prepare takes `all` or nothing, not '%s'", cli->words[0]);
    }
    if (prepare_host(&cli->config, &cli->paths, &who, &err) < 0) {
        return cli_fail(CLI_FAILED, "%s", err.msg);
    }
    if (cli->words_n == 0) {
        return CLI_OK;
    }
    template_preparer_announce(&cli->config, &cli->paths);
    /* An error has been printed. */
    return template_preparer_once(&cli->config, &cli->paths) < 0 ? CLI_FAILED : CLI_OK;
}

const struct command row_serve = {
    .name = "serve",
    .args = "[--listen ADDR:PORT] [--data DIR] [SETTINGS]",
    .summary = "prepares the machine and serves the API",
    .run = serve,
    .group = GROUP_DAEMON,
    .bits = COMMAND_DAEMON,
    .about = "As root it also starts the keeper, the privileged process.\n"
             "\nSettings that are used most:\n"
             "  --listen ADDR:PORT       address of the API and of all sandbox traffic\n"
             "  --tls-listen ADDR:PORT   address for TLS\n"
             "  --domain NAME            domain of the API and of sandbox ports\n"
             "  --data DIR               directory of the state and of sandbox disks\n"
             "  --with-templates LIST    built-in templates to prepare, or none\n"
             "  --log-level LEVEL        debug, info, warn or error",
    .examples = "sudo atoll serve\n"
                "sudo atoll serve --listen 0.0.0.0:3000 --domain sandboxes.example.com",
};

const struct command row_prepare = {
    .name = "prepare",
    .args = "[all]",
    .summary = "creates the user, data directory, pool and base template",
    .run = prepare,
    .group = GROUP_DAEMON,
    .bits = COMMAND_DAEMON,
    .words_max = 1,
    .choices = "all",
    .about = "With `all`: every built-in template too.",
    .examples = "sudo atoll prepare all",
};

const struct command row_keeper = {
    .name = "keeper",
    .args = "[--data DIR] [SETTINGS]",
    .summary = "runs the privileged process alone, for a service manager",
    .run = keeper,
    .group = GROUP_DAEMON,
    .bits = COMMAND_DAEMON,
    .about = "`atoll serve` as root starts its own.",
};
