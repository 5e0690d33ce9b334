#include <stdio.h>

#include "cli/cli.h"

int cli_env(struct cli *cli)
{
    struct endpoint endpoint;
    struct err err;

    if (endpoint_find(cli, &endpoint, &err) < 0) {
        return cli_fail(CLI_FAILED, "%s", err.msg);
    }
    /* Root passes this to eval, and the server wrote it: both values have a form in which nothing
     * is a shell's (daemon/places.h), and are quoted all the same. */
    printf("export E2B_API_URL='%s' E2B_SANDBOX_URL='%s' E2B_API_KEY='%s'\n", endpoint.url,
           endpoint.url, endpoint.key);
    /* The SDKs look for volumes at a place of its own; here it is the same. */
    printf("export E2B_VOLUME_API_URL='%s'\n", endpoint.url);
    return CLI_OK;
}
