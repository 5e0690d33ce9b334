/* main.c - finds the command and runs it. */
#include <errno.h>
#include <locale.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/suggest.h"
#include "cli/terminal.h"
#include "cli/terminal_text.h"
#include "serve/daemon/clean.h"

enum { SENTENCE_BYTES = 512 };

static void say(const char *fmt, va_list ap) printf_like(1, 0);
static void say(const char *fmt, va_list ap)
{
    char msg[SENTENCE_BYTES];

    (void)vsnprintf(msg, sizeof(msg), fmt, ap);
    terminal_text_clean(msg); /* it may quote what a daemon sent */
    (void)fflush(stdout);
    (void)fprintf(stderr, "atoll: %s\n", msg);
}

int cli_fail(int code, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    say(fmt, ap);
    va_end(ap);
    return code;
}

int cli_code(int r)
{
    static const struct {
        int error, code;
    } codes[] = {
        {CALL_NOT_FOUND, CLI_NOT_FOUND}, {CALL_NO_DAEMON, CLI_NO_DAEMON},
        {ECONNREFUSED, CLI_NO_DAEMON},   {EHOSTUNREACH, CLI_NO_DAEMON},
        {ENETUNREACH, CLI_NO_DAEMON},    {ETIMEDOUT, CLI_NO_DAEMON},
        {EINTR, CLI_INTERRUPTED},
    };
    int code = r < 0 ? CLI_FAILED : CLI_OK;

    for (size_t i = 0; i < countof(codes); i++) {
        code = r == -codes[i].error ? codes[i].code : code;
    }
    return code;
}

int cli_failed(int r, const struct err *err)
{
    return cli_fail(cli_code(r), "%s", err->msg);
}

int cli_result(int r, const struct err *err)
{
    return r < 0 ? cli_failed(r, err) : CLI_OK;
}

int cli_usage(const struct cli *cli, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    say(fmt, ap);
    va_end(ap);
    (void)fprintf(stderr, "usage: atoll %s%s%s%s%s\n`atoll %s --help` explains it\n",
                  cli->command->name, cli->sub ? " " : "", cli->sub ? cli->sub->name : "",
                  (cli->sub ? cli->sub->args : cli->command->args)[0] ? " " : "",
                  cli->sub ? cli->sub->args : cli->command->args, cli->command->name);
    return CLI_USAGE;
}

void cli_print_json(const json_t *json)
{
    bool person = terminal_is(stdout);
    char *text = json_dumps(json, JSON_ENCODE_ANY | (person ? JSON_INDENT(2) : JSON_COMPACT));

    if (text && person) {
        terminal_text_clean(text);
    }
    printf("%s\n", text ? text : "null");
    free(text);
}

void cli_print_done(const struct cli *cli, const char *done, const char *name)
{
    if (cli->json) {
        scoped_json *object = json_pack("{s:s}", "name", name);
        cli_print_json(object);
    } else if (cli->quiet) {
        printf("%s\n", name);
    } else if (done) {
        printf("%s %s\n", done, name);
    }
}

static int version(struct cli *cli)
{
    if (cli->json) {
        scoped_json *object = json_pack("{s:s}", "version", ATOLL_VERSION);
        cli_print_json(object);
    } else {
        printf("%s" ATOLL_VERSION "\n", cli->quiet ? "" : "atoll ");
    }
    return CLI_OK;
}

const struct command row_version = {
    .name = "version",
    .args = "",
    .summary = "prints the version",
    .run = version,
    .group = GROUP_DAEMON,
    .bits = COMMAND_NO_SETTINGS | COMMAND_JSON | COMMAND_QUIET,
};

static int refuse_command(const char *name)
{
    char hint[SENTENCE_BYTES];
    struct suggest suggest;

    suggest_init(&suggest, name);
    for (size_t i = 0; commands[i]; i++) {
        if (!(commands[i]->bits & COMMAND_HIDDEN)) {
            suggest_offer(&suggest, commands[i]->name);
        }
    }
    return cli_fail(CLI_USAGE, "there is no command '%s'%s (`atoll help` lists them)", name,
                    suggest_text(&suggest, hint, sizeof(hint)));
}

/* Other names that people try. */
static const char *name_of(const char *word)
{
    static const char *const names[][2] = {
        {"--version", "version"}, {"-V", "version"}, {"--help", "help"},
        {"-h", "help"},           {"list", "ps"},    {"ls", "ps"},
    };

    for (size_t i = 0; i < countof(names); i++) {
        if (strcmp(word, names[i][0]) == 0) {
            return names[i][1];
        }
    }
    return word;
}

/* Options may stand before the command as well: moves the command to the front of argv[1..]. */
static void command_first(int argc, char **argv)
{
    static const struct command none = {.name = ""};
    int at = 1;

    while (at < argc && argv[at][0] == '-' && strcmp(name_of(argv[at]), argv[at]) == 0) {
        size_t len = strcspn(argv[at], "=");
        const struct option *option = command_option(&none, argv[at], len);
        bool setting = config_has_flag((struct str){argv[at], len});
        if (!option && !setting) {
            return;
        }
        at += (setting || option->value) && !argv[at][len] ? 2 : 1;
    }
    if (at < argc) {
        char *command = argv[at];
        (void)memmove(argv + 2, argv + 1, (size_t)(at - 1) * sizeof(*argv));
        argv[1] = command;
    }
}

/* Output that could not be written is a failure: a script must not go on with half of it. */
static int finish(int code)
{
    bool lost = fflush(stdout) != 0 || ferror(stdout);

    return lost && code == CLI_OK ? cli_fail(CLI_FAILED, "the output could not be written") : code;
}

int main(int argc, char **argv)
{
    struct cli cli = {.program = argv[0]};
    struct err err;

    if (argc < 2) {
        cli_help_print();
        return CLI_USAGE;
    }
    (void)setlocale(LC_CTYPE, "C.UTF-8"); /* for the width of characters */
    command_first(argc, argv);
    cli.command = command_find(name_of(argv[1]));
    if (!cli.command) {
        return refuse_command(argv[1]);
    }
    /* Sandboxes or clients can reach these processes. */
    if ((cli.command->bits & COMMAND_DAEMON) && clean_start(argv, &err) < 0) {
        return cli_fail(CLI_FAILED, "%s", err.msg);
    }
    int code = cli_arguments(&cli, argc - 1, argv + 1);
    if (code != CLI_OK) {
        return code;
    }
    if (cli.help && !(cli.command->bits & COMMAND_OWN_HELP)) {
        command_help(cli.command);
        return finish(CLI_OK);
    }
    return finish(cli.command->run(&cli));
}
