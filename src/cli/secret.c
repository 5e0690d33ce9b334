/* secret.c - the secrets of a team, which network rules put into requests. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/grid.h"
#include "cli/hidden_value.h"
#include "lib/base/alloc.h"

enum { PATH_BYTES = 512 };

static void secret_path(const char *name, char out[PATH_BYTES])
{
    char escaped[PATH_BYTES / 2];

    endpoint_escape(name, escaped, sizeof(escaped));
    (void)snprintf(out, PATH_BYTES, "/secrets/%s", escaped);
}

static void collect(void *ctx, const json_t *row)
{
    (void)json_array_append(ctx, json_unconst(row));
}

static void list_print(const struct cli *cli, const json_t *list)
{
    static const struct grid_column columns[] = {{.title = "NAME", .shrinks = true},
                                                 {.title = "VERSION"},
                                                 {.title = "CREATED"},
                                                 {.title = "CHANGED"}};
    scoped(grid_fini) struct grid grid = grid_of(columns);
    const json_t *row;
    size_t i;

    if (cli->json) {
        cli_print_json(list);
        return;
    }
    json_array_foreach (list, i, row) {
        if (cli->quiet) {
            printf("%s\n", json_text_of(row, "name"));
            continue;
        }
        const json_t *version = json_object_get(row, "currentVersion");
        grid_add(&grid, json_text_of(row, "name"));
        if (json_is_integer(version)) {
            grid_addf(&grid, "%lld", (long long)json_integer_value(version));
        } else {
            grid_add(&grid, json_string_value(version));
        }
        grid_add(&grid, json_text_of(row, "createdAt"));
        grid_add(&grid, json_text_of(row, "updatedAt"));
    }
    if (!cli->quiet) {
        grid_print(&grid, stdout);
    }
}

static int secret_list(const struct cli *cli, const struct endpoint *endpoint, struct err *err)
{
    scoped_json *list = json_array();
    int r = endpoint_each(endpoint, "/secrets?limit=100", collect, list, err);

    if (r == 0) {
        list_print(cli, list);
    }
    return r;
}

/* A secret that is there gets a new version. */
static int value_send(const struct endpoint *endpoint, const char *name, const char *value,
                      json_t **answer, struct err *err)
{
    scoped_json *change = json_pack("{ss}", "value", value);
    scoped_json *fresh = json_pack("{ssss}", "name", name, "value", value);
    char path[PATH_BYTES];

    if (!change || !fresh) {
        return err_set(err, EILSEQ, "the name or the value is not UTF-8");
    }
    secret_path(name, path);
    int r = endpoint_call(endpoint, "POST", path, change, answer, err);
    return r == -CALL_NOT_FOUND ? endpoint_call(endpoint, "POST", "/secrets", fresh, answer, err)
                                : r;
}

static int secret_set(const struct cli *cli, const struct endpoint *endpoint, struct err *err)
{
    const char *name = cli->words[1], *given = cli_option(cli, "--value");
    char *value = xcalloc(1, HIDDEN_VALUE_BYTES), question[PATH_BYTES];
    scoped_json *answer = NULL;

    (void)snprintf(question, sizeof(question), "Value of %.200s", name);
    int r = given ? 0 : hidden_value_read(question, value, err);
    r = r < 0 ? r : value_send(endpoint, name, given ? given : value, &answer, err);
    explicit_bzero(value, HIDDEN_VALUE_BYTES);
    free(value);
    if (r == 0 && cli->json) {
        cli_print_json(answer);
    } else if (r == 0 && cli->quiet) {
        printf("%s\n", json_text_of(answer, "name"));
    }
    return r;
}

static int secret_rm(const struct endpoint *endpoint, const char *name, struct err *err)
{
    scoped_json *answer = NULL;
    char path[PATH_BYTES];

    secret_path(name, path);
    return endpoint_call(endpoint, "DELETE", path, NULL, &answer, err);
}

static int secret(struct cli *cli)
{
    static const struct daemon_call subs[] = {
        {.name = "list", .run = secret_list},
        {.name = "set", .run = secret_set},
        {.name = "rm", .each = secret_rm, .done = "Deleted"},
    };

    return cli_daemon_call(cli, subs, countof(subs));
}

static const struct option secret_options[] = {
    {.name = "--value",
     .value = "TEXT",
     .help = "the value; `ps` shows it to everybody",
     .of = "set"},
    {.name = NULL},
};

static const struct subcommand secret_subs[] = {
    {"list", "", "lists names, never values", 0, 0, COMMAND_JSON | COMMAND_QUIET, TAKES_TEXT},
    {"set", "NAME", "stores a value, typed or from stdin", 1, 1, COMMAND_JSON | COMMAND_QUIET,
     TAKES_TEXT},
    {"rm", "NAME...", "deletes secrets", 1, WORDS_ANY, COMMAND_JSON | COMMAND_QUIET, TAKES_SECRET},
    {.name = NULL},
};

const struct command row_secret = {
    .name = "secret",
    .args = "list | set NAME | rm NAME...",
    .summary = "manages secrets, which network rules put into requests",
    .run = secret,
    .group = GROUP_ACCOUNTS,
    .options = secret_options,
    .subs = secret_subs,
    .about = "\nCode in a sandbox uses a secret without seeing it: a network rule names it as\n"
             "${e2b.secrets.NAME}. The value is read from stdin, or asked for at a terminal.",
    .examples = "atoll secret set openai <key.txt\n"
                "atoll secret set openai",
};
