#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "serve/daemon/prepare_host.h"
#include "serve/daemon/stop.h"
#include "serve/daemon/supervisor.h"
#include "serve/daemon/template_preparer.h"

int cli_serve(struct cli *cli)
{
    if (geteuid() == 0) {
        return supervisor_run(&cli->config, &cli->paths, cli->program);
    }
    return supervisor_unprivileged(&cli->config, &cli->paths, cli->program);
}

int cli_keeper(struct cli *cli)
{
    if (geteuid() != 0) {
        return cli_fail(CLI_FAILED, "the keeper must be started as root");
    }
    return supervisor_keeper(&cli->config, &cli->paths);
}

int cli_prepare(struct cli *cli)
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
    if (cli->words_n == 1 && template_preparer_once(&cli->config, &cli->paths) < 0) {
        return CLI_FAILED; /* the error has been printed */
    }
    return CLI_OK;
}
