#include <stdio.h>
#include <string.h>

#include "cli/fleet.h"
#include "cli/sandboxes.h"
#include "lib/base/alloc.h"

/* At a terminal the user confirms; a script meant it. */
static bool is_sure(const struct cli *cli, size_t n)
{
    char answer[16] = "";

    if (cli_has(cli, "--yes") || !terminal_is(stdin) || n == 0) {
        return true;
    }
    (void)fprintf(stderr, "Kill %zu sandbox%s? [y/N] ", n, n == 1 ? "" : "es");
    return fgets(answer, sizeof(answer), stdin) && (answer[0] == 'y' || answer[0] == 'Y');
}

static int kill_all(const struct cli *cli, const struct endpoint *endpoint,
                    const struct sandbox_action *action)
{
    scoped(fleet_fini) struct fleet fleet = {0};
    struct err err;
    int r = fleet_read(cli, endpoint, FLEET_PLAIN, &fleet, &err);

    if (r < 0) {
        return cli_failed(r, &err);
    }
    if (!is_sure(cli, fleet.n)) {
        return cli_fail(CLI_FAILED, "nothing was killed");
    }
    char **ids = xcalloc(fleet.n + 1, sizeof(*ids));
    for (size_t i = 0; i < fleet.n; i++) {
        ids[i] = xstrdup(json_text_of(fleet.rows[i].sandbox, "sandboxID"));
    }
    int code = sandboxes_act(cli, endpoint, ids, (int)fleet.n, action);
    for (size_t i = 0; i < fleet.n; i++) {
        free(ids[i]);
    }
    free(ids);
    return code;
}

static int command_kill(struct cli *cli)
{
    const struct sandbox_action action = {"DELETE", "/sandboxes/%s", NULL, "Killed"};
    struct endpoint endpoint;
    struct err err;
    bool all = cli_has(cli, "--all");
    bool filters =
        cli_has(cli, "--state") || cli_has(cli, "--template") || cli_has(cli, "--metadata");

    if (all == (cli->words_n > 0) || (filters && !all)) {
        return cli_usage(cli, "kill needs either ids, or --all with or without filters");
    }
    int r = endpoint_choose(cli, &endpoint, &err);
    if (r < 0) {
        return cli_failed(r, &err);
    }
    return all ? kill_all(cli, &endpoint, &action)
               : sandboxes_act(cli, &endpoint, cli->words, cli->words_n, &action);
}

static const struct option options[] = {
    {.name = "--all", .help = "all sandboxes that the filters choose"},
    FLEET_FILTERS,
    {.name = "--yes", .letter = "-y", .help = "do not ask before --all at a terminal"},
    {.name = NULL},
};

const struct command row_kill = {
    .name = "kill",
    .args = "ID... | --all [FILTERS]",
    .summary = "ends sandboxes, running or paused; their files are gone",
    .run = command_kill,
    .group = GROUP_SANDBOXES,
    .bits = COMMAND_JSON | COMMAND_QUIET,
    .words_max = WORDS_ANY,
    .takes = TAKES_SANDBOX,
    .options = options,
    .about = "An id may be cut short where it stays unique.",
    .examples = "atoll kill i7i9\n"
                "atoll kill --all --state paused --yes",
};
