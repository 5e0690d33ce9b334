#include <stdio.h>
#include <string.h>

#include "cli/grid.h"
#include "cli/sandboxes.h"
#include "cli/units.h"

enum { PATH_BYTES = 1024, NAME_BYTES = 768 };

static const struct grid_column columns[] = {
    {.title = "SNAPSHOT", .shrinks = true},
    {.title = "NAMES", .shrinks = true},
    {.title = "DISK", .right = true},
};

static int make(struct cli *cli, const struct endpoint *endpoint, struct err *err)
{
    scoped_json *answer = NULL, *body = json_pack("{s:b}", "memory", !cli_has(cli, "--no-memory"));
    char id[ID_SANDBOX_LEN + 1], path[PATH_BYTES];

    if (cli->words_n > 1 && json_object_set_new(body, "name", json_string(cli->words[1])) < 0) {
        return err_set(err, EINVAL, "the name is not UTF-8");
    }
    int r = sandbox_find(endpoint, cli->words[0], id, err);
    if (r == 0) {
        (void)snprintf(path, sizeof(path), "/sandboxes/%s/snapshots", id);
        r = endpoint_call_verbatim(endpoint, "POST", path, body, &answer, err);
    }
    if (r == 0 && cli->json) {
        cli_print_json(answer);
    } else if (r == 0) {
        printf("%s\n", answer_text(answer, "snapshotID"));
    }
    return r;
}

static void row_add(struct grid *grid, const json_t *row)
{
    const json_t *names = json_object_get(row, "names");
    char all[PATH_BYTES] = "", size[UNITS_BYTES];
    size_t used = 0;

    for (size_t i = 0; i < json_array_size(names) && used < sizeof(all); i++) {
        used += (size_t)snprintf(all + used, sizeof(all) - used, "%s%s", i ? "," : "",
                                 json_string_value(json_array_get(names, i)));
    }
    grid_add(grid, json_text_of(row, "snapshotID"));
    grid_add(grid, all);
    grid_add(grid, units_size(json_number_value(json_object_get(row, "diskUsedBytes")), size));
}

static int list(struct cli *cli, const struct endpoint *endpoint, struct err *err)
{
    scoped(grid_fini) struct grid grid = grid_of(columns);
    scoped_json *rows = NULL;
    int r = endpoint_list(endpoint, "/snapshots?limit=100", &rows, err);

    if (r == 0) {
        grid_print_list(cli, rows, "snapshotID", &grid, row_add);
    }
    return r;
}

static int rm(const struct endpoint *endpoint, const char *name, struct err *err)
{
    scoped_json *answer = NULL;
    char path[PATH_BYTES], escaped[NAME_BYTES];

    endpoint_escape(name, escaped, sizeof(escaped));
    (void)snprintf(path, sizeof(path), "/templates/%s", escaped);
    return endpoint_call(endpoint, "DELETE", path, NULL, &answer, err);
}

static int snapshot(struct cli *cli)
{
    struct endpoint endpoint;
    struct err err;
    int r = endpoint_choose(cli, &endpoint, &err);

    if (r == 0 && cli->sub && strcmp(cli->sub->name, "rm") == 0) {
        return cli_each_word(cli, &endpoint, rm, "Removed");
    }
    if (r == 0) {
        r = cli->sub ? list(cli, &endpoint, &err) : make(cli, &endpoint, &err);
    }
    return cli_result(r, &err);
}

static const struct option options[] = {
    {.name = "--no-memory", .help = "keep the disk alone, without processes"},
    {.name = NULL},
};

static const struct subcommand subs[] = {
    {"list", "", "lists snapshots", 0, 0, COMMAND_JSON | COMMAND_QUIET, TAKES_TEXT},
    {"rm", "SNAPSHOT...", "removes snapshots", 1, WORDS_ANY, COMMAND_JSON | COMMAND_QUIET,
     TAKES_SNAPSHOT},
    {.name = NULL},
};

const struct command row_snapshot = {
    .name = "snapshot",
    .args = "ID [NAME] [--no-memory]",
    .summary = "saves the state of a running sandbox, to start others from it",
    .run = snapshot,
    .group = GROUP_SANDBOXES,
    .bits = COMMAND_JSON | COMMAND_QUIET | COMMAND_SUB_OPTIONAL,
    .words_min = 1,
    .words_max = 2,
    .takes = TAKES_SANDBOX,
    .options = options,
    .subs = subs,
    .about = "Prints the snapshot's name: `atoll run --template NAME` starts from it.",
    .examples = "atoll snapshot i7i9 ready:v1\n"
                "atoll snapshot list",
};
