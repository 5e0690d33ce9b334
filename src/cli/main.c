/* main.c - finds the command and its settings. */
#include <ctype.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/terminal_text.h"
#include "serve/daemon/clean.h"

#define HELP_FLAG "--help"

enum { TOOL_WORDS_MAX = 256, TEAM_WORDS_MAX = 16, HELP_COLUMN = 36 };

struct command {
    const char *name;
    const char *args;
    const char *summary;
    int (*run)(struct cli *cli);
    int words_max;              /* arguments after its name */
    bool no_settings;           /* reads no configuration */
    const char *flag;           /* the command's own, or NULL */
    const char *const *options; /* the command's own that take a value, or NULL */
    const char *usage;          /* NULL: its help is that of the whole program */
};

static const char *const template_options[] = {"-f",      "--build-arg", "--cpus", "--memory",
                                               "--start", "--ready",     NULL};

static const char *const mcp_options[] = {"--template", "--sandbox", NULL};
static const char *const shell_options[] = {"--header", "--query", "--value",
                                            "--method", "--path",  NULL};

static const struct command commands[] = {
    {"serve", "", "prepares the machine and serves the API; as root it also starts the keeper",
     cli_serve, 0, false, NULL, NULL, NULL},
    {"ca", "", "prints the certificate of the daemon's own authority, for TLS clients to trust",
     cli_ca, 0, false, NULL, NULL, cli_ca_usage},
    {"env", "", "prints the variables that a shell needs to reach the daemon", cli_env, 0, false,
     NULL, NULL, cli_env_usage},
    {"doctor", "[ID]", "checks this machine point by point, or prints the history of a sandbox",
     cli_doctor, 1, false, NULL, NULL, NULL},
    {"disk", "", "prints the disk space of paused sandboxes, snapshots and templates", cli_disk, 0,
     false, NULL, NULL, cli_disk_usage},
    {"logs", "ID [--follow]", "prints the log of a sandbox and its refused outgoing connections",
     cli_logs, 1, false, "--follow", NULL, cli_logs_usage},
    {"key", "create NAME | list | revoke ID", "creates, lists and revokes API keys", cli_key, 2,
     false, NULL, NULL, cli_key_usage},
    {"team", "list | create NAME | ...", "manages teams: keys, limits, usage", cli_team,
     TEAM_WORDS_MAX, false, NULL, NULL, cli_team_usage},
    {"admin-key", "create NAME | list | revoke ID",
     "manages operator keys, which may see and change every team (X-Admin-Token)", cli_admin_key, 2,
     false, NULL, NULL, cli_admin_key_usage},
    {"shell", "list | put NAME URL ... | rm NAME",
     "manages API shells: accounts that code uses without seeing their keys", cli_shell, 3, false,
     NULL, shell_options, cli_shell_usage},
    {"template", "list | build NAME [DIR] | ...",
     "lists, builds, deletes and prunes templates, and prints build logs", cli_template, 3, false,
     "--no-cache", template_options, cli_template_usage},
    {"mcp", "[--template NAME | --sandbox ID]",
     "serves the tools to an MCP client over stdin and stdout, with one sandbox per session",
     cli_mcp, 0, false, NULL, mcp_options, cli_mcp_usage},
    {"tool", "[NAME FIELD=VALUE... | NAME --help]",
     "lists, explains and calls the tools of the catalogue", cli_tool, TOOL_WORDS_MAX, false,
     HELP_FLAG, NULL, cli_tool_usage},
    {"prepare", "[all]",
     "creates the user, data directory, pool and base template; all: every template", cli_prepare,
     1, false, NULL, NULL, NULL},
    {"keeper", "",
     "runs the privileged process alone, for a service manager (serve starts its own)", cli_keeper,
     0, false, NULL, NULL, NULL},
    {"version", "", "prints the version", cli_version, 0, true, NULL, NULL, NULL},
    {"help", "", "prints this text", cli_help, 0, true, NULL, NULL, NULL},
};

int cli_fail(int code, const char *fmt, ...)
{
    char msg[512];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(msg, sizeof(msg), fmt, ap);
    va_end(ap);
    terminal_text_clean(msg); /* it may quote what a daemon sent */
    (void)fprintf(stderr, "atoll: %s\n", msg);
    return code;
}

int cli_version(struct cli *cli)
{
    (void)cli;
    printf("atoll " ATOLL_VERSION "\n");
    return CLI_OK;
}

static void settings_print(void)
{
    printf(
        "\nSettings. Each is a flag (--tls-cert), a variable (ATOLL_TLS_CERT) and a line of the\n"
        "configuration file (tls_cert = FILE). A flag wins over a variable, a variable over the "
        "file:\n\n");
    config_help(stdout);
}

