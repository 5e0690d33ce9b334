#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/fleet.h"
#include "cli/sandboxes.h"

static const struct grid_column columns[] = {
    {.title = "ID"},
    {.title = "CPU", .right = true},
    {.title = "CPUS", .right = true},
    {.title = "MEMORY", .right = true},
    {.title = "OF", .right = true},
    {.title = "CACHE", .right = true},
    {.title = "DISK", .right = true},
    {.title = "OF", .right = true},
};

/* Sandboxes that were named, or all. */
static bool is_wanted(const char *id, const json_t *ids)
{
    return json_object_size(ids) == 0 || json_object_get(ids, id);
}

static void fleet_print(const struct fleet *fleet, const json_t *ids)
{
    scoped(grid_fini) struct grid grid = grid_of(columns);

    for (size_t i = 0; i < fleet->n; i++) {
        const struct fleet_row *row = &fleet->rows[i];
        const char *id = json_text_of(row->sandbox, "sandboxID");
        if (!is_wanted(id, ids)) {
            continue;
        }
        grid_add(&grid, id);
        fleet_add_cpu(&grid, row);
        grid_addf(&grid, "%lld",
                  (long long)json_integer_value(json_object_get(row->sandbox, "cpuCount")));
        fleet_add_size(&grid, row, "memUsed");
        fleet_add_size(&grid, row, "memTotal");
        fleet_add_size(&grid, row, "memCache");
        fleet_add_size(&grid, row, "diskUsed");
        fleet_add_size(&grid, row, "diskTotal");
    }
    grid_print(&grid, stdout);
}

static void fleet_json(const struct fleet *fleet, const json_t *ids)
{
    scoped_json *out = json_object();

    for (size_t i = 0; i < fleet->n; i++) {
        const char *id = json_text_of(fleet->rows[i].sandbox, "sandboxID");
        if (is_wanted(id, ids)) {
            (void)json_object_set(out, id,
                                  fleet->rows[i].figures ? json_unconst(fleet->rows[i].figures)
                                                         : json_null());
        }
    }
    cli_print_json(out);
}

/* A sandbox that is named must run: all others have no figures. */
static int ids_find(const struct cli *cli, const struct fleet *fleet, json_t *ids,
                    const struct endpoint *endpoint, struct err *err)
{
    json_t *list = fleet->list;
    char id[ID_SANDBOX_LEN + 1];
    int r = 0;

    for (int i = 0; r == 0 && i < cli->words_n; i++) {
        bool there = false;
        r = sandbox_find_in(endpoint, cli->words[i], &list, id, err);
        for (size_t n = 0; r == 0 && n < fleet->n; n++) {
            there = there || strcmp(json_text_of(fleet->rows[n].sandbox, "sandboxID"), id) == 0;
        }
        if (r == 0 && !there) {
            r = err_set(err, CALL_NOT_FOUND, "no sandbox %s runs", id);
        }
        (void)json_object_set_new(ids, r == 0 ? id : "-", json_true());
    }
    return r;
}

static int stats(struct cli *cli)
{
    scoped(fleet_fini) struct fleet fleet = {0};
    scoped_json *ids = json_object();
    struct endpoint endpoint;
    struct err err;

    int r = endpoint_choose(cli, &endpoint, &err);
    r = r < 0 ? r : fleet_read(cli, &endpoint, FLEET_METRICS, &fleet, &err);
    r = r < 0 ? r : ids_find(cli, &fleet, ids, &endpoint, &err);
    if (r < 0) {
        return cli_failed(r, &err);
    }
    if (cli->json) {
        fleet_json(&fleet, ids);
    } else {
        fleet_print(&fleet, ids);
    }
    return CLI_OK;
}

const struct command row_stats = {
    .name = "stats",
    .args = "[ID...]",
    .summary = "prints the latest CPU, memory and disk figures",
    .run = stats,
    .group = GROUP_WATCH,
    .bits = COMMAND_JSON,
    .words_max = WORDS_ANY,
    .takes = TAKES_SANDBOX,
    .about = "With --json: an object with the API's figures by id.",
    .examples = "atoll stats\n"
                "atoll stats i7i9 --json",
};
