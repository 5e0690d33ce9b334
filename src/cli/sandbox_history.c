/* sandbox_history.c - `atoll doctor ID`: what happened to one sandbox, in order. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/entry.h"

enum { PATH_BYTES = 128 };

struct history {
    json_t *events; /* oldest first */
    json_t *logs;   /* newest first */
    json_t *now;    /* while it runs */
};

static void history_fini(struct history *history)
{
    json_decref(history->events);
    json_decref(history->logs);
    json_decref(history->now);
}

/* A missing part is no failure; a daemon that does not answer is. */
static int ask(const struct endpoint *endpoint, const char *before, const char *id,
               const char *after, json_t **out, struct err *err)
{
    char path[PATH_BYTES];

    (void)snprintf(path, sizeof(path), "%s%s%s", before, id, after);
    int r = endpoint_call(endpoint, "GET", path, NULL, out, err);
    return r == -EPROTO || r == -CALL_NOT_FOUND ? 0 : r;
}

static int history_read(const struct endpoint *endpoint, const char *id, struct history *history,
                        struct err *err)
{
    int r =
        ask(endpoint, "/events/sandboxes/", id, "?limit=100&orderAsc=true", &history->events, err);

    if (r == 0) {
        r = ask(endpoint, "/v2/sandboxes/", id, "/logs?direction=backward", &history->logs, err);
    }
    return r == 0 ? ask(endpoint, "/sandboxes/", id, "", &history->now, err) : r;
}

static void event_print(const json_t *event)
{
    const json_t *data = json_object_get(event, "eventData");
    const json_t *execution = json_object_get(data, "execution");
    const char *type = json_text_of(event, "type");
    const char *dot = strrchr(type, '.');

    printf("%s event the sandbox was ", json_text_of(event, "timestamp"));
    entry_put(dot ? dot + 1 : type);
    if (json_object_get(data, "fork_of")) {
        printf(" as a fork of ");
        entry_put(json_text_of(data, "fork_of"));
    }
    if (json_object_get(data, "fork_id")) {
        printf(" as ");
        entry_put(json_text_of(data, "fork_id"));
    }
    if (json_object_get(data, "kill_reason")) {
        printf(": ");
        entry_put(json_text_of(data, "kill_reason"));
    }
    if (json_object_get(data, "memory_lost")) {
        printf(" without its memory: ");
        entry_put(json_text_of(data, "memory_lost"));
    }
    if (json_object_get(data, "set_timeout")) {
        printf(": it may run until ");
        entry_put(json_text_of(data, "set_timeout"));
    }
    if (execution) {
        printf(" (it had run for %.1f s)",
               (double)json_integer_value(json_object_get(execution, "execution_time")) / 1000);
    }
    printf("\n");
}

static bool begins_something(const json_t *event)
{
    const char *type = json_text_of(event, "type");

    return strstr(type, ".created") || strstr(type, ".resumed");
}

/* Stamps are of one form, so their order is that of their letters. Within one millisecond lines
 * come after the beginning of what they tell about, and before its end. */
static bool is_before(const json_t *event, const json_t *log)
{
    int order = strcmp(json_text_of(event, "timestamp"), json_text_of(log, "timestamp"));

    return order < 0 || (order == 0 && begins_something(event));
}

static void history_print(const struct history *history)
{
    const json_t *logs = json_object_get(history->logs, "logs");
    size_t event = 0, events_n = json_array_size(history->events);
    size_t log = json_array_size(logs);

    while (event < events_n || log > 0) {
        const json_t *next_event = json_array_get(history->events, event);
        const json_t *next_log = log > 0 ? json_array_get(logs, log - 1) : NULL;
        bool is_event = next_event && (!next_log || is_before(next_event, next_log));
        if (is_event) {
            event_print(next_event);
            event++;
        } else {
            entry_print(next_log);
            log--;
        }
    }
}

static void end_print(const char *id, const struct history *history)
{
    size_t n = json_array_size(history->events);
    const json_t *data = NULL;

    for (size_t i = 0; i < n; i++) {
        const json_t *d = json_object_get(json_array_get(history->events, i), "eventData");
        data = json_object_get(d, "kill_reason") ? d : data;
    }
    if (history->now) {
        printf("Sandbox %s is %s and may run until %s\n", id, json_text_of(history->now, "state"),
               json_text_of(history->now, "endAt"));
    } else if (data) {
        printf("Sandbox %s ended: ", id);
        entry_put(json_text_of(data, "kill_reason"));
        printf("\n");
    } else {
        printf("Sandbox %s has ended; the reason is no longer on record\n", id);
    }
}

/* The answers of the API; null: there is none. */
static void history_json(const struct history *history)
{
    scoped_json *all = json_object();

    (void)json_object_set(all, "events", history->events ? history->events : json_null());
    (void)json_object_set(all, "logs", history->logs ? history->logs : json_null());
    (void)json_object_set(all, "sandbox", history->now ? history->now : json_null());
    cli_print_json(all);
}

int cli_sandbox_history(struct cli *cli, const char *id)
{
    scoped(history_fini) struct history history = {0};
    struct endpoint endpoint;
    struct err err;

    if (!entry_id_ok(id)) {
        return cli_fail(CLI_USAGE, "'%.32s' is not the id of a sandbox", id);
    }
    int r = endpoint_choose(cli, &endpoint, &err);
    if (r == 0) {
        r = history_read(&endpoint, id, &history, &err);
    }
    if (r < 0) {
        return cli_failed(r, &err);
    }
    if (!history.now && !history.logs && json_array_size(history.events) == 0) {
        return cli_fail(CLI_NOT_FOUND, "there is no record of a sandbox %s", id);
    }
    if (cli->json) {
        history_json(&history);
        return CLI_OK;
    }
    history_print(&history);
    end_print(id, &history);
    return CLI_OK;
}
