/* volume.c - the volumes of a team, and their files. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/copy.h"
#include "cli/grid.h"
#include "cli/units.h"

enum { PATH_BYTES = 512, PLACE_BYTES = 4096 };

static int volume_list(const struct cli *cli, const struct endpoint *endpoint, struct err *err)
{
    static const struct grid_column columns[] = {{.title = "NAME", .shrinks = true},
                                                 {.title = "ID"}};
    scoped(grid_fini) struct grid grid = grid_of(columns);
    scoped_json *list = NULL;
    const json_t *row;
    size_t i;
    int r = endpoint_call(endpoint, "GET", "/volumes", NULL, &list, err);

    if (r == 0 && cli->json) {
        cli_print_json(list);
        return 0;
    }
    json_array_foreach (list, i, row) {
        grid_add(&grid, json_text_of(row, "name"));
        if (cli->quiet) {
            printf("%s\n", json_text_of(row, "name"));
        }
        grid_add(&grid, json_text_of(row, "volumeID"));
    }
    if (r == 0 && !cli->quiet) {
        grid_print(&grid, stdout);
    }
    return r;
}

static int volume_create(const struct cli *cli, const struct endpoint *endpoint, struct err *err)
{
    scoped_json *body = json_pack("{ss}", "name", cli->words[1]), *answer = NULL;
    int r = body ? endpoint_call(endpoint, "POST", "/volumes", body, &answer, err)
                 : err_set(err, EILSEQ, "the name is not UTF-8");

    if (r == 0 && cli->json) {
        (void)json_object_del(answer, "token"); /* it opens the volume: not for a screen */
        cli_print_json(answer);
    } else if (r == 0) {
        printf("%s\n", json_text_of(answer, cli->quiet ? "volumeID" : "name"));
    }
    return r;
}

/* "NAME/path" and "vol:NAME/path" both name a place in a volume. */
static int place_of(const struct endpoint *endpoint, const char *word, struct place *out,
                    struct err *err)
{
    char text[PLACE_BYTES];
    bool named = strncmp(word, "vol:", 4) == 0;

    if (snprintf(text, sizeof(text), "%s%s", named ? "" : "vol:", word) >= (int)sizeof(text)) {
        return err_set(err, ENAMETOOLONG, "the path is too long");
    }
    return place_open(endpoint, text, NULL, out, err);
}

static int volume_rm(const struct endpoint *endpoint, const char *name, struct err *err)
{
    static struct place place;
    scoped_json *answer = NULL;
    char path[PATH_BYTES];

    if (strchr(name, '/')) {
        return err_set(err, EINVAL, "this is not the name of a volume");
    }
    int r = place_of(endpoint, name, &place, err);
    (void)snprintf(path, sizeof(path), "/volumes/%s", place.volume_id);
    return r < 0 ? r : endpoint_call(endpoint, "DELETE", path, NULL, &answer, err);
}

static void entry_add(struct grid *grid, const json_t *entry)
{
    char size[UNITS_BYTES];
    const char *type = json_text_of(entry, "type");

    grid_addf(grid, "%s%03o",
              strcmp(type, "directory") == 0 ? "d"
              : type[0] == 's'               ? "l"
                                             : "-",
              (unsigned)json_integer_value(json_object_get(entry, "mode")) & 0777);
    grid_add(grid, units_size((double)json_integer_value(json_object_get(entry, "size")), size));
    grid_add(grid, json_text_of(entry, "mtime"));
    grid_add(grid, json_text_of(entry, "name"));
}

static int volume_ls(const struct cli *cli, const struct endpoint *endpoint, struct err *err)
{
    static const struct grid_column columns[] = {{.title = "MODE"},
                                                 {.title = "SIZE", .right = true},
                                                 {.title = "CHANGED"},
                                                 {.title = "NAME"}};
    static struct place place;
    scoped(grid_fini) struct grid grid = grid_of(columns);
    scoped_json *list = NULL;
    const json_t *entry;
    size_t i;
    int r = place_of(endpoint, cli->words[1], &place, err);

    r = r < 0 ? r : volume_entries(&place, &list, err);
    if (r == 0 && cli->json) {
        cli_print_json(list);
        return 0;
    }
    json_array_foreach (list, i, entry) {
        entry_add(&grid, entry);
        if (cli->quiet) {
            printf("%s\n", json_text_of(entry, "name"));
        }
    }
    if (r == 0 && !cli->quiet) {
        grid_print(&grid, stdout);
    }
    return r;
}

/* As `atoll cp`, where a volume is named vol:NAME/PATH. */
static int volume_cp(const struct cli *cli, const struct endpoint *endpoint, struct err *err)
{
    static struct place from, to;
    int r = place_open(endpoint, cli->words[1], NULL, &from, err);

    r = r < 0 ? r : place_open(endpoint, cli->words[2], NULL, &to, err);
    if (r == 0 && from.kind != PLACE_VOLUME && to.kind != PLACE_VOLUME) {
        return err_set(err, EINVAL, "name a volume on one side, as vol:NAME/PATH");
    }
    return r < 0 ? r : copy_command(cli, &from, &to, err);
}

static int volume(struct cli *cli)
{
    static const struct daemon_call subs[] = {
        {.name = "list", .run = volume_list},
        {.name = "create", .run = volume_create},
        {.name = "rm", .each = volume_rm, .done = "Deleted"},
        {.name = "ls", .run = volume_ls},
        {.name = "cp", .run = volume_cp},
    };

    return cli_daemon_call(cli, subs, countof(subs));
}

static const struct subcommand volume_subs[] = {
    {"list", "", "lists volumes", 0, 0, COMMAND_JSON | COMMAND_QUIET, TAKES_TEXT},
    {"create", "NAME", "creates a volume", 1, 1, COMMAND_JSON | COMMAND_QUIET, TAKES_TEXT},
    {"rm", "NAME...", "deletes volumes and their files", 1, WORDS_ANY, COMMAND_JSON | COMMAND_QUIET,
     TAKES_VOLUME},
    {"ls", "NAME[/PATH]", "lists a directory of a volume", 1, 1, COMMAND_JSON | COMMAND_QUIET,
     TAKES_VOLUME},
    {"cp", "SOURCE TARGET", "copies files: vol:NAME/PATH", 2, 2, COMMAND_JSON | COMMAND_QUIET,
     TAKES_COPY},
    {.name = NULL},
};

const struct command row_volume = {
    .name = "volume",
    .args = "list | create NAME | rm NAME... | ls NAME[/PATH] | cp SOURCE TARGET",
    .summary = "manages volumes: disks that outlive sandboxes, and their files",
    .run = volume,
    .group = GROUP_SANDBOXES,
    .subs = volume_subs,
    .about = "\n`atoll run -v NAME:PATH` mounts a volume. `cp` works as `atoll cp` does.",
    .examples = "atoll volume create data\n"
                "atoll volume cp ./inputs vol:data/inputs\n"
                "atoll volume ls data/inputs",
};
