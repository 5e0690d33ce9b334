#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/grid.h"

static const struct grid_column columns[] = {
    {.title = "ID"}, {.title = "KEY"}, {.title = "CREATED"}, {.title = "NAME", .shrinks = true}};

static int create(const struct cli *cli, const struct endpoint *endpoint, const char *name,
                  struct err *err)
{
    scoped_json *body = json_pack("{s:s}", "name", name);
    scoped_json *answer = NULL;

    if (!body) {
        return err_set(err, EINVAL, "the name is not UTF-8");
    }
    int r = endpoint_call(endpoint, "POST", "/admin/keys", body, &answer, err);
    if (r == 0 && cli->json) {
        cli_print_json(answer);
    } else if (r == 0) {
        printf("%s\n", answer_text(answer, "key"));
    }
    if (r == 0 && !cli->json && !cli->quiet) {
        (void)fprintf(stderr,
                      "The key is shown once. Send it as X-Admin-Token, or set "
                      "ATOLL_ADMIN_KEY. Its id is %s\n",
                      answer_text(answer, "id"));
    }
    return r;
}

static void row_add(struct grid *grid, const json_t *key)
{
    grid_add(grid, json_text_of(key, "id"));
    grid_add(grid, json_text_of(key, "masked"));
    grid_add(grid, json_text_of(key, "createdAt"));
    grid_add(grid, json_text_of(key, "name"));
}

static int list(const struct cli *cli, const struct endpoint *endpoint, struct err *err)
{
    scoped(grid_fini) struct grid grid = grid_of(columns);
    scoped_json *answer = NULL;
    int r = endpoint_call_verbatim(endpoint, "GET", "/admin/keys", NULL, &answer, err);

    if (r == 0) {
        grid_print_list(cli, answer, "id", &grid, row_add);
    }
    return r;
}

static int revoke(const struct endpoint *endpoint, const char *id, struct err *err)
{
    char escaped[256], path[300];
    scoped_json *answer = NULL;

    endpoint_escape(id, escaped, sizeof(escaped));
    (void)snprintf(path, sizeof(path), "/admin/keys/%s", escaped);
    return endpoint_call(endpoint, "DELETE", path, NULL, &answer, err);
}

static void done_print(const struct cli *cli, int r)
{
    if (r == 0) {
        cli_print_done(cli, NULL, cli->words[1]);
    }
}

static int admin_key(struct cli *cli)
{
    struct endpoint endpoint;
    struct err err;
    bool creates = strcmp(cli->sub->name, "create") == 0;
    bool revokes = strcmp(cli->sub->name, "revoke") == 0;

    int r = endpoint_admin(cli, &endpoint, &err);
    if (r == 0 && creates) {
        r = create(cli, &endpoint, cli->words[1], &err);
    } else if (r == 0 && revokes) {
        r = revoke(&endpoint, cli->words[1], &err);
        done_print(cli, r);
    } else if (r == 0) {
        r = list(cli, &endpoint, &err);
    }
    return cli_result(r, &err);
}

static const struct subcommand admin_key_subs[] = {
    {"create", "NAME", "creates a key and prints it", 1, 1, COMMAND_JSON | COMMAND_QUIET,
     TAKES_TEXT},
    {"list", "", "lists keys without their secrets", 0, 0, COMMAND_JSON | COMMAND_QUIET,
     TAKES_TEXT},
    {"revoke", "ID", "ends a key at once", 1, 1, COMMAND_JSON | COMMAND_QUIET, TAKES_TEXT},
    {.name = NULL},
};

const struct command row_admin_key = {
    .name = "admin-key",
    .args = "create NAME | list | revoke ID",
    .summary = "manages operator keys, which may see and change every team",
    .run = admin_key,
    .group = GROUP_ACCOUNTS,
    .subs = admin_key_subs,
    .about = "\nClients send such a key as X-Admin-Token; commands take it from ATOLL_ADMIN_KEY.",
    .examples = "atoll admin-key create on-call",
};