int cli_help(struct cli *cli)
{
    char left[64];

    (void)cli;
    printf("atoll " ATOLL_VERSION ": sandboxes on your own machine, for E2B clients\n\n"
           "Usage: atoll COMMAND [SETTINGS]\n\n");
    for (size_t i = 0; i < countof(commands); i++) {
        (void)snprintf(left, sizeof(left), "%s %s", commands[i].name, commands[i].args);
        /* A command that is too long for its column has its summary on the next line. */
        bool fits = strlen(left) < HELP_COLUMN;
        printf("  %-*s%s%*s %s\n", HELP_COLUMN, left, fits ? "" : "\n", fits ? 0 : HELP_COLUMN + 2,
               "", commands[i].summary);
    }
    settings_print();
    return CLI_OK;
}

/* Sandboxes or clients can reach these processes, so they start with a clean environment. */
static bool is_daemon(const struct command *command)
{
    return command->run == cli_serve || command->run == cli_keeper || command->run == cli_prepare;
}

static int command_help(const struct command *command)
{
    if (command->usage) {
        printf("%s\n", command->usage);
    } else {
        printf("usage: atoll %s%s%s\n", command->name, command->args[0] ? " " : "", command->args);
    }
    printf("\n%c%s.\n", toupper((unsigned char)command->summary[0]), command->summary + 1);
    if (is_daemon(command)) {
        settings_print();
    } else if (!command->no_settings) {
        printf("`atoll help` lists the settings, such as --data DIR.\n");
    }
    return CLI_OK;
}

static const struct command *command_find(const char *name)
{
    for (size_t i = 0; i < countof(commands); i++) {
        if (strcmp(commands[i].name, name) == 0) {
            return &commands[i];
        }
    }
    return NULL;
}

static bool asks_for_help(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], HELP_FLAG) == 0 || strcmp(argv[i], "-h") == 0) {
            return true;
        }
    }
    return false;
}

static bool is_option(const struct command *command, const char *word)
{
    const char *const *option = command->options;

    while (option && *option && strcmp(*option, word) != 0) {
        option++;
    }
    return option && *option;
}

/* Takes the command's own flags out of the words: the settings know nothing of them. */
static int flags_take(const struct command *command, struct cli *cli, int argc, char **argv)
{
    int n = 1;

    for (int i = 1; i < argc; i++) {
        if (command->flag && strcmp(argv[i], command->flag) == 0) {
            cli->flag = true;
        } else if (is_option(command, argv[i]) && i + 1 < argc &&
                   cli->options_n < CLI_OPTIONS_MAX) {
            cli->options[cli->options_n].name = argv[i];
            cli->options[cli->options_n++].value = argv[++i];
        } else {
            argv[n++] = argv[i];
        }
    }
    return n;
}

static bool names_data(int argc, char **argv)
{
    bool found = false;

    for (int i = 1; i < argc; i++) {
        found = found || strcmp(argv[i], "--data") == 0 || strncmp(argv[i], "--data=", 7) == 0;
    }
    return found;
}

static int refuse_word(const struct command *command, const char *word)
{
    return cli_fail(CLI_USAGE, "%s does not take '%s'; try `atoll help`", command->name, word);
}

static int command_run(const struct command *command, struct cli *cli, int argc, char **argv)
{
    struct err err;

    if (command->no_settings) {
        return argc > 1 ? refuse_word(command, argv[1]) : command->run(cli);
    }
    argc = flags_take(command, cli, argc, argv);
    cli->data_named = names_data(argc, argv);
    if (config_load(&cli->config, argc, argv, &cli->words_n, &err) < 0) {
        return cli_fail(CLI_USAGE, "%s", err.msg);
    }
    cli->words = argv + 1;
    if (cli->words_n > command->words_max) {
        return refuse_word(command, cli->words[command->words_max]);
    }
    if (paths_find(&cli->config, &cli->paths, &err) < 0) {
        return cli_fail(CLI_USAGE, "%s", err.msg);
    }
    return command->run(cli);
}

int main(int argc, char **argv)
{
    struct cli cli = {.program = argv[0]};

    if (argc < 2) {
        (void)cli_help(&cli);
        return CLI_USAGE;
    }
    const char *name = strcmp(argv[1], "--version") == 0 ? "version" : argv[1];
    const struct command *command = command_find(name);
    bool explains = command && command->flag && strcmp(command->flag, HELP_FLAG) == 0;
    if (!explains && asks_for_help(argc, argv)) {
        return command && command->run != cli_help ? command_help(command) : cli_help(&cli);
    }
    if (!command) {
        return cli_fail(CLI_USAGE, "there is no command '%s'; try `atoll help`", argv[1]);
    }
    struct err err;
    if (is_daemon(command) && clean_start(argv, &err) < 0) {
        return cli_fail(CLI_FAILED, "%s", err.msg);
    }
    return command_run(command, &cli, argc - 1, argv + 1);
}
