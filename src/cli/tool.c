/* tool.c - `atoll tool`: the catalogue on the command line. The list and the help come from the
 * table that the daemon serves too; the daemon runs the call. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/entry.h"
#include "cli/suggest.h"
#include "cli/terminal_text.h"
#include "cli/tool_input.h"
#include "lib/base/buf.h"
#include "lib/base/fd.h"
#include "tools/tool.h"

enum { WIDTH = 78, INDENT = 6 };

/* ---- list and help ---- */

static void print_wrapped(const char *text, int indent)
{
    int column = 0;

    while (*text) {
        int len = (int)strcspn(text, " \n");

        if (column == 0 || column + 1 + len > WIDTH) {
            column = indent + len;
            printf("\n%*s%.*s", indent, "", len, text);
        } else {
            column += 1 + len;
            printf(" %.*s", len, text);
        }
        text += len + (text[len] != '\0');
    }
    printf("\n");
}

/* For programs: every tool with its schema, or names alone. */
static void list_plain(const struct cli *cli)
{
    scoped_json *all = json_array();

    for (size_t i = 0; i < tools_catalogue_n; i++) {
        const struct tool *tool = &tools_catalogue[i];
        if (cli->quiet) {
            printf("%s\n", tool->name);
        }
        (void)json_array_append_new(all, json_pack("{s:s, s:s, s:s, s:s, s:o}", "name", tool->name,
                                                   "group", tool->group, "title", tool->title,
                                                   "description", tool->description, "inputSchema",
                                                   json_loads(tool->input, 0, NULL)));
    }
    if (cli->json) {
        cli_print_json(all);
    }
}

static int list_tools(const struct cli *cli)
{
    const char *group = "";

    if (cli->json || cli->quiet) {
        list_plain(cli);
        return CLI_OK;
    }

    for (size_t i = 0; i < tools_catalogue_n; i++) {
        const struct tool *tool = &tools_catalogue[i];

        if (strcmp(group, tool->group) != 0) {
            group = tool->group;
            printf("%s%s\n", i ? "\n" : "", group);
        }
        printf("  %-28s %s\n", tool->name, tool->title);
    }
    printf("\n`atoll tool NAME --help` lists the fields of a tool.\n");
    return CLI_OK;
}

/* "string", "string or null", "string | integer" of anyOf. */
static void print_type(const json_t *property)
{
    const json_t *types = json_object_get(property, "type");
    const json_t *branches = json_object_get(property, "anyOf");

    if (json_is_string(types)) {
        printf("%s", json_string_value(types));
    }
    for (size_t i = 0; i < json_array_size(types); i++) {
        printf("%s%s", i ? " or " : "", json_string_value(json_array_get(types, i)));
    }
    for (size_t i = 0; i < json_array_size(branches); i++) {
        printf("%s", i ? " or " : "");
        print_type(json_array_get(branches, i));
    }
}

static void print_value(const char *before, const json_t *value, const char *after)
{
    char *text = value ? json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;

    if (text) {
        printf("%s%s%s", before, text, after);
    }
    free(text);
}

static void print_names(const json_t *names)
{
    for (size_t i = 0; i < json_array_size(names); i++) {
        printf("%s%s", i ? ", " : "      Also called ",
               json_string_value(json_array_get(names, i)));
    }
    printf("%s", json_array_size(names) ? "\n" : "");
}

static void print_fields(const json_t *schema)
{
    json_t *properties = json_object_get(schema, "properties");
    const char *name = NULL;
    json_t *property = NULL;

    json_object_foreach (properties, name, property) {
        const char *description = json_string_of(property, "description");

        printf("\n  %s  (", name);
        print_type(property);
        printf("%s", schema_requires(schema, name) ? ", required" : "");
        print_value(", default ", json_object_get(property, "default"), "");
        printf(")");
        print_wrapped(description ? description : "", INDENT);
        print_value("      One of ", json_object_get(property, "enum"), "\n");
        print_names(json_object_get(property, "x-names"));
    }
}

