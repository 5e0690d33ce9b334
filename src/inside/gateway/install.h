/* install.h - brings a server's package or repository onto the disk, and knows how to run it.
 *
 * Owns:     <root>/<kind>/<package> of each server, which those of the same package share, or
 *           <root>/github/<name>; while one is installed, the process that does it.
 * Needs:    npm, python3 with venv and pip, git: of those what the plan asks for; flock, cmp.
 * Blocks:   never, but for a few small files.
 * Threads:  the loop's.
 *
 * All of it runs as the account's user, so that what servers write is theirs. A file `.installed`
 * with the source and the plan's install command is written last: a directory without it, or with
 * another, is made anew.
 */
#ifndef GATEWAY_INSTALL_H
#define GATEWAY_INSTALL_H

#include <uv.h>

#include "inside/gateway/plan.h"
#include "lib/base/str.h"
#include "lib/child/child.h"

struct account { /* the user that runs servers */
    struct child_user user;
    bool is_other; /* than we are */
    char name[64];
    char home[1024];
};

struct place {
    uv_loop_t *loop;
    const char *root; /* below which packages are */
    struct account account;
};

/* The user of that name when there is one and we are root; else we ourselves. */
void account_find(const char *name, struct account *out);

struct install;

/* Calls done once, never inside: 0, or an error with a sentence and the end of what was said. With
 * nothing to do *out is NULL, and done is not called. */
struct install_handler {
    void (*done)(void *ctx, const struct err *err, struct str said);
};
must_check int install_start(const struct place *place, const struct plan *plan,
                             const struct install_handler *handler, void *ctx, struct install **out,
                             struct err *err);
void install_free(struct install *install); /* ends it; accepts NULL */

/* How an installed server is started. */
struct command {
    char **argv;
    char **env;
    char *cwd;
};
must_check int command_make(const struct place *place, const struct plan *plan, struct command *out,
                            struct err *err);
void command_fini(struct command *command);
#define scoped_command scoped(command_fini) struct command

#endif
