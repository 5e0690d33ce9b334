/* commands.c - finds commands, sub-commands and options in the rows. */
#include <string.h>

#include "cli/cli.h"

const struct command *const commands[] = {
#define COMMAND(name) &row_##name,
#include "cli/command_list.h"
#undef COMMAND
    NULL,
};

/* help.c shows the first two with commands that know them. */
const struct option common_options[] = {
    {.name = "--json", .help = "print the API's answer as JSON"},
    {.name = "--quiet", .letter = "-q", .help = "print ids or names alone"},
    {.name = "--url", .value = "URL", .help = "address of the daemon, http:// or https://"},
    {.name = "--key", .value = "KEY", .help = "API key (safer: the variable E2B_API_KEY)"},
    {.name = "--ca",
     .value = "FILE",
     .help = "certificate authorities to trust over https://",
     .takes = TAKES_FILE},
    {.name = "--help", .letter = "-h", .help = "explain the command"},
    {.name = NULL},
};

const struct command *command_find(const char *name)
{
    for (size_t i = 0; commands[i]; i++) {
        if (strcmp(commands[i]->name, name) == 0) {
            return commands[i];
        }
    }
    return NULL;
}

const struct subcommand *subcommand_find(const struct command *command, const char *name)
{
    for (const struct subcommand *sub = command->subs; sub && sub->name; sub++) {
        if (strcmp(sub->name, name) == 0) {
            return sub;
        }
    }
    return NULL;
}

static const struct option *find_in(const struct option *list, struct str word)
{
    for (; list && list->name; list++) {
        bool by_letter = list->letter && str_eq(str_of(list->letter), word);
        if (by_letter || str_eq(str_of(list->name), word)) {
            return list;
        }
    }
    return NULL;
}

const struct option *command_option(const struct command *command, const char *word, size_t len)
{
    const struct option *own = find_in(command->options, (struct str){word, len});

    return own ? own : find_in(common_options, (struct str){word, len});
}
