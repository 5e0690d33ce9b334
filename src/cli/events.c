#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/entry.h"
#include "cli/sandboxes.h"
#include "cli/terminal.h"

enum { PATH_BYTES = 512, TYPE_BYTES = 128, LIMIT_MAX = 100 };

/* ---- lines ---- */

static enum paint paint_of(const char *what)
{
    if (strcmp(what, "killed") == 0) {
        return PAINT_RED;
    }
    return strcmp(what, "created") == 0 || strcmp(what, "resumed") == 0 ? PAINT_GREEN : PAINT_NONE;
}

static void detail_print(const json_t *data, const char *name, const char *label)
{
    const char *text = json_string_of(data, name);

    if (text) {
        printf("  %s", label);
        entry_put(text);
    }
}

static void event_print(const json_t *event)
{
    const json_t *data = json_object_get(event, "eventData");
    const char *type = json_text_of(event, "type"), *dot = strrchr(type, '.');
    const char *what = dot ? dot + 1 : type;
    enum paint paint = paint_of(what);

    entry_put(json_text_of(event, "timestamp"));
    printf("  ");
    entry_put(json_text_of(event, "sandboxId"));
    printf("  %s", terminal_paint(stdout, paint));
    entry_put(what);
    printf("%s", paint ? terminal_plain(stdout) : "");
    detail_print(data, "fork_of", "fork of ");
    detail_print(data, "fork_id", "as ");
    detail_print(data, "kill_reason", "reason: ");
    detail_print(data, "memory_lost", "without its memory: ");
    detail_print(data, "set_timeout", "until ");
    printf("\n");
}

static void show(const struct cli *cli, const json_t *event)
{
    if (cli->json) {
        char *text = json_dumps(event, JSON_COMPACT);
        printf("%s\n", text ? text : "null");
        free(text);
    } else if (cli->quiet) {
        printf("%s\n", json_text_of(event, "sandboxId"));
    } else {
        event_print(event);
    }
    (void)fflush(stdout);
}

/* ---- follow ---- */

struct following {
    const struct cli *cli;
    char ended[256]; /* the daemon's reason for the end of the stream; "": none */
};

static void on_line(void *ctx, struct str line)
{
    struct following *following = ctx;
    scoped_json *event = line.len ? json_loadb(line.at, line.len, 0, NULL) : NULL;

    if (event && json_object_get(event, "code") && !json_object_get(event, "type")) {
        (void)snprintf(following->ended, sizeof(following->ended), "%s",
                       json_text_of(event, "message"));
    } else if (json_is_object(event)) {
        show(following->cli, event);
    }
}

/* Events that were there before come first, then each as it is committed. */
static int follow(const struct cli *cli, const struct endpoint *endpoint, const char *path,
                  const char *after, struct err *err)
{
    struct following following = {.cli = cli};
    char full[PATH_BYTES + TYPE_BYTES];

    (void)snprintf(full, sizeof(full), "%s&follow=true%s%s", path, after[0] ? "&after=" : "",
                   after);
    int r = endpoint_lines(endpoint, full, on_line, &following, err);
    if (r == 0 && following.ended[0]) {
        r = err_set(err, EPROTO, "%s", following.ended);
    }
    return r;
}

/* ---- arguments ---- */

static int limit_of(const struct cli *cli, int *limit)
{
    const char *text = cli_option(cli, "--limit");
    char *end = NULL;
    long n = text ? strtol(text, &end, 10) : 10;

    if (n < 0 || n > LIMIT_MAX || (text && (*end || end == text))) {
        return cli_usage(cli, "'%s' is not a number from 0 to %d", text, LIMIT_MAX);
    }
    *limit = (int)n;
    return CLI_OK;
}

static int path_make(const struct cli *cli, const struct endpoint *endpoint, char path[PATH_BYTES],
                     struct err *err)
{
    const char *type = cli_option(cli, "--type");
    char id[ID_SANDBOX_LEN + 1] = "";
    bool shell = type && strcmp(type, "called") == 0;

    int r = cli->words_n ? sandbox_find(endpoint, cli->words[0], id, err) : 0;
    (void)snprintf(path, PATH_BYTES, "/events/sandboxes%s%s?x=%s%s%s", id[0] ? "/" : "", id,
                   type ? "&types=" : "",
                   !type   ? ""
                   : shell ? "sandbox.shell."
                           : "sandbox.lifecycle.",
                   type ? type : "");
    return r;
}

static int events_print(struct cli *cli, const struct endpoint *endpoint, int limit,
                        struct err *err)
{
    char path[PATH_BYTES], page[PATH_BYTES + TYPE_BYTES], after[ID_UUID_LEN + 1] = "";
    scoped_json *list = NULL;

    int r = path_make(cli, endpoint, path, err);
    (void)snprintf(page, sizeof(page), "%s&limit=%d", path, limit > 0 ? limit : 1);
    r = r < 0 ? r : endpoint_call_verbatim(endpoint, "GET", page, NULL, &list, err);
    if (r < 0) {
        return r;
    }
    for (size_t i = limit > 0 ? json_array_size(list) : 0; i > 0; i--) { /* newest first */
        show(cli, json_array_get(list, i - 1));
    }
    const char *newest = json_text_of(json_array_get(list, 0), "id");
    if (id_uuid_ok(str_of(newest))) {
        (void)snprintf(after, sizeof(after), "%s", newest);
    }
    return cli_has(cli, "--follow") ? follow(cli, endpoint, path, after, err) : 0;
}

static int events(struct cli *cli)
{
    struct endpoint endpoint;
    struct err err;
    int limit = 0, code = limit_of(cli, &limit);

    if (code != CLI_OK) {
        return code;
    }
    int r = endpoint_choose(cli, &endpoint, &err);
    return cli_result(r < 0 ? r : events_print(cli, &endpoint, limit, &err), &err);
}

static const struct option options[] = {
    {.name = "--follow", .letter = "-f", .help = "print new events as they come"},
    {.name = "--limit", .letter = "-n", .value = "N", .help = "how many past events [10]"},
    {.name = "--type",
     .value = "TYPE",
     .help = "such as created, paused, resumed or killed",
     .choices = "created|updated|paused|resumed|snapshotted|checkpointed|forked|killed|called"},
    {.name = NULL},
};

const struct command row_events = {
    .name = "events",
    .args = "[ID] [--follow] [--limit N] [--type TYPE]",
    .summary = "prints what happened to sandboxes, oldest first",
    .run = events,
    .group = GROUP_WATCH,
    .bits = COMMAND_JSON | COMMAND_QUIET,
    .words_max = 1,
    .takes = TAKES_SANDBOX,
    .options = options,
    .about = "Events are kept for seven days. With --json: one event on a line.",
    .examples = "atoll events --follow\n"
                "atoll events i7i9 --json",
};
