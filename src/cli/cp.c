/* cp.c - copies files and directories into sandboxes and volumes, out of them, and between them. */
#include <stdio.h>

#include "cli/copy.h"
#include "cli/remote.h"

static int cp(struct cli *cli)
{
    struct endpoint endpoint = {0};
    static struct place from, to; /* each has a path of some length */
    struct err err;
    const char *user = cli_option(cli, "--user");
    int r = endpoint_choose(cli, &endpoint, &err);

    r = r < 0 ? r : place_open(&endpoint, cli->words[0], user, &from, &err);
    r = r < 0 ? r : place_open(&endpoint, cli->words[1], user, &to, &err);
    if (r < 0) {
        return cli_failed(r, &err);
    }
    bool inside = from.kind == PLACE_SANDBOX || from.kind == PLACE_VOLUME;
    if (!inside && to.kind != PLACE_SANDBOX && to.kind != PLACE_VOLUME) {
        return cli_usage(cli, "name a sandbox or a volume on one side: ID:PATH or vol:NAME/PATH");
    }
    return cli_result(copy_command(cli, &from, &to, &err), &err);
}

static const struct option cp_options[] = {
    {.name = "--user", .letter = "-u", .value = "USER", .help = "act as this user in the sandbox"},
    {.name = "--recursive", .letter = "-r", .help = "accepted; directories are copied anyway"},
    {.name = NULL},
};

const struct command row_cp = {
    .name = "cp",
    .args = "SOURCE TARGET, each ID:PATH, vol:NAME/PATH, a file here, or -",
    .summary = "copies files and directories into, out of and between sandboxes",
    .run = cp,
    .group = GROUP_SANDBOXES,
    .bits = COMMAND_JSON | COMMAND_QUIET,
    .words_min = 2,
    .words_max = 2,
    .takes = TAKES_COPY,
    .options = cp_options,
    .about = "\nA directory that is the target takes the copy under the source's own name;\n"
             "DIR/. stands for what is in DIR. Modes are kept. `-` is stdin or stdout: the\n"
             "bytes of a file, or a tar stream of a directory. Here a file or new directory\n"
             "appears when it is complete, and no name from a sandbox leads out of it.\n"
             "-q shows no progress; --json prints how many files and bytes were copied.",
    .examples = "atoll cp report.csv i0123456789abcdefghij:/home/user/\n"
                "atoll cp i0123456789abcdefghij:results ./results\n"
                "atoll cp i0123456789abcdefghij:/var/log - | tar t",
};
