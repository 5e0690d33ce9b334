#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/entry.h"
#include "cli/terminal_text.h"

static void print_line(void *ctx, struct str line)
{
    json_t *entry = terminal_json_clean(json_loadb(line.at, line.len, 0, NULL));

    (void)ctx;
    entry_print(entry);
    (void)fflush(stdout);
    json_decref(entry);
}

static int print_all(const struct endpoint *endpoint, const char *path, struct err *err)
{
    json_t *answer = NULL;
    const json_t *entry;
    size_t i;
    int r = endpoint_call(endpoint, "GET", path, NULL, &answer, err);

    if (r == 0) {
        const json_t *logs = json_object_get(answer, "logs");
        for (i = json_array_size(logs); i > 0; i--) { /* it came newest first */
            entry = json_array_get(logs, i - 1);
            entry_print(entry);
        }
    }
    json_decref(answer);
    return r;
}

static int logs(struct cli *cli)
{
    struct endpoint endpoint;
    struct err err;
    char path[128];

    bool follow = cli_has(cli, "--follow");

    if (!entry_id_ok(cli->words[0])) {
        return cli_usage(cli, "'%.32s' is not the id of a sandbox", cli->words[0]);
    }
    (void)snprintf(path, sizeof(path), "/v2/sandboxes/%s/logs?%s", cli->words[0],
                   follow ? "follow=true" : "direction=backward");
    int r = endpoint_choose(cli, &endpoint, &err);
    if (r == 0) {
        r = follow ? endpoint_lines(&endpoint, path, print_line, NULL, &err)
                   : print_all(&endpoint, path, &err);
    }
    return cli_result(r, &err);
}

static const struct option logs_options[] = {
    {.name = "--follow", .letter = "-f", .help = "print new lines as they come"},
    {.name = NULL},
};

const struct command row_logs = {
    .name = "logs",
    .args = "ID [--follow]",
    .summary = "prints the log of a sandbox and its refused outgoing connections",
    .run = logs,
    .group = GROUP_WATCH,
    .words_min = 1,
    .words_max = 1,
    .takes = TAKES_SANDBOX,
    .options = logs_options,
    .about =
        "\nPrints the agent's log, the outgoing connections that were refused or failed, and the\n"
        "requests that a network rule changed. Other outgoing connections are not logged.",
    .examples = "atoll logs i0123456789abcdefghij --follow",
};
