/* complete.c - `atoll complete -- WORDS...`, for the completions of shells: prints the candidates
 * of the last word, one on a line, with a tab and a description behind it. The line ":file" or
 * ":dir" tells the shell to add names of files.
 *
 * Ids and names come from the daemon. A shell waits for us while the user types, so a daemon that
 * does not answer soon ends the program without a word. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/sandboxes.h"
#include "tools/tool.h"

enum { PATIENCE_S = 2, LIVE_WORDS_MAX = 16, SKIPPED_DESCRIPTION = 60 };

struct line {
    char **words; /* behind the program's name; the last is being typed */
    int n;
    const char *typed;
    const struct command *command;
    const struct subcommand *sub;
    int plain;            /* words before the one that is typed, without the sub-command */
    struct option wanted; /* its value is being typed; no name: none */
    char wanted_name[CONFIG_FLAG_BYTES];
};

static void offer(const struct line *line, const char *word, const char *about)
{
    if (strncmp(word, line->typed, strlen(line->typed)) == 0) {
        printf("%s%s%.*s\n", word, about && about[0] ? "\t" : "", SKIPPED_DESCRIPTION,
               about ? about : "");
    }
}

/* "a|b": both. */
static void offer_choices(const struct line *line, const char *choices)
{
    struct str rest = str_of(choices), part;
    char word[CONFIG_FLAG_BYTES];

    while (str_split(&rest, '|', &part)) {
        if (str_copy(word, sizeof(word), part)) {
            offer(line, word, NULL);
        }
    }
}

/* ---- from the daemon ---- */

/* --url, --key, --ca, --data and other settings that were typed say which daemon it is. */
static bool live_endpoint(const struct line *line, struct endpoint *endpoint)
{
    static const struct command none = {.name = "complete"};
    struct cli live = {.program = "atoll", .command = &none};
    char name[] = "complete", *argv[LIVE_WORDS_MAX + 2] = {name};
    struct err err;
    int argc = 1;

    for (int i = 1; i + 1 < line->n && argc < LIVE_WORDS_MAX; i++) {
        size_t len = strcspn(line->words[i], "=");
        const struct option *option = command_option(&none, line->words[i], len);
        bool setting = config_has_flag((struct str){line->words[i], len});
        if (setting || (option && option->value)) {
            argv[argc++] = line->words[i];
            if (!line->words[i][len]) {
                argv[argc++] = line->words[++i];
            }
        }
    }
    (void)alarm(PATIENCE_S);
    return cli_arguments(&live, argc, argv) == CLI_OK &&
           endpoint_choose(&live, endpoint, &err) == 0;
}

static void offer_sandboxes(const struct line *line, const char *behind)
{
    char word[ID_SANDBOX_LEN + 2];
    scoped_json *list = NULL;
    struct endpoint endpoint;
    struct err err;
    const json_t *row;
    size_t i;

    if (live_endpoint(line, &endpoint) &&
        sandboxes_read(&endpoint, SANDBOX_STATES, "", &list, &err) == 0) {
        json_array_foreach (list, i, row) {
            (void)snprintf(word, sizeof(word), "%s%s", json_text_of(row, "sandboxID"), behind);
            offer(line, word, json_string_of(row, "alias"));
        }
    }
}

/* A field of each row that an API's list has, or the first of its texts; `otherwise` is the field
 * of a row that has none. */
static void offer_rows(const struct line *line, const char *path, const char *field,
                       const char *otherwise)
{
    scoped_json *list = NULL;
    struct endpoint endpoint;
    struct err err;
    const json_t *row;
    size_t i;

    if (live_endpoint(line, &endpoint) &&
        endpoint_call(&endpoint, "GET", path, NULL, &list, &err) == 0) {
        json_array_foreach (list, i, row) {
            const json_t *value = json_object_get(row, field);
            const char *text =
                json_string_value(json_is_array(value) ? json_array_get(value, 0) : value);
            offer(line, text ? text : json_text_of(row, otherwise), NULL);
        }
    }
}

static void offer_commands(const struct line *line)
{
    for (size_t i = 0; commands[i]; i++) {
        if (!(commands[i]->bits & COMMAND_HIDDEN)) {
            offer(line, commands[i]->name, commands[i]->summary);
        }
    }
}

static void offer_taken(const struct line *line, enum takes takes)
{
    switch (takes) {
    case TAKES_TEXT:
        break;
    case TAKES_SANDBOX:
        offer_sandboxes(line, "");
        break;
    case TAKES_TEMPLATE:
        offer_rows(line, "/templates", "names", "templateID");
        break;
    case TAKES_SNAPSHOT:
        offer_rows(line, "/snapshots?limit=100", "snapshotID", "snapshotID");
        break;
    case TAKES_VOLUME:
        offer_rows(line, "/volumes", "name", "name");
        break;
    case TAKES_SECRET:
        offer_rows(line, "/secrets", "name", "name");
        break;
    case TAKES_COPY:
        offer_sandboxes(line, ":");
        printf(":file\n");
        break;
    case TAKES_FILE:
        printf(":file\n");
        break;
    case TAKES_DIR:
        printf(":dir\n");
        break;
    case TAKES_COMMAND:
        offer_commands(line);
        break;
    case TAKES_TOOL:
        for (size_t i = 0; i < tools_catalogue_n && line->plain == 0; i++) {
            offer(line, tools_catalogue[i].name, tools_catalogue[i].title);
        }
        break;
    }
}

