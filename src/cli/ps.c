#include <stdio.h>
#include <string.h>

#include "cli/fleet.h"

static const struct grid_column columns[] = {
    {.title = "ID"},
    {.title = "TEMPLATE", .shrinks = true},
    {.title = "STATE"},
    {.title = "AGE", .right = true},
    {.title = "LEFT", .right = true},
    {.title = "CPU", .right = true},
    {.title = "MEMORY", .right = true},
    {.title = "DISK", .right = true},
    {.title = "METADATA", .shrinks = true},
};

static void fleet_print(const struct fleet *fleet)
{
    scoped(grid_fini) struct grid grid = grid_of(columns);

    for (size_t i = 0; i < fleet->n; i++) {
        const struct fleet_row *row = &fleet->rows[i];
        const char *alias = json_string_of(row->sandbox, "alias");
        grid_add(&grid, json_text_of(row->sandbox, "sandboxID"));
        grid_add(&grid, alias ? alias : json_text_of(row->sandbox, "templateID"));
        fleet_add_state(&grid, row);
        fleet_add_age(&grid, row);
        fleet_add_left(&grid, row);
        fleet_add_cpu(&grid, row);
        fleet_add_size(&grid, row, "memUsed");
        fleet_add_size(&grid, row, "diskUsed");
        fleet_add_metadata(&grid, row);
    }
    grid_print(&grid, stdout);
}

static int ps(struct cli *cli)
{
    scoped(fleet_fini) struct fleet fleet = {0};
    struct endpoint endpoint;
    struct err err;
    bool plain = cli->json || cli->quiet;

    int r = endpoint_choose(cli, &endpoint, &err);
    r = r < 0 ? r : fleet_read(cli, &endpoint, plain ? FLEET_PLAIN : FLEET_LATEST, &fleet, &err);
    if (r < 0) {
        return cli_failed(r, &err);
    }
    if (cli->json) {
        cli_print_json(fleet.list);
    } else if (cli->quiet) {
        for (size_t i = 0; i < fleet.n; i++) {
            printf("%s\n", json_text_of(fleet.rows[i].sandbox, "sandboxID"));
        }
    } else {
        fleet_print(&fleet);
    }
    return CLI_OK;
}

static const struct option options[] = {
    {.name = "--all", .letter = "-a", .help = "paused sandboxes too"},
    FLEET_FILTERS,
    {.name = NULL},
};

const struct command row_ps = {
    .name = "ps",
    .args = "[-a] [--state STATE] [--template NAME] [-m KEY=VALUE]",
    .summary = "lists sandboxes with their figures",
    .run = ps,
    .group = GROUP_SANDBOXES,
    .bits = COMMAND_JSON | COMMAND_QUIET,
    .options = options,
    .about = "AGE counts from the creation, also over pauses; LEFT is the time until the end.\n"
             "`atoll top` shows the same live.",
    .examples = "atoll ps -a\n"
                "atoll ps -q --metadata user=ann | xargs atoll kill",
};
