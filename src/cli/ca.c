#include <errno.h>
#include <stdio.h>

#include "cli/cli.h"

enum { CA_BYTES_MAX = 16 * 1024 };

/* The daemon makes the authority when it first serves TLS without the operator's tls_cert. */
static int ca(struct cli *cli)
{
    char text[CA_BYTES_MAX];
    struct err err;
    int r = server_file_read_ca(&cli->paths, text, sizeof(text), &err);

    if (r == -ENOENT || r == -EACCES) {
        return cli_fail(CLI_FAILED,
                        "there is no %s: it is there while the daemon serves TLS without tls_cert "
                        "(and only root"
                        " and the serving user can read it)",
                        cli->paths.ca);
    }
    if (r < 0) {
        return cli_fail(CLI_FAILED, "%s", err.msg);
    }
    (void)fputs(text, stdout);
    return CLI_OK;
}

const struct command row_ca = {
    .name = "ca",
    .args = "> FILE",
    .summary = "prints the certificate of the daemon's own authority",
    .run = ca,
    .group = GROUP_DAEMON,
    .about = "\n`atoll env` already makes SDKs, curl and Node trust it. A browser has a list of\n"
             "its own; for Chromium:\n"
             "  atoll ca > atoll-ca.pem\n"
             "  certutil -d sql:$HOME/.pki/nssdb -A -t C,, -n atoll -i atoll-ca.pem",
};
