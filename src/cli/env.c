#include <errno.h>
#include <stdio.h>

#include "cli/cli.h"
#include "serve/daemon/client_trust.h"

/* For OpenSSL and the Python SDKs, requests, curl, and Node, in this order. */
static const char *const trust_names[] = {"SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE",
                                          "NODE_EXTRA_CA_CERTS"};

/* Prints the value in single quotes, which are safe for a shell; --json collects all. */
static void export_print(json_t *all, const char *name, const char *value)
{
    if (all) {
        (void)json_object_set_new(all, name, json_string(value));
        return;
    }
    printf("export %s='", name);
    for (const char *c = value; *c; c++) {
        if (*c == '\'') {
            printf("'\\''");
        } else {
            (void)putchar(*c);
        }
    }
    printf("'\n");
}

/* A daemon with the operator's certificate has no authority of its own to trust. */
static int trust_print(const struct cli *cli, json_t *all, const char *domain)
{
    struct err err;
    int r = client_trust_write(&cli->paths, domain, &err);

    if (r == -ENOENT) {
        return CLI_OK;
    }
    if (r < 0) {
        return cli_fail(CLI_FAILED, "%s", err.msg);
    }
    for (size_t i = 0; i < countof(trust_names); i++) {
        export_print(all, trust_names[i], cli->paths.ca_bundle);
    }
    return CLI_OK;
}

static int env(struct cli *cli)
{
    scoped_json *all = cli->json ? json_object() : NULL;
    struct endpoint endpoint;
    char domain[CONFIG_TEXT_BYTES] = "";
    struct err err;

    int r = endpoint_find(cli, &endpoint, &err);
    r = r < 0 ? r : server_file_read_domain(&cli->paths, domain, sizeof(domain), &err);
    if (r < 0) {
        return cli_failed(r, &err);
    }
    /* Root passes this to eval, and the server wrote it: each value has a form in which nothing is
     * a shell's (serve/daemon/paths.h), and is quoted all the same. */
    int code = domain[0] ? trust_print(cli, all, domain) : CLI_OK;
    if (code != CLI_OK) {
        return code;
    }
    if (domain[0]) {
        export_print(all, "E2B_DOMAIN", domain);
    }
    export_print(all, "E2B_API_KEY", endpoint.key);
    /* SDKs that know these save the time for TLS; the others go by the domain. */
    export_print(all, "E2B_API_URL", endpoint.url);
    export_print(all, "E2B_SANDBOX_URL", endpoint.url);
    /* The SDKs look for volumes at a place of its own; here it is the same. */
    export_print(all, "E2B_VOLUME_API_URL", endpoint.url);
    if (all) {
        cli_print_json(all);
    }
    return CLI_OK;
}

const struct command row_env = {
    .name = "env",
    .args = "",
    .summary = "prints the variables that a shell needs to reach the daemon",
    .run = env,
    .group = GROUP_DAEMON,
    .bits = COMMAND_JSON,
    .about = "\nE2B_API_KEY: the key of the default team.\n"
             "E2B_DOMAIN: where SDKs find the API and ports of sandboxes, over TLS.\n"
             "E2B_API_URL, E2B_SANDBOX_URL, E2B_VOLUME_API_URL: the same without TLS, for\n"
             "newer SDKs.\n"
             "SSL_CERT_FILE, REQUESTS_CA_BUNDLE, CURL_CA_BUNDLE, NODE_EXTRA_CA_CERTS: a file\n"
             "with the certificate authorities of this host and of the daemon.",
    .examples = "eval \"$(atoll env)\"\n"
                "eval \"$(sudo atoll env)\"",
};
