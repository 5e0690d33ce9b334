#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#include "cli/cli.h"
#include "keeper/probe.h"

static const char *const words[] = {
    [PROBE_OK] = "ok",
    [PROBE_DEGRADED] = "degraded",
    [PROBE_MISSING] = "missing",
};

/* Returns whether it is there. */
static bool file_check(const char *name, const char *path, const char *advice)
{
    bool there = path[0] && access(path, R_OK) == 0;

    printf("%-9s %-20s %s\n", words[there ? PROBE_OK : PROBE_MISSING], name, there ? path : advice);
    return there;
}

int cli_doctor(struct cli *cli)
{
    struct probe_result results[PROBE_RESULTS_MAX];
    bool well = true;

    if (cli->words_n == 1) {
        return cli_story(cli, cli->words[0]);
    }
    if (geteuid() != 0) {
        (void)fprintf(stderr, "atoll: most of this can be seen by root alone: try sudo\n");
    }
    size_t n = probe_machine(cli->config.data, results);
    for (size_t i = 0; i < n; i++) {
        printf("%-9s %-20s %s\n", words[results[i].verdict], results[i].name, results[i].sentence);
        well = well && results[i].verdict != PROBE_MISSING;
    }
    well &= file_check("agent", cli->places.agent, "not beside this program: name it with --agent");
    well &= file_check("base template", cli->places.recipe,
                       "its recipe is not beside this program: name its directory with "
                       "--templates");
    return well ? CLI_OK : CLI_FAILED;
}