/* ---- flags ---- */

/* Settings name the kind of their value in the help: DIR, FILE, LEVEL, true|false. */
static void setting_wanted(struct line *line, const char *word)
{
    char name[CONFIG_FLAG_BYTES];
    const char *value = NULL;

    for (size_t i = 0; config_flag_at(i, name, &value); i++) {
        if (strcmp(name, word) == 0) {
            (void)memcpy(line->wanted_name, name, sizeof(name));
            line->wanted = (struct option){.name = line->wanted_name, .value = value};
            line->wanted.takes = strcmp(value, "DIR") == 0    ? TAKES_DIR
                                 : strcmp(value, "FILE") == 0 ? TAKES_FILE
                                                              : TAKES_TEXT;
            line->wanted.choices = strcmp(value, "LEVEL") == 0 ? "debug|info|warn|error"
                                   : strchr(value, '|')        ? value
                                                               : NULL;
        }
    }
}

static void offer_options(const struct line *line)
{
    const struct command *command = line->command;
    unsigned bits = line->sub ? line->sub->bits : command->bits;
    char name[CONFIG_FLAG_BYTES];
    const char *value;

    for (const struct option *o = command->options; o && o->name; o++) {
        if (option_is_of(o, line->sub ? line->sub->name : NULL)) {
            offer(line, o->name, o->help);
        }
    }
    for (const struct option *o = common_options; o->name; o++) {
        bool help = strcmp(o->name, "--help") == 0;
        bool fits = o == &common_options[0]   ? bits & COMMAND_JSON
                    : o == &common_options[1] ? bits & COMMAND_QUIET
                                              : !(command->bits & COMMAND_DAEMON);
        bool own = command_option(command, o->name, strlen(o->name)) != o; /* offered above */
        if ((help || fits) && !own) {
            offer(line, o->name, o->help);
        }
    }
    for (size_t i = 0; config_flag_at(i, name, &value); i++) {
        bool any = command->bits & COMMAND_DAEMON;
        if (any || strcmp(name, "--data") == 0 || strcmp(name, "--config") == 0) {
            offer(line, name, NULL);
        }
    }
}

/* ---- where the cursor is ---- */

static void word_pass(struct line *line, char *word, int *i)
{
    const struct option *option = command_option(line->command, word, strlen(word));
    bool flag = word[0] == '-' && word[1];

    if (flag && option && option->value) {
        line->wanted = *i + 2 == line->n ? *option : line->wanted;
        ++*i;
    } else if (flag && config_has_flag(str_of(word))) {
        if (*i + 2 == line->n) {
            setting_wanted(line, word);
        }
        ++*i;
    } else if (!flag && !line->sub && line->plain == 0 && line->command->subs) {
        line->sub = subcommand_find(line->command, word);
        line->plain += line->sub ? 0 : 1;
    } else if (!flag) {
        line->plain++;
    }
}

static void complete_arguments(struct line *line)
{
    const struct command *command = line->command;

    for (int i = 1; i + 1 < line->n; i++) {
        word_pass(line, line->words[i], &i);
    }
    bool subs = command->subs && !line->sub && line->plain == 0;
    if (line->wanted.name && line->wanted.choices) {
        offer_choices(line, line->wanted.choices);
    } else if (line->wanted.name) {
        offer_taken(line, line->wanted.takes);
    } else if (command->plain_words > 0 && line->plain >= command->plain_words) {
        printf(":file\n");
    } else if (line->typed[0] == '-') {
        offer_options(line);
    } else if (subs) {
        for (const struct subcommand *sub = command->subs; sub->name; sub++) {
            offer(line, sub->name, sub->help);
        }
    }
    bool word = line->typed[0] != '-' && !line->wanted.name;
    int max = line->sub ? line->sub->words_max : command->words_max;
    if (word && command->choices) {
        offer_choices(line, command->choices);
    } else if (word && line->plain < max &&
               (!command->subs || line->sub || (command->bits & COMMAND_SUB_OPTIONAL))) {
        offer_taken(line, line->sub ? line->sub->takes : command->takes);
    }
}

static int complete(struct cli *cli)
{
    struct line line = {.words = cli->rest, .n = cli->rest_n};

    if (line.n == 0) {
        return CLI_OK;
    }
    line.typed = line.words[line.n - 1];
    if (line.n == 1) {
        offer_commands(&line);
        return CLI_OK;
    }
    line.command = command_find(line.words[0]);
    if (line.command) {
        complete_arguments(&line);
    }
    return CLI_OK;
}

const struct command row_complete = {
    .name = "complete",
    .args = "-- WORD...",
    .summary = "prints candidates for the completions of shells",
    .run = complete,
    .group = GROUP_DAEMON,
    .bits = COMMAND_NO_SETTINGS | COMMAND_HIDDEN,
    .plain_words = 1,
};
