#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

const char cli_admin_key_usage[] = "usage: atoll admin-key create NAME | list | revoke ID";

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

int cli_admin_key(struct cli *cli)
{
    struct endpoint endpoint;
    struct err err;
    const char *verb = cli->words_n > 0 ? cli->words[0] : "";
    bool creates = strcmp(verb, "create") == 0, revokes = strcmp(verb, "revoke") == 0;

    if ((!creates && !revokes && strcmp(verb, "list") != 0) ||
        cli->words_n != (creates || revokes ? 2 : 1)) {
        return cli_fail(CLI_USAGE, "%s", cli_admin_key_usage);
    }
    int r = endpoint_admin(cli, &endpoint, &err);
    if (r == 0 && creates) {
        r = create(&endpoint, cli->words[1], &err);
    } else if (r == 0 && revokes) {
        r = revoke(&endpoint, cli->words[1], &err);
    } else if (r == 0) {
        r = list(&endpoint, &err);
    }
    return r == 0 ? CLI_OK : cli_fail(CLI_FAILED, "%s", err.msg);
}
