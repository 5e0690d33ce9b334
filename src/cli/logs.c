#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/entry.h"
#include "cli/terminal_text.h"

const char cli_logs_usage[] =
    "usage: atoll logs ID [--follow], with the id of a sandbox\n\n"
    "Prints the agent's log, the outgoing connections that were refused or failed, and the "
    "requests\n"
    "that a network rule changed. Other outgoing connections are not logged.";

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

int cli_logs(struct cli *cli)
{
    struct endpoint endpoint;
    struct err err;
    char path[128];

    if (cli->words_n != 1 || !entry_id_ok(cli->words[0])) {
        return cli_fail(CLI_USAGE, "%s", cli_logs_usage);
    }
    (void)snprintf(path, sizeof(path), "/v2/sandboxes/%s/logs?%s", cli->words[0],
                   cli->flag ? "follow=true" : "direction=backward");
    int r = endpoint_choose(cli, &endpoint, &err);
    if (r == 0) {
        r = cli->flag ? endpoint_lines(&endpoint, path, print_line, NULL, &err)
                      : print_all(&endpoint, path, &err);
    }
    return r < 0 ? cli_fail(CLI_FAILED, "%s", err.msg) : CLI_OK;
}
