#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/grid.h"
#include "lib/base/str.h"

static const struct grid_column columns[] = {
    {.title = "ID"},  {.title = "KEY"}, {.title = "CREATED"}, {.title = "NAME", .shrinks = true},
    {.title = "MAY"},
};

static int key_create(const struct cli *cli, const struct endpoint *endpoint, const char *name,
                      struct err *err)
{
    bool read_only = cli_has(cli, "--read-only");
    scoped_json *body = json_pack("{s:s, s:b}", "name", name, "readOnly", read_only);
    scoped_json *answer = NULL;

    if (!body) {
        return err_set(err, EINVAL, "the name is not UTF-8");
    }
    int r = endpoint_call(endpoint, "POST", "/api-keys", body, &answer, err);
    if (r == 0 && cli->json) {
        cli_print_json(answer);
    } else if (r == 0) {
        printf("%s\n", answer_text(answer, "key"));
    }
    if (r == 0 && !cli->json && !cli->quiet) {
        (void)fprintf(stderr, "The key is shown once. Its id is %s\n", answer_text(answer, "id"));
    }
    return r;
}

static void row_add(struct grid *grid, const json_t *key)
{
    const json_t *mask = json_object_get(key, "mask");

    grid_add(grid, json_text_of(key, "id"));
    grid_addf(grid, "%s%s...%s", answer_text(mask, "prefix"),
              answer_text(mask, "maskedValuePrefix"), answer_text(mask, "maskedValueSuffix"));
    grid_add(grid, json_text_of(key, "createdAt"));
    grid_add(grid, json_text_of(key, "name"));
    grid_add(grid, json_is_true(json_object_get(key, "readOnly")) ? "read" : "all");
}

static int key_list(const struct cli *cli, const struct endpoint *endpoint, struct err *err)
{
    scoped(grid_fini) struct grid grid = grid_of(columns);
    scoped_json *answer = NULL;
    int r = endpoint_call_verbatim(endpoint, "GET", "/api-keys", NULL, &answer, err);

    if (r == 0) {
        grid_print_list(cli, answer, "id", &grid, row_add);
    }
    return r;
}

/* The daemon replaces a default key that is revoked. */
static void tell_of_rotation(const struct cli *cli, const struct endpoint *before)
{
    struct endpoint now;
    struct err err;

    if (before->key[0] && endpoint_find(cli, &now, &err) == 0 &&
        strcmp(now.key, before->key) != 0) {
        (void)fprintf(stderr,
                      "That was the default key; a new one replaces it: `%s env` prints it\n",
                      cli->program);
    }
}

static int key_revoke(const struct cli *cli, const struct endpoint *endpoint, const char *id,
                      struct err *err)
{
    char path[128];
    scoped_json *answer = NULL;
    struct endpoint before = {0}; /* its key stays empty if we may not read it */
    struct err ignored;

    if (strspn(id, "0123456789abcdef-") != strlen(id) || strlen(id) > 64) {
        return err_set(err, EINVAL, "'%.64s' is not the id of a key; `atoll key list` shows them",
                       id);
    }
    (void)snprintf(path, sizeof(path), "/api-keys/%s", id);
    (void)!endpoint_find(cli, &before, &ignored);
    int r = endpoint_call(endpoint, "DELETE", path, NULL, &answer, err);
    if (r == 0) {
        cli_print_done(cli, NULL, id);
        tell_of_rotation(cli, &before);
    }
    return r;
}

static int key(struct cli *cli)
{
    struct endpoint endpoint;
    struct err err;
    bool create = strcmp(cli->sub->name, "create") == 0;
    bool revoke = strcmp(cli->sub->name, "revoke") == 0;

    int r = endpoint_choose(cli, &endpoint, &err);
    if (r == 0 && create) {
        r = key_create(cli, &endpoint, cli->words[1], &err);
    } else if (r == 0 && revoke) {
        r = key_revoke(cli, &endpoint, cli->words[1], &err);
    } else if (r == 0) {
        r = key_list(cli, &endpoint, &err);
    }
    return cli_result(r, &err);
}

static const struct subcommand key_subs[] = {
    {"create", "NAME [--read-only]", "creates a key and prints it", 1, 1,
     COMMAND_JSON | COMMAND_QUIET, TAKES_TEXT},
    {"list", "", "lists keys without their secrets", 0, 0, COMMAND_JSON | COMMAND_QUIET,
     TAKES_TEXT},
    {"revoke", "ID", "ends a key at once", 1, 1, COMMAND_JSON | COMMAND_QUIET, TAKES_TEXT},
    {.name = NULL},
};

static const struct option key_options[] = {
    {.name = "--read-only", .of = "create", .help = "the key may look, and change nothing"},
    {.name = NULL},
};

const struct command row_key = {
    .name = "key",
    .args = "create NAME [--read-only] | list | revoke ID",
    .summary = "creates, lists and revokes API keys",
    .run = key,
    .group = GROUP_ACCOUNTS,
    .options = key_options,
    .subs = key_subs,
    .examples = "export E2B_API_KEY=$(atoll key create laptop)",
};
