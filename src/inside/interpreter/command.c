#include "inside/interpreter/command.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "inside/interpreter/json_read.h"
#include "lib/base/alloc.h"
#include "lib/base/buf.h"

enum {
    ARGUMENT_BYTES_MAX = 64 * 1024,
    NAME_LEN_MAX = 255, /* of a variable that a specification may replace */
};

extern char **environ;

static void strings_free(char **strings)
{
    for (char **at = strings; at && *at; at++) {
        free(*at);
    }
    free(strings);
}

int command_fill(struct buf *out, const char *text, const struct command_place *places, size_t n)
{
    int r = 0;

    while (*text && r == 0) {
        size_t i = 0;
        while (i < n && strncmp(text, places[i].word, strlen(places[i].word)) != 0) {
            i++;
        }
        if (i < n) {
            r = buf_append(out, places[i].value.at, places[i].value.len);
            text += strlen(places[i].word);
        } else {
            r = buf_append(out, text++, 1);
        }
    }
    return r;
}

static int argv_make(const struct spec *spec, const char *connection_file, char **argv)
{
    const struct command_place places[] = {
        {"{connection_file}", str_of(connection_file)},
        {"{resource_dir}", str_of(spec->directory)},
    };
    const json_t *item;
    size_t i;

    json_array_foreach (spec->argv, i, item) {
        scoped_buf(text, ARGUMENT_BYTES_MAX);
        int r = command_fill(&text, json_string_value(item), places, countof(places));
        if (r == 0) {
            r = buf_append(&text, "", 1);
        }
        if (r < 0) {
            return r;
        }
        argv[i] = xstrdup(buf_at(&text));
    }
    return 0;
}

/* "NAME=value" of ours that the specification replaces. */
static bool is_replaced(const struct spec *spec, const char *var)
{
    char name[NAME_LEN_MAX + 1];
    struct str whole = str_of(var);

    whole.len = str_find(whole, '=');
    return str_copy(name, sizeof(name), whole) && json_object_get(spec->env, name);
}

/* ipykernel ends itself when the parent whose pid it finds here is gone. */
static void env_make(const struct spec *spec, char **env)
{
    size_t n = 0;

    for (char **at = environ; *at; at++) {
        if (!is_replaced(spec, *at)) {
            env[n++] = xstrdup(*at);
        }
    }
    for (void *at = json_object_iter(spec->env); at; at = json_object_iter_next(spec->env, at)) {
        if (asprintf(&env[n++], "%s=%s", json_object_iter_key(at),
                     json_string_value(json_object_iter_value(at))) < 0) {
            abort();
        }
    }
    if (asprintf(&env[n], "JPY_PARENT_PID=%d", (int)getpid()) < 0) {
        abort();
    }
}

int command_make(const struct spec *spec, const char *connection_file, struct command *out,
                 struct err *err)
{
    size_t n = json_object_size(spec->env) + 2; /* the parent's pid, and NULL */

    for (char **at = environ; *at; at++) {
        n++;
    }
    struct command command = {
        .argv = xcalloc(json_array_size(spec->argv) + 1, sizeof(char *)),
        .env = xcalloc(n, sizeof(char *)),
    };
    int r = argv_make(spec, connection_file, command.argv);
    env_make(spec, command.env);
    if (r < 0) {
        command_fini(&command);
        return err_set(err, -r, "an argument in %s/kernel.json is too long", spec->directory);
    }
    *out = command;
    return 0;
}

void command_fini(struct command *command)
{
    strings_free(command->argv);
    strings_free(command->env);
    *command = (struct command){0};
}
