/* command.h - the rows that describe the commands. Help, the check of arguments, completions,
 * manual pages and "did you mean" all come from them.
 *
 * One command is one file, which ends with its row, and one line of command_list.h.
 */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

struct cli;

/* The kind of thing that a word or a value names, for completions. */
enum takes {
    TAKES_TEXT,
    TAKES_SANDBOX,  /* an id, or the beginning of one */
    TAKES_TEMPLATE, /* a name */
    TAKES_SNAPSHOT,
    TAKES_VOLUME,
    TAKES_SECRET,
    TAKES_FILE,
    TAKES_DIR,
    TAKES_TOOL,
    TAKES_COMMAND,
    TAKES_COPY, /* ID:PATH, or a file of this machine */
};

struct option {
    const char *name;    /* "--follow" */
    const char *letter;  /* "-f", or NULL */
    const char *value;   /* as help names it: "SECONDS"; NULL: it is a flag */
    const char *help;    /* one line, without a full stop */
    const char *choices; /* of the value: "running|paused", or NULL */
    const char *of;      /* the sub-commands that take it: "list|rm"; NULL: all */
    enum takes takes;
    bool repeats; /* may be given more than once */
};

enum {
    COMMAND_JSON = 1,         /* --json makes sense */
    COMMAND_QUIET = 2,        /* -q makes sense */
    COMMAND_DAEMON = 4,       /* starts with a clean environment, and takes all settings */
    COMMAND_NO_SETTINGS = 8,  /* reads no configuration */
    COMMAND_OWN_HELP = 16,    /* explains itself when cli->help is set */
    COMMAND_HIDDEN = 32,      /* for our own scripts */
    COMMAND_SUB_OPTIONAL = 64 /* its first word may be something else than a sub-command */
};

struct subcommand {
    const char *name;
    const char *args;         /* "NAME [LIMIT=N...]" */
    const char *help;         /* one line */
    int words_min, words_max; /* after its name */
    unsigned bits;            /* COMMAND_JSON, COMMAND_QUIET */
    enum takes takes;         /* its words */
};

enum command_group {
    GROUP_SANDBOXES,
    GROUP_WATCH,
    GROUP_TEMPLATES,
    GROUP_ACCOUNTS,
    GROUP_DAEMON,
};

enum { WORDS_ANY = 4096, PLAIN_NONE = -1 };

struct command {
    const char *name;
    const char *args;    /* "ID [--follow]"; a command with sub-commands: those, in short */
    const char *summary; /* "prints ...", without a full stop */
    int (*run)(struct cli *cli);
    enum command_group group;
    unsigned bits;
    int words_min, words_max; /* after its name; with sub-commands: theirs count */
    /* After that many words the rest belongs to another program and is not read: cli->rest. 0: all
     * is read; PLAIN_NONE: the first word belongs to it already. What comes behind "--" is never
     * read. */
    int plain_words;
    enum takes takes;              /* its words */
    const char *choices;           /* what its words can be: "all|none", or NULL */
    const struct option *options;  /* the last has no name; or NULL */
    const struct subcommand *subs; /* the last has no name; or NULL */
    const char *about;             /* more about it, in lines of at most 79 columns; or NULL */
    const char *examples;          /* one on a line, or NULL */
};

#define COMMAND(name) extern const struct command row_##name;
#include "cli/command_list.h"
#undef COMMAND

/* In the order of help; the last is NULL. */
extern const struct command *const commands[];

/* The options that every command has; the last has no name. */
extern const struct option common_options[];

const struct command *command_find(const char *name);
const struct subcommand *subcommand_find(const struct command *command, const char *name);

/* Finds an option by its name or letter: the command's own options, then the common ones. */
const struct option *command_option(const struct command *command, const char *word, size_t len);
bool option_is_of(const struct option *option, const char *sub);

/* Prints the help of a command, as `COMMAND --help` does. */
void command_help(const struct command *command);

#endif
