#include <errno.h>
#include <stdio.h>

#include "cli/cli.h"

enum { CA_BYTES_MAX = 16 * 1024 };

/* The daemon makes it when it first serves TLS without files of the operator's. */
int cli_ca(struct cli *cli)
{
    char text[CA_BYTES_MAX];
    struct err err;
    int r = place_read_ca(&cli->places, text, sizeof(text), &err);

    if (r == -ENOENT || r == -EACCES) {
        return cli_fail(
            CLI_FAILED,
            "there is no %s: it is made when the daemon first serves with tls_listen and"
            " without tls_cert (and only root and the serving user can read it)",
            cli->places.ca);
    }
    if (r < 0) {
        return cli_fail(CLI_FAILED, "%s", err.msg);
    }
    (void)fputs(text, stdout);
    return CLI_OK;
}
