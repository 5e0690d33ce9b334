/* arguments.c - reads the words, options and settings of a command. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/suggest.h"

enum { SENTENCE_BYTES = 128 };

bool cli_has(const struct cli *cli, const char *option)
{
    for (int i = 0; i < cli->options_n; i++) {
        if (strcmp(cli->options[i].name, option) == 0) {
            return true;
        }
    }
    return false;
}

const char *cli_option(const struct cli *cli, const char *option)
{
    const char *value = NULL;

    for (int i = 0; i < cli->options_n; i++) {
        if (strcmp(cli->options[i].name, option) == 0) {
            value = cli->options[i].value;
        }
    }
    return value;
}

/* ---- refusals ---- */

static void flags_offer(const struct command *command, struct suggest *suggest)
{
    char name[CONFIG_FLAG_BYTES];
    const char *value;

    for (const struct option *o = command->options; o && o->name; o++) {
        suggest_offer(suggest, o->name);
    }
    for (const struct option *o = common_options; o->name; o++) {
        suggest_offer(suggest, o->name);
    }
    for (size_t i = 0; config_flag_at(i, name, &value); i++) {
        suggest_offer(suggest, name);
    }
}

static int refuse_flag(const struct cli *cli, const char *word)
{
    char name[SUGGEST_BYTES], hint[SENTENCE_BYTES];
    struct suggest suggest;

    (void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(word, "="), word);
    suggest_init(&suggest, name);
    flags_offer(cli->command, &suggest);
    return cli_fail(CLI_USAGE, "there is no flag '%s'%s (`atoll %s --help` lists them)", name,
                    suggest_text(&suggest, hint, sizeof(hint)), cli->command->name);
}

static int refuse_word(const struct cli *cli, const char *word)
{
    return cli_fail(CLI_USAGE, "%s%s%s does not take '%s'; try `atoll %s --help`",
                    cli->command->name, cli->sub ? " " : "", cli->sub ? cli->sub->name : "", word,
                    cli->command->name);
}

static int refuse_sub(const struct cli *cli)
{
    char hint[SENTENCE_BYTES];
    struct suggest suggest;

    if (cli->words_n == 0) {
        return cli_usage(cli, "%s needs a sub-command", cli->command->name);
    }
    suggest_init(&suggest, cli->words[0]);
    for (const struct subcommand *sub = cli->command->subs; sub->name; sub++) {
        suggest_offer(&suggest, sub->name);
    }
    return cli_usage(cli, "%s has no sub-command '%s'%s", cli->command->name, cli->words[0],
                     suggest_text(&suggest, hint, sizeof(hint)));
}

/* ---- options ---- */

static int option_store(struct cli *cli, const struct option *option, const char *value)
{
    if (strcmp(option->name, "--json") == 0) {
        cli->json = true;
    } else if (strcmp(option->name, "--quiet") == 0) {
        cli->quiet = true;
    } else if (strcmp(option->name, "--help") == 0) {
        cli->help = true;
    } else if (strcmp(option->name, "--url") == 0) {
        cli->url = value;
    } else if (strcmp(option->name, "--key") == 0) {
        cli->key = value;
    } else if (strcmp(option->name, "--ca") == 0) {
        cli->ca = value;
    } else if (!option->repeats && option->value && cli_has(cli, option->name)) {
        return cli_fail(CLI_USAGE, "%s was given twice", option->name);
    } else if (cli->options_n == CLI_OPTIONS_MAX) {
        return cli_fail(CLI_USAGE, "there are more than %d options", CLI_OPTIONS_MAX);
    } else {
        cli->options[cli->options_n].name = option->name;
        cli->options[cli->options_n++].value = value;
    }
    return CLI_OK;
}

/* "a|b" has "b". */
static bool list_has(const char *list, const char *word)
{
    struct str rest = str_of(list), part;

    while (str_split(&rest, '|', &part)) {
        if (str_eq(part, str_of(word))) {
            return true;
        }
    }
    return false;
}

bool option_is_of(const struct option *option, const char *sub)
{
    return !option->of || (sub && list_has(option->of, sub));
}

/* An option with its value: "--name VALUE", "--name=VALUE" or "-n VALUE". */
static int option_take(struct cli *cli, const struct option *option, int argc, char **argv, int *i)
{
    const char *equals = argv[*i][1] == '-' ? strchr(argv[*i], '=') : NULL;
    const char *value = equals ? equals + 1 : NULL;

    if (!option->value) {
        return equals ? cli_fail(CLI_USAGE, "%s takes no value", option->name)
                      : option_store(cli, option, NULL);
    }
    if (!value && *i + 1 == argc) {
        return cli_fail(CLI_USAGE, "%s needs a value: %s", option->name, option->value);
    }
    value = value ? value : argv[++*i];
    if (option->choices && !list_has(option->choices, value)) {
        return cli_fail(CLI_USAGE, "%s is one of %s, not '%s'", option->name, option->choices,
                        value);
    }
    return option_store(cli, option, value);
}

/* "-it" is "-i -t"; the last letter may have a value. False: a letter is no option. */
static bool letters_known(const struct command *command, const char *word)
{
    bool known = word[0] == '-' && word[1] && word[1] != '-' && word[2];

    for (size_t i = 1; known && word[i]; i++) {
        const char letter[] = {'-', word[i], '\0'};
        const struct option *option = command_option(command, letter, 2);
        known = option && (!option->value || !word[i + 1]);
    }
    return known;
}

