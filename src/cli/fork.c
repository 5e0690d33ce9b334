#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/sandboxes.h"
#include "cli/units.h"

enum { FORK_S = 300, COPIES_MAX = 100 };

static int body_make(const struct cli *cli, json_t **body)
{
    const char *time = cli_option(cli, "--timeout"), *count = cli_option(cli, "--count");
    int64_t seconds = FORK_S;
    char *end = NULL;
    long n = count ? strtol(count, &end, 10) : 1;

    if (time && (!units_duration(time, &seconds) || seconds == 0)) {
        return cli_usage(cli, "'%s' is not a time: 90, 90s, 5m, 2h or 1d", time);
    }
    if (n < 1 || n > COPIES_MAX || (count && *end)) {
        return cli_usage(cli, "'%s' is not a number from 1 to %d", count, COPIES_MAX);
    }
    *body = json_pack("{s:I, s:I}", "timeout", (json_int_t)seconds, "count", (json_int_t)n);
    return CLI_OK;
}

/* Each copy succeeds or fails by itself. */
static int results_print(const struct cli *cli, const char *id, const json_t *results)
{
    int code = CLI_OK;
    const json_t *result;
    size_t i;

    json_array_foreach (results, i, result) {
        const char *copy = json_string_of(json_object_get(result, "sandbox"), "sandboxID");
        const json_t *error = json_object_get(result, "error");
        if (!copy) {
            code =
                cli_fail(CLI_FAILED, "%s: copy %zu: %s", id, i + 1, json_text_of(error, "message"));
        } else if (!cli->json) {
            printf("%s\n", copy);
        }
    }
    if (cli->json) {
        cli_print_json(results);
    }
    return code;
}

static int command_fork(struct cli *cli)
{
    scoped_json *body = NULL, *answer = NULL;
    char id[ID_SANDBOX_LEN + 1], path[128];
    struct endpoint endpoint;
    struct err err;

    int code = body_make(cli, &body);
    if (code != CLI_OK) {
        return code;
    }
    int r = endpoint_choose(cli, &endpoint, &err);
    r = r < 0 ? r : sandbox_find(&endpoint, cli->words[0], id, &err);
    if (r == 0) {
        (void)snprintf(path, sizeof(path), "/sandboxes/%s/fork", id);
        r = endpoint_call_verbatim(&endpoint, "POST", path, body, &answer, &err);
    }
    return r < 0 ? cli_failed(r, &err) : results_print(cli, id, answer);
}

static const struct option options[] = {
    {.name = "--count", .letter = "-n", .value = "N", .help = "how many copies [1]"},
    {.name = "--timeout", .letter = "-t", .value = "TIME", .help = "how long they run [5m]"},
    {.name = NULL},
};

const struct command row_fork = {
    .name = "fork",
    .args = "ID [-n N] [--timeout TIME]",
    .summary = "copies a running sandbox, with its processes and files",
    .run = command_fork,
    .group = GROUP_SANDBOXES,
    .bits = COMMAND_JSON | COMMAND_QUIET,
    .words_min = 1,
    .words_max = 1,
    .takes = TAKES_SANDBOX,
    .options = options,
    .about = "Prints the id of each copy. TIME is 90, 90s, 5m, 2h or 1d.",
    .examples = "atoll fork i7i9 -n 3",
};
