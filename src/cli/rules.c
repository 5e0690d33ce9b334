#include "cli/rules.h"

#include <string.h>

#define EVERYTHING "0.0.0.0/0"

bool rules_given(const struct cli *cli)
{
    return cli_has(cli, "--allow-out") || cli_has(cli, "--deny-out") ||
           cli_has(cli, "--no-internet");
}

static int targets_add(const struct cli *cli, const char *option, const char *member,
                       json_t *network, struct err *err)
{
    json_t *list = json_array();

    for (int i = 0; i < cli->options_n; i++) {
        if (strcmp(cli->options[i].name, option) == 0 &&
            json_array_append_new(list, json_string(cli->options[i].value)) < 0) {
            json_decref(list);
            return err_set(err, EINVAL, "the value of %s is not UTF-8", option);
        }
    }
    if (json_array_size(list) > 0) {
        return json_object_set_new(network, member, list);
    }
    json_decref(list);
    return 0;
}

int rules_add(const struct cli *cli, json_t *network, json_t *body, struct err *err)
{
    int r = targets_add(cli, "--allow-out", "allowOut", network, err);

    r = r < 0 ? r : targets_add(cli, "--deny-out", "denyOut", network, err);
    if (r == 0 && json_object_get(network, "allowOut") && !json_object_get(network, "denyOut")) {
        (void)json_object_set_new(network, "denyOut", json_pack("[s]", EVERYTHING));
    }
    if (r == 0 && cli_has(cli, "--no-internet")) {
        (void)json_object_set_new(body, "allow_internet_access", json_false());
    }
    return r;
}
