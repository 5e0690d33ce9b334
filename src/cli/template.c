#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/grid.h"
#include "cli/template.h"

enum { PRUNE_DAYS_MAX = 36500, SECONDS_A_DAY = 24 * 3600 };

/* ---- list ---- */

static const struct grid_column columns[] = {
    {.title = "ID"},
    {.title = "NAME", .shrinks = true},
    {.title = "STATUS"},
    {.title = "CPUS", .right = true},
    {.title = "MEM MB", .right = true},
    {.title = "DISK MB", .right = true},
    {.title = "STARTED", .right = true},
    {.title = "UPDATED"},
};

static const char *name_of(const json_t *row)
{
    return json_string_value(json_array_get(json_object_get(row, "names"), 0));
}

static void add_number(struct grid *grid, const json_t *row, const char *name)
{
    grid_addf(grid, "%lld", (long long)json_integer_value(json_object_get(row, name)));
}

static void row_add(struct grid *grid, const json_t *t)
{
    const char *status = json_text_of(t, "buildStatus");

    grid_add(grid, json_text_of(t, "templateID"));
    grid_add(grid, name_of(t));
    grid_add(grid, status);
    grid_paint(grid, strcmp(status, "ready") == 0   ? PAINT_GREEN
                     : strcmp(status, "error") == 0 ? PAINT_RED
                                                    : PAINT_YELLOW);
    add_number(grid, t, "cpuCount");
    add_number(grid, t, "memoryMB");
    add_number(grid, t, "diskSizeMB");
    add_number(grid, t, "spawnCount");
    grid_addf(grid, "%.19s", answer_text(t, "updatedAt"));
}

/* -q prints what a create takes: the name, or the id of a template without one. */
static void names_print(const json_t *list)
{
    const json_t *row;
    size_t i;

    json_array_foreach (list, i, row) {
        printf("%s\n", name_of(row) ? name_of(row) : json_text_of(row, "templateID"));
    }
}

static int list(const struct cli *cli, const struct endpoint *endpoint, struct err *err)
{
    scoped(grid_fini) struct grid grid = grid_of(columns);
    scoped_json *answer = NULL;
    int r = endpoint_call_verbatim(endpoint, "GET", "/templates", NULL, &answer, err);

    if (r == 0 && cli->quiet) {
        names_print(answer);
    } else if (r == 0) {
        grid_print_list(cli, answer, "templateID", &grid, row_add);
    }
    return r;
}

/* ---- logs ---- */

/* The build, or the newest one when none is named. */
static int build_find(const struct endpoint *endpoint, const char *name, const char *wanted,
                      struct build_place *out, struct err *err)
{
    scoped_json *answer = NULL;
    char path[TEMPLATE_PATH_BYTES], escaped[TEMPLATE_NAME_BYTES];

    endpoint_escape(name, escaped, sizeof(escaped));
    (void)snprintf(path, sizeof(path), "/templates/%s", escaped);
    int r = endpoint_call(endpoint, "GET", path, NULL, &answer, err);
    if (r < 0) {
        return r;
    }
    const json_t *newest = json_array_get(json_object_get(answer, "builds"), 0);
    const char *build = wanted ? wanted : json_string_of(newest, "buildID");
    if (!build) {
        return err_set(err, CALL_NOT_FOUND, "%s has not been built yet", name);
    }
    (void)snprintf(out->template_id, sizeof(out->template_id), "%s",
                   answer_text(answer, "templateID"));
    (void)snprintf(out->build_id, sizeof(out->build_id), "%s", build);
    return 0;
}

enum build_show template_show(const struct cli *cli)
{
    return cli->json ? BUILD_SHOW_JSON : cli->quiet ? BUILD_SHOW_NOTHING : BUILD_SHOW_TEXT;
}

static int logs(const struct cli *cli, const struct endpoint *endpoint, const char *name,
                const char *build, struct err *err)
{
    struct build_place place;
    int r = build_find(endpoint, name, build, &place, err);

    return r < 0 ? r : build_follow(endpoint, &place, template_show(cli), false, err);
}

/* ---- delete, prune ---- */

static int remove_one(const struct cli *cli, const struct endpoint *endpoint, const char *name,
                      struct err *err)
{
    scoped_json *answer = NULL;
    char path[TEMPLATE_PATH_BYTES], escaped[TEMPLATE_NAME_BYTES];

