#include <stdio.h>

#include "cli/cli.h"

/* The daemon makes it when it first serves TLS without files of the operator's. */
int cli_ca(struct cli *cli)
{
    char text[4096];
    size_t n;
    FILE *file = fopen(cli->places.ca, "re");

    if (!file) {
        return cli_fail(
            CLI_FAILED,
            "there is no %s: it is made when the daemon first serves with tls_listen and"
            " without tls_cert (and only root and the serving user can read it)",
            cli->places.ca);
    }
    while ((n = fread(text, 1, sizeof(text), file)) > 0) {
        (void)fwrite(text, 1, n, stdout);
    }
    (void)fclose(file);
    return CLI_OK;
}
