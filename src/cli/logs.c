#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/entry.h"
#include "cli/sandboxes.h"
#include "cli/terminal_text.h"
#include "cli/units.h"
#include "lib/base/buf.h"
#include "lib/base/encode.h"

enum { PATH_BYTES = 2000, LINES_MAX = 1000 };

static void show(const struct cli *cli, json_t *entry)
{
    if (cli->json) {
        char *text = json_dumps(entry, JSON_COMPACT);
        printf("%s\n", text ? text : "null");
        free(text);
    } else {
        (cli->quiet ? entry_print_message : entry_print)(terminal_json_clean(entry));
    }
}

static void print_line(void *ctx, struct str line)
{
    scoped_json *entry = json_loadb(line.at, line.len, 0, NULL);

    if (entry) {
        show(ctx, entry);
    }
    (void)fflush(stdout);
}

/* A page that begins at --since comes oldest first, every other newest first. */
static int print_all(const struct cli *cli, const struct endpoint *endpoint, const char *path,
                     struct err *err)
{
    scoped_json *answer = NULL;
    bool forward = cli_has(cli, "--since");
    int r = endpoint_call_verbatim(endpoint, "GET", path, NULL, &answer, err);
    const json_t *logs = json_object_get(answer, "logs");
    size_t n = json_array_size(logs);

    for (size_t i = 0; i < n; i++) {
        show(cli, json_array_get(logs, forward ? i : n - 1 - i));
    }
    if (n == LINES_MAX) {
        (void)fflush(stdout);
        (void)fprintf(stderr, "atoll: these are the %s %d lines; --since shows others\n",
                      forward ? "first" : "last", LINES_MAX);
    }
    return r;
}

/* A time, or how long ago it was. */
static bool since_ms(const char *text, int64_t *ms)
{
    int64_t seconds;

    if (units_duration(text, &seconds)) {
        *ms = ((int64_t)time(NULL) - seconds) * 1000;
        return true;
    }
    bool known = units_time(text, &seconds);
    *ms = known ? seconds * 1000 : 0;
    return known;
}

static int query_make(const struct cli *cli, const char *id, int64_t since, struct buf *path,
                      struct err *err)
{
    const char *search = cli_option(cli, "--search"), *level = cli_option(cli, "--level");
    bool follow = cli_has(cli, "--follow");

    int r = buf_printf(path, "/v2/sandboxes/%s/logs?%s", id,
                       follow       ? "follow=true"
                       : since >= 0 ? "direction=forward"
                                    : "direction=backward");
    r = r < 0 || since < 0 ? r : buf_printf(path, "&cursor=%lld", (long long)since);
    r = r < 0 || !level ? r : buf_printf(path, "&level=%s", level);
    r = r < 0 || !search ? r : buf_printf(path, "&search=");
    r = r < 0 || !search ? r : percent_encode(path, str_of(search));
    r = r < 0 ? r : buf_append(path, "", 1);
    return r < 0 ? err_set(err, EINVAL, "the text to search for is too long") : 0;
}

static int logs(struct cli *cli)
{
    scoped_buf(path, PATH_BYTES);
    struct endpoint endpoint;
    struct err err;
    char id[ID_SANDBOX_LEN + 1];
    bool follow = cli_has(cli, "--follow");
    const char *since = cli_option(cli, "--since");
    int64_t ms = -1; /* no --since */

    if (!entry_id_ok(cli->words[0])) {
        return cli_usage(cli, "'%.32s' is not the id of a sandbox", cli->words[0]);
    }
    if (since && !since_ms(since, &ms)) {
        return cli_usage(cli, "'%.32s' is neither a time (2026-01-02T03:04:05Z) nor 10m, 2h or 1d",
                         since);
    }
    int r = endpoint_choose(cli, &endpoint, &err);
    r = r < 0 ? r : sandbox_find(&endpoint, cli->words[0], id, &err);
    r = r < 0 ? r : query_make(cli, id, ms, &path, &err);
    if (r == 0) {
        r = follow ? endpoint_lines(&endpoint, buf_at(&path), print_line, cli, &err)
                   : print_all(cli, &endpoint, buf_at(&path), &err);
    }
    return cli_result(r, &err);
}

static const struct option options[] = {
    {.name = "--follow", .letter = "-f", .help = "print new lines as they come"},
    {.name = "--search", .value = "TEXT", .help = "lines with this text in their message only"},
    {.name = "--level",
     .value = "LEVEL",
     .help = "the lowest level: debug, info, warn or error",
     .choices = "debug|info|warn|error"},
    {.name = "--since", .value = "TIME", .help = "10m, 2h, 1d, or 2026-01-02T03:04:05Z"},
    {.name = NULL},
};

const struct command row_logs = {
    .name = "logs",
    .args = "ID [--follow] [--search TEXT] [--level LEVEL] [--since TIME]",
    .summary = "prints the log of a sandbox and its refused outgoing connections",
    .run = logs,
    .group = GROUP_WATCH,
    .bits = COMMAND_JSON | COMMAND_QUIET,
    .words_min = 1,
    .words_max = 1,
    .takes = TAKES_SANDBOX,
    .options = options,
    .about = "Prints the agent's log, the outgoing connections that were refused or failed,\n"
             "and the requests that a network rule changed. Other outgoing connections are\n"
             "not logged. With --json: one entry on a line. -q: the messages alone.",
    .examples = "atoll logs i7i9 --follow\n"
                "atoll logs i7i9 --level warn --since 1h",
};
