#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/fleet.h"
#include "cli/sandboxes.h"
#include "cli/units.h"

enum { PATH_BYTES = 128, DEPTH_MAX = 6, NAME_BYTES = 256 };

static const struct grid_column columns[] = {{.title = "FACT"}, {.title = "VALUE"}};

static void value_add(struct grid *grid, const char *name, const json_t *value)
{
    char *text = json_is_string(value) ? NULL : json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);

    grid_add(grid, name);
    grid_paint(grid, PAINT_CYAN);
    grid_add(grid, text ? text : json_string_value(value));
    free(text);
}

/* Objects are written out: lifecycle.onTimeout. */
static void facts_add(struct grid *grid, const char *before, const json_t *object, int depth)
{
    json_each (object, it) {
        const json_t *value = json_object_iter_value(it);
        char name[NAME_BYTES];

        (void)snprintf(name, sizeof(name), "%s%s%s", before, before[0] ? "." : "",
                       json_object_iter_key(it));
        if (json_is_object(value) && json_object_size(value) > 0 && depth < DEPTH_MAX) {
            facts_add(grid, name, value, depth + 1);
        } else {
            value_add(grid, name, value);
        }
    }
}

/* A paused sandbox has no figures. */
static void figures_read(const struct endpoint *endpoint, const char *id, json_t *sandbox)
{
    scoped_json *answer = NULL;
    char path[PATH_BYTES];
    struct err err;

    (void)snprintf(path, sizeof(path), "/sandboxes/metrics?sandbox_ids=%s", id);
    if (endpoint_call_verbatim(endpoint, "GET", path, NULL, &answer, &err) == 0) {
        json_t *figures = json_object_get(json_object_get(answer, "sandboxes"), id);
        if (figures) {
            (void)json_object_set(sandbox, "metrics", figures);
        }
    }
}

static int facts_read(const struct endpoint *endpoint, const char *word, json_t **sandbox,
                      struct err *err)
{
    char id[ID_SANDBOX_LEN + 1], path[PATH_BYTES];
    int r = sandbox_find(endpoint, word, id, err);

    if (r == 0) {
        (void)snprintf(path, sizeof(path), "/sandboxes/%s", id);
        r = endpoint_call_verbatim(endpoint, "GET", path, NULL, sandbox, err);
    }
    if (r == 0) {
        figures_read(endpoint, id, *sandbox);
    }
    return r;
}

static int inspect(struct cli *cli)
{
    scoped(grid_fini) struct grid grid = grid_of(columns);
    scoped_json *sandbox = NULL;
    struct endpoint endpoint;
    struct err err;

    int r = endpoint_choose(cli, &endpoint, &err);
    r = r < 0 ? r : facts_read(&endpoint, cli->words[0], &sandbox, &err);
    if (r < 0) {
        return cli_failed(r, &err);
    }
    if (cli->json) {
        cli_print_json(sandbox);
    } else if (cli->quiet) {
        printf("%s\n", json_text_of(sandbox, "sandboxID"));
    } else {
        facts_add(&grid, "", sandbox, 0);
        grid_print(&grid, stdout);
    }
    return CLI_OK;
}

const struct command row_inspect = {
    .name = "inspect",
    .args = "ID",
    .summary = "prints everything that the daemon knows of one sandbox",
    .run = inspect,
    .group = GROUP_SANDBOXES,
    .bits = COMMAND_JSON | COMMAND_QUIET,
    .words_min = 1,
    .words_max = 1,
    .takes = TAKES_SANDBOX,
    .about = "`atoll doctor ID` prints its history, also after its end. -q completes an id\n"
             "that is cut short.",
    .examples = "atoll inspect i7i9 --json",
};
