/* help.c - the help of the program and of each command, and `atoll help`. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/suggest.h"
#include "cli/terminal.h"

enum {
    HELP_COLUMN = 12,
    OPTION_COLUMN = 26,
    SUB_COLUMN = 44,
    SETTING_COLUMN = 35,
    LEFT_BYTES = 128
};

/* ---- the whole program ---- */

static const char *const groups[] = {
    [GROUP_SANDBOXES] = "Sandboxes",
    [GROUP_WATCH] = "Watch",
    [GROUP_TEMPLATES] = "Templates, data and tools",
    [GROUP_ACCOUNTS] = "Keys and teams",
    [GROUP_DAEMON] = "The daemon",
};

/* A line of the settings, whose explanation is wrapped at the width of the terminal. */
static void setting_print(struct str line, size_t width)
{
    size_t column = line.len < SETTING_COLUMN ? line.len : SETTING_COLUMN;
    struct str rest = str_skip(line, column), word;
    const char *between = "";

    printf("%.*s", (int)column, line.at);
    while (str_split(&rest, ' ', &word)) {
        if (between[0] && column + 1 + word.len > width) {
            printf("\n%*s", SETTING_COLUMN, "");
            column = SETTING_COLUMN;
            between = "";
        }
        printf("%s%.*s", between, (int)word.len, word.at);
        column += strlen(between) + word.len;
        between = " ";
    }
    printf("\n");
}

/* Elsewhere each setting stays a line: tools/man-pages and grep read them. */
static void settings_wrapped(size_t width)
{
    char *text = NULL;
    size_t len = 0;
    FILE *all = open_memstream(&text, &len);

    if (!all) {
        config_help(stdout);
        return;
    }
    config_help(all);
    (void)fclose(all);
    struct str rest = {text, len}, line;
    while (str_split(&rest, '\n', &line)) {
        if (line.len > 0) {
            setting_print(line, width);
        }
    }
    free(text);
}

void cli_settings_print(void)
{
    size_t width = (size_t)terminal_width(stdout);

    printf("Settings. Each is a flag (--tls-cert), a variable (ATOLL_TLS_CERT) and a line\n"
           "of the configuration file (tls_cert = FILE). A flag wins over a variable, a\n"
           "variable over the file:\n\n");
    if (terminal_is(stdout) && width > 2 * SETTING_COLUMN) {
        settings_wrapped(width);
    } else {
        config_help(stdout);
    }
}

static void group_print(enum command_group group)
{
    printf("\n%s%s%s\n", terminal_paint(stdout, PAINT_BOLD), groups[group], terminal_plain(stdout));
    for (size_t i = 0; commands[i]; i++) {
        if (commands[i]->group == group && !(commands[i]->bits & COMMAND_HIDDEN)) {
            printf("  %-*s%s\n", HELP_COLUMN, commands[i]->name, commands[i]->summary);
        }
    }
}

void cli_help_print(void)
{
    printf("atoll " ATOLL_VERSION ": sandboxes on your own machine, for E2B clients\n\n"
           "usage: atoll COMMAND [ARGUMENTS]\n");
    for (size_t i = 0; i < countof(groups); i++) {
        group_print((enum command_group)i);
    }
    printf("\n`atoll COMMAND --help` explains a command, `atoll help options` the options of\n"
           "all commands, `atoll help settings` the daemon's settings.\n");
}

/* ---- a command ---- */

static void usage_line(const struct command *command, const char *sub, const char *args, bool first)
{
    printf("%s atoll %s%s%s%s%s", first ? "usage:" : "      ", command->name, sub[0] ? " " : "",
           sub, args[0] ? " " : "", args);
}

static void usage_print(const struct command *command)
{
    bool first = !command->subs || (command->bits & COMMAND_SUB_OPTIONAL);

    if (first) {
        usage_line(command, "", command->args, true);
        printf("\n");
    }
    for (const struct subcommand *sub = command->subs; sub && sub->name; sub++) {
        int used = (int)(strlen("usage: atoll ") + strlen(command->name) + strlen(sub->name) + 1 +
                         (sub->args[0] ? 1 + strlen(sub->args) : 0));
        usage_line(command, sub->name, sub->args, sub == command->subs && !first);
        if (sub->help && used >= SUB_COLUMN) {
            printf("\n%*s", SUB_COLUMN, "");
        } else if (sub->help) {
            printf("%*s", SUB_COLUMN - used, "");
        }
        printf("%s\n", sub->help ? sub->help : "");
    }
}

