#include <unistd.h>

#include "cli/cli.h"
#include "daemon/prepare.h"
#include "daemon/stop.h"
#include "daemon/supervisor.h"

int cli_serve(struct cli *cli)
{
    if (geteuid() == 0) {
        return supervisor_run(&cli->config, &cli->places, cli->program);
    }
    return supervisor_unprivileged(&cli->config, &cli->places, cli->program);
}

int cli_keeper(struct cli *cli)
{
    if (geteuid() != 0) {
        return cli_fail(CLI_FAILED, "the keeper must be started as root");
    }
    return supervisor_keeper(&cli->config, &cli->places);
}

int cli_prepare(struct cli *cli)
{
    struct identity who;
    struct err err;
    sigset_t signals;

    if (geteuid() != 0) {
        return cli_fail(CLI_FAILED, "prepare must be started as root");
    }
    stop_block(&signals);
    if (prepare(&cli->config, &cli->places, &who, &err) < 0) {
        return cli_fail(CLI_FAILED, "%s", err.msg);
    }
    return CLI_OK;
}
