#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

static int create(const struct endpoint *endpoint, const char *name, struct err *err)
{
    scoped_json *body = json_pack("{s:s}", "name", name);
    scoped_json *answer = NULL;

    if (!body) {
        return err_set(err, EINVAL, "the name is not UTF-8");
    }
    int r = endpoint_call(endpoint, "POST", "/admin/keys", body, &answer, err);
    if (r == 0) {
        printf("%s\n", answer_text(answer, "key"));
        (void)fprintf(stderr,
                      "The key is shown once. Send it as X-Admin-Token, or set "
                      "ATOLL_ADMIN_KEY. Its id is %s\n",
                      answer_text(answer, "id"));
    }
    return r;
}

static int list(const struct endpoint *endpoint, struct err *err)
{
    scoped_json *answer = NULL;
    const json_t *key;
    size_t i;

    int r = endpoint_call(endpoint, "GET", "/admin/keys", NULL, &answer, err);
    json_array_foreach (answer, i, key) {
        printf("%s  %s  %s  %s\n", answer_text(key, "id"), answer_text(key, "masked"),
               answer_text(key, "createdAt"), answer_text(key, "name"));
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

static int admin_key(struct cli *cli)
{
    struct endpoint endpoint;
    struct err err;
    bool creates = strcmp(cli->sub->name, "create") == 0;
    bool revokes = strcmp(cli->sub->name, "revoke") == 0;

    int r = endpoint_admin(cli, &endpoint, &err);
    if (r == 0 && creates) {
        r = create(&endpoint, cli->words[1], &err);
    } else if (r == 0 && revokes) {
        r = revoke(&endpoint, cli->words[1], &err);
    } else if (r == 0) {
        r = list(&endpoint, &err);
    }
    return cli_result(r, &err);
}

static const struct subcommand admin_key_subs[] = {
    {"create", "NAME", "creates a key and prints it", 1, 1, 0, TAKES_TEXT},
    {"list", "", "lists keys, without their secret part", 0, 0, 0, TAKES_TEXT},
    {"revoke", "ID", "ends a key at once", 1, 1, 0, TAKES_TEXT},
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
