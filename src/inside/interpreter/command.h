/* command.h - the arguments and the environment that a specification's kernel is started with. */
#ifndef INTERPRETER_COMMAND_H
#define INTERPRETER_COMMAND_H

#include "inside/interpreter/spec.h"
#include "lib/base/buf.h"

/* A word in a text and what stands for it. */
struct command_place {
    const char *word; /* "{code}" */
    struct str value;
};

/* Appends the text with every such word filled in. */
must_check int command_fill(struct buf *out, const char *text, const struct command_place *places,
                            size_t n);

struct command {
    char **argv;
    char **env; /* ours, then the specification's; ended by NULL */
};

/* Puts {connection_file} and {resource_dir} in, which may stand inside an argument. */
must_check int command_make(const struct spec *spec, const char *connection_file,
                            struct command *out, struct err *err);
void command_fini(struct command *command);
#define scoped_command scoped(command_fini) struct command

#endif