static int letters_take(struct cli *cli, int argc, char **argv, int *i)
{
    const char *word = argv[*i];
    int code = CLI_OK;

    for (size_t n = 1; code == CLI_OK && word[n]; n++) {
        const char letter[] = {'-', word[n], '\0'};
        const struct option *option = command_option(cli->command, letter, 2);
        if (!option->value) {
            code = option_store(cli, option, NULL);
        } else {
            code = option_take(cli, option, argc, argv, i);
        }
    }
    return code;
}

static int flag_take(struct cli *cli, int argc, char **argv, int *i, int *kept)
{
    const char *word = argv[*i];
    size_t len = strcspn(word, "=");
    const struct option *option = command_option(cli->command, word, len);

    if (option) {
        return option_take(cli, option, argc, argv, i);
    }
    if (letters_known(cli->command, word)) {
        return letters_take(cli, argc, argv, i);
    }
    if ((cli->command->bits & COMMAND_NO_SETTINGS) || !config_has_flag((struct str){word, len})) {
        return refuse_flag(cli, word);
    }
    cli->data_named = cli->data_named || strncmp(word, "--data", len) == 0;
    argv[(*kept)++] = argv[*i];
    if (!word[len] && *i + 1 < argc) { /* its value is the next word */
        argv[(*kept)++] = argv[++*i];
    }
    return CLI_OK;
}

/* Takes the command's own options out; words and settings stay, and are counted in *kept. */
static int options_take(struct cli *cli, int argc, char **argv, int *kept)
{
    int code = CLI_OK, words = 0, plain = cli->command->plain_words;
    int plain_max = plain == PLAIN_NONE ? 0 : plain > 0 ? plain : WORDS_ANY;
    int i = 1;

    *kept = 1;
    for (; code == CLI_OK && i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (argv[i][0] == '-' && argv[i][1]) {
            code = flag_take(cli, argc, argv, &i, kept);
        } else if (words == plain_max) {
            break;
        } else {
            words++;
            argv[(*kept)++] = argv[i];
        }
    }
    if (code == CLI_OK && i < argc) {
        i += strcmp(argv[i], "--") == 0;
        cli->rest = argv + i;
        cli->rest_n = argc - i;
    }
    return code;
}

/* ---- checks ---- */

static int check_output(const struct cli *cli)
{
    unsigned bits = cli->sub ? cli->sub->bits : cli->command->bits;
    const char *sub = cli->sub ? cli->sub->name : "";

    if (cli->json && !(bits & COMMAND_JSON)) {
        return cli_fail(CLI_USAGE, "`%s%s%s` has nothing to print as JSON: leave --json out",
                        cli->command->name, sub[0] ? " " : "", sub);
    }
    if (cli->quiet && !(bits & COMMAND_QUIET)) {
        return cli_fail(CLI_USAGE, "`%s%s%s` has no shorter output: leave -q out",
                        cli->command->name, sub[0] ? " " : "", sub);
    }
    if (cli->quiet && cli->json) {
        return cli_fail(CLI_USAGE, "--json and -q exclude each other");
    }
    for (int i = 0; i < cli->options_n; i++) {
        const char *name = cli->options[i].name;
        if (!option_is_of(command_option(cli->command, name, strlen(name)),
                          cli->sub ? sub : NULL)) {
            return refuse_word(cli, name);
        }
    }
    return CLI_OK;
}

static int check_words(struct cli *cli)
{
    const struct command *command = cli->command;
    bool optional = command->bits & COMMAND_SUB_OPTIONAL;

    if (command->subs && cli->words_n > 0) {
        cli->sub = subcommand_find(command, cli->words[0]);
    }
    if (command->subs && !cli->sub && !optional) {
        return refuse_sub(cli);
    }
    int named = cli->sub ? 1 : 0;
    int min = cli->sub ? cli->sub->words_min : command->words_min;
    int max = cli->sub ? cli->sub->words_max : command->words_max;
    if (cli->words_n - named < min) {
        return cli_usage(cli, "%s%s%s needs more arguments", command->name, named ? " " : "",
                         named ? cli->sub->name : "");
    }
    if (cli->words_n - named > max) {
        return refuse_word(cli, cli->words[named + max]);
    }
    if (cli->rest_n > 0 && command->plain_words == 0) {
        return refuse_word(cli, cli->rest[0]);
    }
    return check_output(cli);
}

int cli_arguments(struct cli *cli, int argc, char **argv)
{
    struct err err;
    int kept = 0, code = options_take(cli, argc, argv, &kept);

    if (code != CLI_OK || (cli->help && !(cli->command->bits & COMMAND_OWN_HELP))) {
        return code;
    }
    cli->words = argv + 1;
    if (cli->command->bits & COMMAND_NO_SETTINGS) {
        cli->words_n = kept - 1;
        return check_words(cli);
    }
    if (config_load(&cli->config, kept, argv, &cli->words_n, &err) < 0) {
        return cli_fail(CLI_USAGE, "%s", err.msg);
    }
    code = check_words(cli);
    if (code == CLI_OK && paths_find(&cli->config, &cli->paths, &err) < 0) {
        return cli_fail(CLI_USAGE, "%s", err.msg);
    }
    return code;
}
