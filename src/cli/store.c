#include <inttypes.h>
#include <stdio.h>

#include "cli/cli.h"
#include "serve/daemon/state_copy.h"

static void on_table(void *ctx, const char *table, int64_t rows)
{
    int64_t *all = ctx;

    *all += rows;
    if (rows > 0) {
        printf("%-16s %" PRId64 "\n", table, rows);
    }
}

static int store_run(struct cli *cli)
{
    int64_t rows = 0;
    struct err err;

    if (state_copy(&cli->config, &cli->paths, on_table, &rows, &err) < 0) {
        return cli_fail(CLI_FAILED, "%s. Nothing was copied", err.msg);
    }
    printf("Copied %" PRId64 " rows. Start the daemon with the same --database from now on.\n",
           rows);
    return CLI_OK;
}

static const struct subcommand subs[] = {
    {.name = "copy",
     .args = "--database URL [--data DIR]",
     .help = "copies the state of this machine into an empty PostgreSQL database"},
    {0},
};

const struct command row_store = {
    .name = "store",
    .args = "copy --database URL",
    .summary = "moves the state of this machine into PostgreSQL",
    .run = store_run,
    .group = GROUP_DAEMON,
    .bits = COMMAND_DAEMON,
    .subs = subs,
    .about = "The daemon must be stopped, and the database empty. All rows are copied, or\n"
             "none. The file stays as it is. Saved memory, disks, keys and logs stay in the\n"
             "data directory.",
    .examples = "sudo atoll store copy --database postgresql://atoll@db.example.org/atoll",
};