static void option_print(const struct option *option)
{
    char left[LEFT_BYTES];

    (void)snprintf(left, sizeof(left), "%s%s%s%s%s%s", option->letter ? option->letter : "",
                   option->letter ? ", " : "", option->name, option->value ? " " : "",
                   option->value ? option->value : "", option->repeats ? "..." : "");
    bool fits = strlen(left) < OPTION_COLUMN;
    printf("  %-*s%s%*s%s\n", OPTION_COLUMN, left, fits ? "" : "\n", fits ? 0 : OPTION_COLUMN + 2,
           "", option->help);
}

static bool has_output(const struct command *command, unsigned bit)
{
    bool has = command->bits & bit;

    for (const struct subcommand *sub = command->subs; sub && sub->name; sub++) {
        has = has || (sub->bits & bit);
    }
    return has;
}

/* Its own words for a common option. */
static bool has_own(const struct command *command, const struct option *common)
{
    return command_option(command, common->name, strlen(common->name)) != common;
}

static void options_print(const struct command *command)
{
    unsigned output[] = {COMMAND_JSON, COMMAND_QUIET};
    bool any = command->options || has_output(command, COMMAND_JSON | COMMAND_QUIET);

    printf("%s", any ? "\nOptions:\n" : "");
    for (const struct option *option = command->options; option && option->name; option++) {
        option_print(option);
    }
    for (size_t i = 0; i < countof(output); i++) {
        if (has_output(command, output[i]) && !has_own(command, &common_options[i])) {
            option_print(&common_options[i]);
        }
    }
}

static void examples_print(const char *examples)
{
    struct str rest = str_of(examples), line;

    printf("\nExamples:\n");
    while (str_split(&rest, '\n', &line)) {
        printf("  %.*s\n", (int)line.len, line.at);
    }
}

void command_help(const struct command *command)
{
    usage_print(command);
    printf("\n%c%s.\n", toupper((unsigned char)command->summary[0]), command->summary + 1);
    if (command->about) {
        printf("%s\n", command->about);
    }
    options_print(command);
    if (command->examples) {
        examples_print(command->examples);
    }
    if (command->bits & COMMAND_DAEMON) {
        printf("\n`atoll help settings` lists all settings.\n");
    } else if (!(command->bits & COMMAND_NO_SETTINGS)) {
        printf("\n`atoll help options`: --url, --key, --data and other options of all commands.\n");
    }
}

/* ---- atoll help ---- */

static int options_help(void)
{
    static const struct option data = {
        .name = "--data", .value = "DIR", .help = "data directory of a daemon on this machine"};

    printf("Options of all commands:\n");
    for (const struct option *option = common_options; option->name; option++) {
        option_print(option);
    }
    option_print(&data); /* a setting of the daemon, so it is no common option */
    printf("\nThe daemon is that of --url, else that of --data DIR, else that of E2B_API_URL\n"
           "or E2B_DOMAIN, else that of this machine. E2B_API_KEY holds the key,\n"
           "SSL_CERT_FILE the authorities to trust: `eval \"$(atoll env)\"` sets them.\n"
           "A flag shows in the list of processes, a variable does not.\n"
           "NO_COLOR=1 switches colours off; they and columns are for terminals only.\n\n"
           "Exit codes: 0 success, 1 failure, 2 wrong arguments, 3 the daemon has nothing\n"
           "of that name, 4 no daemon answers, 130 interrupted. `exec` and `run` exit like\n"
           "their command.\n");
    return CLI_OK;
}

static int help(struct cli *cli)
{
    char hint[LEFT_BYTES];
    struct suggest suggest;

    if (cli->words_n == 0) {
        cli_help_print();
        return CLI_OK;
    }
    const struct command *command = command_find(cli->words[0]);
    if (command) {
        command_help(command);
        return CLI_OK;
    }
    if (strcmp(cli->words[0], "options") == 0) {
        return options_help();
    }
    if (strcmp(cli->words[0], "settings") == 0) {
        cli_settings_print();
        return CLI_OK;
    }
    suggest_init(&suggest, cli->words[0]);
    for (size_t i = 0; commands[i]; i++) {
        if (!(commands[i]->bits & COMMAND_HIDDEN)) {
            suggest_offer(&suggest, commands[i]->name);
        }
    }
    return cli_fail(CLI_USAGE, "there is no command '%s'%s", cli->words[0],
                    suggest_text(&suggest, hint, sizeof(hint)));
}

const struct command row_help = {
    .name = "help",
    .args = "[COMMAND [SUB-COMMAND] | options | settings]",
    .summary = "explains the program, a command, the options or the settings",
    .run = help,
    .group = GROUP_DAEMON,
    .bits = COMMAND_NO_SETTINGS,
    .words_max = 2,
    .takes = TAKES_COMMAND,
    .examples = "atoll help ps",
};