static int tool_help(const struct tool *tool)
{
    scoped_json *schema = json_loads(tool->input, 0, NULL);

    printf("Usage: atoll tool %s [FIELD=VALUE...] [FIELD:=JSON...] [@FILE]\n", tool->name);
    print_wrapped(tool->description, 0);
    print_fields(schema);
    printf(
        "\nFIELD=@FILE takes the value from a file, FIELD.NAME=VALUE sets one entry of an object,"
        "\na FIELD=VALUE that is repeated adds to a list, and @FILE (@- for stdin) is the whole"
        "\ninput as JSON.\n");
    return CLI_OK;
}

/* ---- a call ---- */

static int tool_call(const struct cli *cli, const struct tool *tool, json_t **answer,
                     struct err *err)
{
    scoped_json *schema = json_loads(tool->input, 0, NULL);
    scoped_json *input = json_object();
    struct endpoint endpoint;
    char path[128];

    int r = 0;
    for (int i = 1; r == 0 && i < cli->words_n; i++) {
        r = tool_input_take(input, schema, cli->words[i], err);
    }
    r = r == 0 ? endpoint_choose(cli, &endpoint, err) : r;
    if (r < 0) {
        return r;
    }
    (void)snprintf(path, sizeof(path), "/tools/%s", tool->name);
    return endpoint_call_verbatim(&endpoint, "POST", path, input, answer, err);
}

static int tool_run_words(const struct cli *cli, const struct tool *tool)
{
    scoped_json *answer = NULL;
    struct err err;

    int r = tool_call(cli, tool, &answer, &err);
    if (r < 0) {
        return cli_failed(r, &err);
    }
    char *text = json_dumps(answer, JSON_INDENT(2) | JSON_ENCODE_ANY);
    if (text && isatty(STDOUT_FILENO)) {
        terminal_text_clean(text);
    }
    printf("%s\n", text ? text : "");
    free(text);
    return json_is_false(json_object_get(answer, "success")) ? CLI_FAILED : CLI_OK;
}

static int refuse_tool(const char *name)
{
    char hint[128];
    struct suggest suggest;

    suggest_init(&suggest, name);
    for (size_t i = 0; i < tools_catalogue_n; i++) {
        suggest_offer(&suggest, tools_catalogue[i].name);
    }
    return cli_fail(CLI_USAGE, "there is no tool '%s'%s (`atoll tool` lists them)", name,
                    suggest_text(&suggest, hint, sizeof(hint)));
}

static int tool(struct cli *cli)
{
    if (cli->words_n == 0 && cli->help) {
        command_help(cli->command);
        return CLI_OK;
    }
    bool lists = cli->words_n == 1 && strcmp(cli->words[0], "list") == 0; /* as other commands */
    if (cli->words_n == 0 || lists) {
        return list_tools(cli);
    }
    const struct tool *named = tool_find(str_of(cli->words[0]));
    if (!named) {
        return refuse_tool(cli->words[0]);
    }
    if (cli->quiet) {
        return cli_fail(CLI_USAGE, "a call has no shorter output: leave -q out");
    }
    return cli->help ? tool_help(named) : tool_run_words(cli, named);
}

const struct command row_tool = {
    .name = "tool",
    .args = "[NAME FIELD=VALUE... | NAME --help]",
    .summary = "lists, explains and calls the tools of the catalogue",
    .run = tool,
    .group = GROUP_TEMPLATES,
    .bits = COMMAND_OWN_HELP | COMMAND_JSON | COMMAND_QUIET,
    .words_max = WORDS_ANY,
    .takes = TAKES_TOOL,
    .about = "Without NAME: lists all tools. The answer of a call is JSON.",
    .examples = "atoll tool pause_sandbox --help\n"
                "atoll tool list_templates",
};