    endpoint_escape(name, escaped, sizeof(escaped));
    (void)snprintf(path, sizeof(path), "/templates/%s", escaped);
    int r = endpoint_call(endpoint, "DELETE", path, NULL, &answer, err);
    if (r == 0) {
        cli_print_done(cli, "Deleted", name);
    }
    return r;
}

static int prune(const struct cli *cli, const struct endpoint *endpoint, const char *days,
                 struct err *err)
{
    scoped_json *answer = NULL;
    char *end = NULL;
    long n = days ? strtol(days, &end, 10) : 0;

    if (days && (*end || n < 0 || n > PRUNE_DAYS_MAX)) {
        return err_set(err, EINVAL, "'%s' is not a number of days", days);
    }
    scoped_json *body = json_pack("{si}", "unusedSeconds", (int)n * SECONDS_A_DAY);
    int r = endpoint_call(endpoint, "POST", "/templates/prune", body, &answer, err);
    if (r == 0 && cli->json) {
        cli_print_json(answer);
    } else if (r == 0) {
        printf("Removed %lld layers and %lld uploads that nothing uses: %.1f MB\n",
               (long long)json_integer_value(json_object_get(answer, "layers")),
               (long long)json_integer_value(json_object_get(answer, "files")),
               (double)json_integer_value(json_object_get(answer, "bytes")) / 1e6);
    }
    return r;
}

/* ---- which ---- */

static int run(struct cli *cli, const struct endpoint *endpoint, struct err *err)
{
    const char *verb = cli->sub->name;
    const char *first = cli->words_n > 1 ? cli->words[1] : NULL;
    const char *second = cli->words_n > 2 ? cli->words[2] : NULL;

    if (strcmp(verb, "list") == 0) {
        return list(cli, endpoint, err);
    }
    if (strcmp(verb, "logs") == 0) {
        return logs(cli, endpoint, first, second, err);
    }
    return strcmp(verb, "delete") == 0 ? remove_one(cli, endpoint, first, err)
                                       : prune(cli, endpoint, first, err);
}

static int template(struct cli *cli)
{
    struct endpoint endpoint;
    struct err err;

    if (strcmp(cli->sub->name, "build") == 0) {
        return cli_template_build(cli);
    }
    int r = endpoint_choose(cli, &endpoint, &err);
    return cli_result(r < 0 ? r : run(cli, &endpoint, &err), &err);
}

static const struct option template_options[] = {
    {.name = "--file",
     .letter = "-f",
     .value = "DOCKERFILE",
     .help = "instead of DIR/Dockerfile",
     .of = "build",
     .takes = TAKES_FILE},
    {.name = "--build-arg",
     .value = "NAME=VALUE",
     .help = "a value of the Dockerfile's ARG",
     .of = "build",
     .repeats = true},
    {.name = "--cpus", .value = "N", .help = "CPUs of its sandboxes", .of = "build"},
    {.name = "--memory", .value = "MB", .help = "memory of its sandboxes", .of = "build"},
    {.name = "--start", .value = "CMD", .help = "started with each sandbox", .of = "build"},
    {.name = "--ready", .value = "CMD", .help = "succeeds once that is ready", .of = "build"},
    {.name = "--no-cache", .help = "run every step again", .of = "build"},
    {.name = NULL},
};

static const struct subcommand template_subs[] = {
    {"list", "", "lists templates", 0, 0, COMMAND_JSON | COMMAND_QUIET, TAKES_TEXT},
    {"build", "NAME [DIR]", "builds a Dockerfile", 1, 2, COMMAND_JSON | COMMAND_QUIET, TAKES_DIR},
    {"logs", "NAME [BUILD]", "prints a build's log", 1, 2, COMMAND_JSON, TAKES_TEMPLATE},
    {"delete", "NAME", "deletes a template", 1, 1, COMMAND_JSON | COMMAND_QUIET, TAKES_TEMPLATE},
    {"prune", "[DAYS]", "frees what no template uses", 0, 1, COMMAND_JSON, TAKES_TEXT},
    {.name = NULL},
};

const struct command row_template = {
    .name = "template",
    .args = "list | build NAME [DIR] | ...",
    .summary = "lists, builds, deletes and prunes templates",
    .run = template,
    .group = GROUP_TEMPLATES,
    .options = template_options,
    .subs = template_subs,
    .examples = "atoll template build my-tools . --memory 2048\n"
                "atoll template logs my-tools",
};
