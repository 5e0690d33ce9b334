/* network.c - what a sandbox may reach: prints the rules, or replaces them while it runs. */
#include <stdio.h>
#include <string.h>

#include "cli/grid.h"
#include "cli/rules.h"
#include "cli/sandboxes.h"

enum { PATH_BYTES = 128 };

static const struct grid_column columns[] = {{.title = "RULE"}, {.title = "TARGET"}};

/* ---- the rules as they are ---- */

static void targets_print(struct grid *grid, const char *rule, const json_t *targets)
{
    for (size_t i = 0; i < json_array_size(targets); i++) {
        grid_add(grid, rule);
        grid_add(grid, json_string_value(json_array_get(targets, i)));
    }
}

static void rules_print(const json_t *sandbox)
{
    scoped(grid_fini) struct grid grid = grid_of(columns);
    const json_t *network = json_object_get(sandbox, "network");
    const json_t *allow = json_object_get(network, "allowOut");
    const json_t *deny = json_object_get(network, "denyOut");
    bool closed = json_is_false(json_object_get(sandbox, "allowInternetAccess"));

    targets_print(&grid, "allow", allow);
    targets_print(&grid, "deny", deny);
    if (closed || json_array_size(deny) == 0) {
        grid_add(&grid, closed ? "deny" : "allow");
        grid_add(&grid, "everything");
    }
    grid_print(&grid, stdout);
}

static void rules_show(const struct cli *cli, const json_t *sandbox)
{
    if (cli->json) {
        json_t *network = json_object_get(sandbox, "network");
        scoped_json *shown =
            json_pack("{s:s, s:O, s:o}", "sandboxID", json_text_of(sandbox, "sandboxID"),
                      "allowInternetAccess", json_object_get(sandbox, "allowInternetAccess"),
                      "network", network ? json_incref(network) : json_object());
        cli_print_json(shown);
    } else if (cli->quiet) {
        printf("%s\n", json_text_of(sandbox, "sandboxID"));
    } else {
        rules_print(sandbox);
    }
}

/* ---- a change ---- */

/* The daemon takes the rules whole: those that no option is about are sent as they were. */
static int body_make(const struct cli *cli, const json_t *sandbox, json_t *body, struct err *err)
{
    static const char *const kept[] = {"rules", "dnsServers", "egressProxy"};
    const json_t *network = json_object_get(sandbox, "network");

    if (json_object_get(json_object_get(network, "egressProxy"), "username")) {
        return err_set(err, EINVAL,
                       "the sandbox has a proxy whose password the daemon does not tell: "
                       "change its rules with PUT /sandboxes/%s/network",
                       json_text_of(sandbox, "sandboxID"));
    }
    for (size_t i = 0; i < countof(kept); i++) {
        json_t *value = json_object_get(network, kept[i]);
        if (value) {
            (void)json_object_set(body, kept[i], value);
        }
    }
    return rules_add(cli, body, body, err);
}

static int rules_change(const struct cli *cli, const struct endpoint *endpoint,
                        const json_t *sandbox, struct err *err)
{
    scoped_json *body = json_object(), *answer = NULL;
    char path[PATH_BYTES];

    (void)snprintf(path, sizeof(path), "/sandboxes/%s/network", json_text_of(sandbox, "sandboxID"));
    int r = body_make(cli, sandbox, body, err);
    return r < 0 ? r : endpoint_call(endpoint, "PUT", path, body, &answer, err);
}

static int sandbox_read(const struct endpoint *endpoint, const char *id, json_t **out,
                        struct err *err)
{
    char path[PATH_BYTES];

    (void)snprintf(path, sizeof(path), "/sandboxes/%s", id);
    return endpoint_call_verbatim(endpoint, "GET", path, NULL, out, err);
}

static int network_run(struct cli *cli)
{
    scoped_json *before = NULL, *now = NULL;
    struct endpoint endpoint;
    char id[ID_SANDBOX_LEN + 1];
    struct err err;
    bool change = rules_given(cli) || cli_has(cli, "--open");

    if (rules_given(cli) && cli_has(cli, "--open")) {
        return cli_usage(cli, "--open removes the rules: leave the other options out");
    }
    int r = endpoint_choose(cli, &endpoint, &err);
    r = r < 0 ? r : sandbox_find(&endpoint, cli->words[0], id, &err);
    r = r < 0 ? r : sandbox_read(&endpoint, id, &before, &err);
    r = r < 0 || !change ? r : rules_change(cli, &endpoint, before, &err);
    r = r < 0 || !change ? r : sandbox_read(&endpoint, id, &now, &err);
    if (r < 0) {
        return cli_failed(r, &err);
    }
    rules_show(cli, change ? now : before);
    return CLI_OK;
}

static const struct option options[] = {
    RULES_OPTIONS,
    {.name = "--open", .help = "remove these rules"},
    {.name = NULL},
};

const struct command row_network = {
    .name = "network",
    .args = "ID [--allow-out TARGET] [--deny-out TARGET] [--no-internet]",
    .summary = "prints or replaces the rules of what a sandbox may reach",
    .run = network_run,
    .group = GROUP_SANDBOXES,
    .bits = COMMAND_JSON | COMMAND_QUIET,
    .words_min = 1,
    .words_max = 1,
    .takes = TAKES_SANDBOX,
    .options = options,
    .about = "\nWith an option the rules are replaced, at once, and printed. A target that is\n"
             "allowed is reached even if a rule denies it. The host and private networks are\n"
             "never reached unless the operator opens them. `atoll logs ID` shows refusals.",
    .examples = "atoll network i7i9\n"
                "atoll network i7i9 --allow-out pypi.org --allow-out '*.pythonhosted.org'",
};
