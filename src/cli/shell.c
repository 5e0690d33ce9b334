#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/grid.h"

enum { PATH_BYTES = 512, VALUE_BYTES = 16 * 1024 };

static void shell_path(const char *name, char out[PATH_BYTES])
{
    char escaped[PATH_BYTES / 2];

    endpoint_escape(name, escaped, sizeof(escaped));
    (void)snprintf(out, PATH_BYTES, "/shells/%s", escaped);
}

static const struct grid_column columns[] = {
    {.title = "NAME"},
    {.title = "URL", .shrinks = true},
    {.title = "METHODS", .shrinks = true},
    {.title = "PATHS", .shrinks = true},
    {.title = "KEY", .shrinks = true},
};

static void add_list(struct grid *grid, const json_t *list)
{
    char text[PATH_BYTES] = "";
    size_t used = 0;

    for (size_t i = 0; i < json_array_size(list) && used < sizeof(text); i++) {
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s", i > 0 ? "," : "",
                                 json_string_value(json_array_get(list, i)));
    }
    grid_add(grid, text);
}

static void row_add(struct grid *grid, const json_t *shell)
{
    const json_t *header = json_object_get(shell, "header");
    const json_t *field = header ? header : json_object_get(shell, "query");
    const json_t *value = json_object_get(field, "value");

    grid_add(grid, json_text_of(shell, "name"));
    grid_add(grid, json_text_of(shell, "baseUrl"));
    add_list(grid, json_object_get(shell, "methods"));
    add_list(grid, json_object_get(shell, "paths"));
    grid_addf(grid, "%s %s: %s", header ? "header" : "query", answer_text(field, "name"),
              value ? json_string_value(value) : "(sealed)");
}

static int shell_list(const struct cli *cli, const struct endpoint *endpoint, struct err *err)
{
    scoped(grid_fini) struct grid grid = grid_of(columns);
    scoped_json *answer = NULL;
    int r = endpoint_call_verbatim(endpoint, "GET", "/shells", NULL, &answer, err);

    if (r == 0) {
        grid_print_list(cli, answer, "name", &grid, row_add);
    }
    return r;
}

static int shell_rm(const struct cli *cli, const struct endpoint *endpoint, struct err *err)
{
    scoped_json *answer = NULL;
    char path[PATH_BYTES];

    shell_path(cli->words[1], path);
    int r = endpoint_call(endpoint, "DELETE", path, NULL, &answer, err);
    if (r == 0) {
        cli_print_done(cli, NULL, cli->words[1]);
    }
    return r;
}

/* Without --value the key is read from stdin: an argument would show in the list of processes. */
static int value_read(char out[VALUE_BYTES], struct err *err)
{
    if (!fgets(out, VALUE_BYTES, stdin)) {
        return err_set(err, EINVAL,
                       "the key's value is read from standard input, and there is none");
    }
    out[strcspn(out, "\r\n")] = '\0';
    return 0;
}

static json_t *field_json(const char *name, const char *value)
{
    return json_pack("{s:s, s:s}", "name", name, "value", value);
}

/* -1: no option of that name. */
static int option_take(json_t *body, const char *name, const char *value)
{
    bool method = strcmp(name, "--method") == 0;

    if (method || strcmp(name, "--path") == 0) {
        const char *list = method ? "methods" : "paths";
        if (!json_object_get(body, list)) {
            (void)json_object_set_new(body, list, json_array());
        }
        return json_array_append_new(json_object_get(body, list), json_string(value));
    }
    return 0;
}

static int body_make(const struct cli *cli, json_t *body, struct err *err)
{
    const char *header = cli_option(cli, "--header"), *query = cli_option(cli, "--query");
    const char *value = cli_option(cli, "--value");
    char given[VALUE_BYTES];
    int r = 0;

    if (!header == !query) {
        return err_set(err, EINVAL, "say where the key goes: --header NAME or --query NAME");
    }
    if (!value) {
        r = value_read(given, err);
        value = given;
    }
    for (int i = 0; r == 0 && i < cli->options_n; i++) {
        r = option_take(body, cli->options[i].name, cli->options[i].value);
    }
    if (r == 0) {
        r = json_object_set_new(body, header ? "header" : "query",
                                field_json(header ? header : query, value));
        r = r < 0 ? err_set(err, EINVAL, "the words are not UTF-8") : 0;
    }
    explicit_bzero(given, sizeof(given));
    return r;
}

static int shell_put(const struct cli *cli, const struct endpoint *endpoint, struct err *err)
{
    scoped_json *body = json_pack("{s:s}", "baseUrl", cli->words[2]);
    scoped_json *answer = NULL;
    char path[PATH_BYTES];
    int r = body ? body_make(cli, body, err) : err_set(err, EINVAL, "the URL is not UTF-8");

    shell_path(cli->words[1], path);
    r = r < 0 ? r : endpoint_call(endpoint, "PUT", path, body, &answer, err);
    if (r == 0 && cli->json) {
        cli_print_json(answer);
    } else if (r == 0 && cli->quiet) {
        printf("%s\n", answer_text(answer, "name"));
    } else if (r == 0) {
        scoped(grid_fini) struct grid grid = grid_of(columns);
        row_add(&grid, answer);
        grid_print(&grid, stdout);
    }
    return r;
}

static int shell(struct cli *cli)
{
    struct endpoint endpoint;
    struct err err;
    bool put = strcmp(cli->sub->name, "put") == 0, rm = strcmp(cli->sub->name, "rm") == 0;

    int r = endpoint_choose(cli, &endpoint, &err);
    if (r == 0 && put) {
        r = shell_put(cli, &endpoint, &err);
    } else if (r == 0 && rm) {
        r = shell_rm(cli, &endpoint, &err);
    } else if (r == 0) {
        r = shell_list(cli, &endpoint, &err);
    }
    return cli_result(r, &err);
}

static const struct option shell_options[] = {
    {.name = "--header", .value = "NAME", .help = "the key is sent in this header", .of = "put"},
    {.name = "--query", .value = "NAME", .help = "or in this field of the query", .of = "put"},
    {.name = "--value",
     .value = "TEXT",
     .help = "the key; without it: read from standard input",
     .of = "put"},
    {.name = "--method",
     .value = "M",
     .help = "allow this method only",
     .of = "put",
     .repeats = true},
    {.name = "--path", .value = "P", .help = "allow this path only", .of = "put", .repeats = true},
    {.name = NULL},
};

static const struct subcommand shell_subs[] = {
    {"list", "", "lists shells, without their keys", 0, 0, COMMAND_JSON | COMMAND_QUIET,
     TAKES_TEXT},
    {"put", "NAME URL --header NAME | --query NAME", "makes or replaces a shell", 2, 2,
     COMMAND_JSON | COMMAND_QUIET, TAKES_TEXT},
    {"rm", "NAME", "removes a shell", 1, 1, COMMAND_JSON | COMMAND_QUIET, TAKES_TEXT},
    {.name = NULL},
};

const struct command row_shell = {
    .name = "shell",
    .args = "list | put NAME URL ... | rm NAME",
    .summary = "manages API shells: accounts that code uses without their keys",
    .run = shell,
    .group = GROUP_TEMPLATES,
    .options = shell_options,
    .subs = shell_subs,
    .about = "\nWithout --value the key is read from standard input, where no list of processes\n"
             "shows it.",
    .examples = "atoll shell put github https://api.github.com --header Authorization < token",
};
