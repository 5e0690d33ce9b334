/* webhook.c - the webhooks of a team: where the daemon sends its events. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/grid.h"
#include "cli/hidden_value.h"
#include "cli/session.h"
#include "lib/base/alloc.h"

enum { PATH_BYTES = 512, EVENTS_BYTES = 256 };

#define WEBHOOKS "/events/webhooks"

static void webhook_path(const char *id, const char *more, char out[PATH_BYTES])
{
    char escaped[PATH_BYTES / 4];

    endpoint_escape(id, escaped, sizeof(escaped));
    (void)snprintf(out, PATH_BYTES, WEBHOOKS "/%s%s", escaped, more);
}

/* "created" of sandbox.lifecycle.created, as --event takes it. */
static const char *event_short(const char *name)
{
    const char *dot = name ? strrchr(name, '.') : NULL;

    return dot ? dot + 1 : name ? name : "";
}

static const char *events_text(const json_t *webhook, char out[EVENTS_BYTES])
{
    const json_t *event;
    size_t i, n = 0;

    out[0] = '\0';
    json_array_foreach (json_object_get(webhook, "events"), i, event) {
        int written = snprintf(out + n, EVENTS_BYTES - n, "%s%s", i > 0 ? "," : "",
                               event_short(json_string_value(event)));
        n += written > 0 && (size_t)written < EVENTS_BYTES - n ? (size_t)written : 0;
    }
    return out;
}

static int webhook_list(const struct cli *cli, const struct endpoint *endpoint, struct err *err)
{
    static const struct grid_column columns[] = {{.title = "ID"},
                                                 {.title = "NAME", .shrinks = true},
                                                 {.title = "STATE"},
                                                 {.title = "EVENTS", .shrinks = true},
                                                 {.title = "URL", .shrinks = true}};
    scoped(grid_fini) struct grid grid = grid_of(columns);
    scoped_json *list = NULL;
    const json_t *row;
    size_t i;
    char events[EVENTS_BYTES];
    int r = endpoint_call(endpoint, "GET", WEBHOOKS, NULL, &list, err);

    if (r == 0 && cli->json) {
        cli_print_json(list);
        return 0;
    }
    json_array_foreach (list, i, row) {
        if (cli->quiet) {
            printf("%s\n", json_text_of(row, "id"));
        }
        grid_add(&grid, json_text_of(row, "id"));
        grid_add(&grid, json_text_of(row, "name"));
        grid_add(&grid, json_is_true(json_object_get(row, "enabled")) ? "enabled" : "disabled");
        grid_add(&grid, events_text(row, events));
        grid_add(&grid, json_text_of(row, "url"));
    }
    if (r == 0 && !cli->quiet) {
        grid_print(&grid, stdout);
    }
    return r;
}

/* "created" stands for sandbox.lifecycle.created. */
static json_t *events_make(const struct cli *cli)
{
    static const char *const all[] = {"created", "updated", "paused", "resumed", "killed"};
    const char *given[CLI_OPTIONS_MAX];
    int n = session_values(cli, "--event", given);
    json_t *events = json_array();

    for (int i = 0; i < (n > 0 ? n : (int)countof(all)); i++) {
        const char *name = n > 0 ? given[i] : all[i];
        (void)json_array_append_new(events, strchr(name, '.')
                                                ? json_string(name)
                                                : json_sprintf("sandbox.lifecycle.%s", name));
    }
    return events;
}

static int body_make(const struct cli *cli, const char *secret, json_t **out, struct err *err)
{
    const char *name = cli_option(cli, "--name");
    json_t *events = events_make(cli);

    *out = json_pack("{sssssosssb}", "name", name ? name : "webhook", "url", cli->words[1],
                     "events", events, "signatureSecret", secret, "enabled", 1);
    return *out ? 0 : err_set(err, EILSEQ, "a word is not UTF-8");
}

static int webhook_create(const struct cli *cli, const struct endpoint *endpoint, struct err *err)
{
    char *secret = xcalloc(1, HIDDEN_VALUE_BYTES);
    scoped_json *body = NULL, *answer = NULL;
    int r = hidden_value_read("Secret that signs the deliveries", secret, err);

    r = r < 0 ? r : body_make(cli, secret, &body, err);
    explicit_bzero(secret, HIDDEN_VALUE_BYTES);
    free(secret);
    r = r < 0 ? r : endpoint_call(endpoint, "POST", WEBHOOKS, body, &answer, err);
    if (r == 0 && cli->json) {
        cli_print_json(answer);
    } else if (r == 0) {
        printf("%s\n", json_text_of(answer, "id"));
    }
    return r;
}

static int webhook_rm(const struct endpoint *endpoint, const char *id, struct err *err)
{
    scoped_json *answer = NULL;
    char path[PATH_BYTES];

    webhook_path(id, "", path);
    return endpoint_call(endpoint, "DELETE", path, NULL, &answer, err);
}

static int webhook_test(const struct cli *cli, const struct endpoint *endpoint, struct err *err)
{
    scoped_json *answer = NULL;
    char path[PATH_BYTES];

    webhook_path(cli->words[1], "/test", path);
    int r = endpoint_call(endpoint, "POST", path, NULL, &answer, err);
    if (r < 0) {
        return r;
    }
    bool delivered = json_is_true(json_object_get(answer, "delivered"));
    if (cli->json) {
        cli_print_json(answer);
    } else if (cli->quiet) {
        printf("%s\n", json_text_of(answer, "deliveryId"));
    } else if (delivered) {
        printf("delivered in %lld ms, status %lld\n",
               (long long)json_integer_value(json_object_get(answer, "durationMs")),
               (long long)json_integer_value(json_object_get(answer, "responseStatus")));
    }
    return delivered ? 0 : err_set(err, EIO, "not delivered: %s", answer_text(answer, "error"));
}

