#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/entry.h"
#include "cli/grid.h"
#include "cli/terminal_text.h"
#include "cli/units.h"
#include "lib/base/clock.h"

enum { PATH_BYTES = 1024, VALUE_BYTES = 384, STAMP_SHOWN = 19 };

static const struct grid_column columns[] = {
    {.title = "TIME"},   {.title = "ACTOR", .shrinks = true}, {.title = "ACTION"},
    {.title = "OBJECT"}, {.title = "STATUS", .right = true},  {.title = "ERROR", .shrinks = true},
};

/* ---- the question ---- */

static void query_add(const struct cli *cli, const char *option, const char *name, char *path)
{
    const char *value = cli_option(cli, option);
    char escaped[VALUE_BYTES];
    size_t used = strlen(path);

    if (value) {
        endpoint_escape(value, escaped, sizeof(escaped));
        (void)snprintf(path + used, PATH_BYTES - used, "&%s=%s", name, escaped);
    }
}

/* False: --since is no time. */
static bool path_make(const struct cli *cli, char path[PATH_BYTES])
{
    const char *since = cli_option(cli, "--since");
    int64_t seconds = 0, from_ms = 0;

    if (since && units_duration(since, &seconds)) {
        from_ms = clock_wall_ms() - 1000 * seconds;
    } else if (since && units_time(since, &seconds)) {
        from_ms = 1000 * seconds;
    } else if (since) {
        return false;
    }
    (void)snprintf(path, PATH_BYTES, "%s?from=%" PRId64 "%s",
                   cli_has(cli, "--all-teams") ? "/admin/audit" : "/audit",
                   from_ms > 0 ? from_ms : 0, cli_has(cli, "--follow") ? "&follow=true" : "");
    query_add(cli, "--object", "object", path);
    query_add(cli, "--action", "action", path);
    query_add(cli, "--actor", "actor", path);
    return true;
}

/* ---- the answer ---- */

static const char *actor_of(const json_t *row)
{
    const json_t *actor = json_object_get(row, "actor");
    const char *name = json_string_of(actor, "name");

    return name ? name : answer_text(actor, "type");
}

static void row_add(struct grid *grid, const json_t *row)
{
    const json_t *status = json_object_get(row, "status");

    grid_addf(grid, "%.*s", STAMP_SHOWN, answer_text(row, "time"));
    grid_add(grid, actor_of(row));
    grid_add(grid, answer_text(row, "action"));
    grid_add(grid, answer_text(row, "object"));
    grid_addf(grid, "%" JSON_INTEGER_FORMAT, json_integer_value(status));
    grid_add(grid, answer_text(row, "error"));
}

/* Some calls are to no object. */
static void object_print(const json_t *row)
{
    const char *object = json_string_of(row, "object");

    if (object) {
        entry_put(object);
        (void)putchar('\n');
    }
}

struct showing {
    const struct cli *cli;
    struct grid grid;
    bool draws; /* the grid */
    bool any;   /* there was a row */
};

static void on_line(void *ctx, struct str line)
{
    struct showing *showing = ctx;
    json_t *row = line.len > 0 ? json_loadb(line.at, line.len, 0, NULL) : NULL;

    if (!row) {
        return; /* an empty line says that the daemon is still there */
    }
    showing->any = true;
    if (showing->cli->json) {
        printf("%.*s\n", (int)line.len, line.at);
    } else if (showing->cli->quiet) {
        object_print(row);
    } else {
        row_add(&showing->grid, row);
    }
    if (showing->draws && cli_has(showing->cli, "--follow")) {
        grid_print(&showing->grid, stdout);
        grid_fini(&showing->grid);
        showing->grid = grid_of(columns);
    }
    (void)fflush(stdout);
    json_decref(row);
}

static bool filtered(const struct cli *cli)
{
    return cli_has(cli, "--object") || cli_has(cli, "--action") || cli_has(cli, "--actor") ||
           cli_has(cli, "--since");
}

static int audit(struct cli *cli)
{
    struct showing showing = {
        .cli = cli, .grid = grid_of(columns), .draws = !cli->json && !cli->quiet};
    struct endpoint endpoint;
    char path[PATH_BYTES];
    struct err err;

    if (!path_make(cli, path)) {
        return cli_usage(cli, "'%.32s' is neither a time nor a duration such as 2h",
                         cli_option(cli, "--since"));
    }
    int r = cli_has(cli, "--all-teams") ? endpoint_admin(cli, &endpoint, &err)
                                        : endpoint_choose(cli, &endpoint, &err);
    if (r == 0) {
        r = endpoint_lines(&endpoint, path, on_line, &showing, &err);
    }
    if (r == 0 && showing.draws) {
        grid_print(&showing.grid, stdout);
    }
    if (r == 0 && !showing.any && !cli->quiet && filtered(cli)) {
        (void)fprintf(stderr, "atoll: no row of the audit log matches\n");
    }
    grid_fini(&showing.grid);
    return cli_result(r, &err);
}

static const struct option audit_options[] = {
    {.name = "--since", .value = "TIME", .help = "from then on: 2h, 7d or 2026-01-02T03:04:05Z"},
    {.name = "--object",
     .value = "ID",
     .help = "of one object: an id, the beginning of one, a name"},
    {.name = "--action", .value = "NAME", .help = "of one action: sandbox.kill, key.*"},
    {.name = "--actor", .value = "NAME", .help = "by one key: its name or its id"},
    {.name = "--all-teams", .help = "of every team, for the operator"},
    {.name = "--follow", .letter = "-f", .help = "print new rows as they come"},
    {.name = NULL},
};

const struct command row_audit = {
    .name = "audit",
    .args = "[--since TIME] [--object ID] [--actor NAME] [--follow]",
    .summary = "prints who changed what, oldest first",
    .run = audit,
    .group = GROUP_WATCH,
    .bits = COMMAND_JSON | COMMAND_QUIET,
    .options = audit_options,
    .about = "\nEvery call that changes something is there: which key made it, what it did to\n"
             "which object, and the status of the answer. 0 is a call that a crash cut short.\n"
             "'..' in an error stands for a value of the request: none is kept. With --json\n"
             "each row is one line, for export. -q prints the objects alone.",
    .examples = "atoll audit --since 2h\natoll audit --object i0123456789abcdefghij --json",
};
