/* export_key.c - the key of this machine's exports, for root. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/hidden_value.h"
#include "lib/base/fd.h"
#include "wire/export_key.h"

static int show(int dir_fd, struct err *err)
{
    char hex[EXPORT_KEY_HEX_LEN + 1];
    int r = export_key_read_or_make(dir_fd, hex, err);

    if (r == 0) {
        printf("%s\n", hex);
    }
    explicit_bzero(hex, sizeof(hex));
    return r;
}

static int set(int dir_fd, struct err *err)
{
    static char text[HIDDEN_VALUE_BYTES];
    int r = hidden_value_read("Export key: ", text, err);

    r = r < 0 ? r : export_key_write(dir_fd, text, err);
    explicit_bzero(text, sizeof(text));
    if (r == 0) {
        (void)fputs("Files that were sealed with the key before can no longer be imported here.\n",
                    stderr);
    }
    return r;
}

static int export_key(struct cli *cli)
{
    struct err err;

    if (geteuid() != 0) {
        return cli_fail(CLI_FAILED, "only root may see or set the export key");
    }
    scoped_fd dir = open(cli->config.data, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0) {
        return cli_fail(CLI_FAILED, "open the data directory %s: %s", cli->config.data,
                        strerrordesc_np(errno));
    }
    return cli_result(cli->sub ? set(dir, &err) : show(dir, &err), &err);
}

static const struct subcommand subs[] = {
    {"set", "", "reads a key from its input", 0, 0, 0, TAKES_TEXT},
    {.name = NULL},
};

const struct command row_export_key = {
    .name = "export-key",
    .args = "[set]",
    .summary = "prints or sets the key that exports are sealed with, for root",
    .run = export_key,
    .group = GROUP_DAEMON,
    .bits = COMMAND_SUB_OPTIONAL,
    .words_min = 0,
    .words_max = 0,
    .subs = subs,
    .about = "Machines that exchange files of `atoll export` need the same key. Who knows it\n"
             "can write files that root of those machines reads: show it to root alone.",
    .examples = "atoll export-key | ssh root@other atoll export-key set",
};