static void delivery_add(struct grid *grid, const json_t *row)
{
    const json_t *status = json_object_get(row, "responseStatus");

    grid_add(grid, json_text_of(row, "id"));
    grid_add(grid, json_text_of(row, "createdAt"));
    grid_add(grid, event_short(json_text_of(row, "eventType")));
    grid_add(grid, json_text_of(row, "sandboxId"));
    grid_add(grid, json_text_of(row, "status"));
    grid_addf(grid, "%lld", (long long)json_integer_value(json_object_get(row, "attempts")));
    if (json_is_integer(status)) {
        grid_addf(grid, "%lld", (long long)json_integer_value(status));
    } else {
        grid_add(grid, json_text_of(row, "error"));
    }
}

static int webhook_deliveries(const struct cli *cli, const struct endpoint *endpoint,
                              struct err *err)
{
    static const struct grid_column columns[] = {{.title = "ID"},
                                                 {.title = "TIME"},
                                                 {.title = "EVENT", .shrinks = true},
                                                 {.title = "SANDBOX", .shrinks = true},
                                                 {.title = "STATUS"},
                                                 {.title = "TRIES", .right = true},
                                                 {.title = "ANSWER", .shrinks = true}};
    scoped(grid_fini) struct grid grid = grid_of(columns);
    scoped_json *list = NULL;
    const json_t *row;
    size_t i;
    char path[PATH_BYTES];

    webhook_path(cli->words[1], "/deliveries?limit=100", path);
    int r = endpoint_call(endpoint, "GET", path, NULL, &list, err);
    if (r == 0 && cli->json) {
        cli_print_json(list);
        return 0;
    }
    json_array_foreach (list, i, row) {
        delivery_add(&grid, row);
        if (cli->quiet) {
            printf("%s\n", json_text_of(row, "id"));
        }
    }
    if (r == 0 && !cli->quiet) {
        grid_print(&grid, stdout);
    }
    return r;
}

static int webhook_redeliver(const struct cli *cli, const struct endpoint *endpoint,
                             struct err *err)
{
    scoped_json *answer = NULL;
    char path[PATH_BYTES], more[PATH_BYTES / 2], escaped[PATH_BYTES / 4];

    endpoint_escape(cli->words[2], escaped, sizeof(escaped));
    (void)snprintf(more, sizeof(more), "/deliveries/%s/redeliver", escaped);
    webhook_path(cli->words[1], more, path);
    int r = endpoint_call(endpoint, "POST", path, NULL, &answer, err);
    if (r == 0 && cli->json && answer) {
        cli_print_json(answer);
    } else if (r == 0 && cli->quiet) {
        printf("%s\n", answer_text(answer, "deliveryId"));
    }
    return r;
}

static int webhook(struct cli *cli)
{
    static const struct daemon_call subs[] = {
        {.name = "list", .run = webhook_list},
        {.name = "create", .run = webhook_create},
        {.name = "rm", .each = webhook_rm, .done = "Deleted"},
        {.name = "test", .run = webhook_test},
        {.name = "deliveries", .run = webhook_deliveries},
        {.name = "redeliver", .run = webhook_redeliver},
    };

    return cli_daemon_call(cli, subs, countof(subs));
}

static const struct option webhook_options[] = {
    {.name = "--name", .value = "NAME", .help = "a name for lists", .of = "create"},
    {.name = "--event",
     .value = "EVENT",
     .help = "one of them [created updated paused resumed killed]",
     .of = "create",
     .repeats = true},
    {.name = NULL},
};

static const struct subcommand webhook_subs[] = {
    {"list", "", "lists webhooks", 0, 0, COMMAND_JSON | COMMAND_QUIET, TAKES_TEXT},
    {"create", "URL", "creates one; asks for its secret", 1, 1, COMMAND_JSON | COMMAND_QUIET,
     TAKES_TEXT},
    {"rm", "ID...", "deletes webhooks", 1, WORDS_ANY, COMMAND_JSON | COMMAND_QUIET, TAKES_TEXT},
    {"test", "ID", "sends a test event now", 1, 1, COMMAND_JSON | COMMAND_QUIET, TAKES_TEXT},
    {"deliveries", "ID", "lists deliveries and answers", 1, 1, COMMAND_JSON | COMMAND_QUIET,
     TAKES_TEXT},
    {"redeliver", "ID DELIVERY", "sends a delivery once more", 2, 2, COMMAND_JSON | COMMAND_QUIET,
     TAKES_TEXT},
    {.name = NULL},
};

const struct command row_webhook = {
    .name = "webhook",
    .args = "list | create URL | rm ID... | test ID | deliveries ID | redeliver ID DELIVERY",
    .summary = "manages webhooks: where events of sandboxes are sent",
    .run = webhook,
    .group = GROUP_ACCOUNTS,
    .options = webhook_options,
    .subs = webhook_subs,
    .examples = "atoll webhook create https://example.com/hook --event killed <secret.txt\n"
                "atoll webhook deliveries 6f9e4b7c-1d1f-4a53-9b5b-3f0d3a0a2f11",
};
