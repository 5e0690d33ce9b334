/* main.c - mcp-gateway: many MCP servers as one, inside a sandbox. */
#include <getopt.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inside/gateway/catalogue.h"
#include "inside/gateway/plan.h"
#include "inside/gateway/serve.h"
#include "lib/base/compiler.h"
#include "lib/base/err.h"
#include "lib/base/json.h"

static const char usage[] =
    "usage: mcp-gateway --config JSON [--listen ADDRESS:PORT] [--wait SECONDS] [--foreground]\n"
    "       mcp-gateway pull NAME...   installs servers of the catalogue before they are used\n"
    "       mcp-gateway list           lists the servers of the catalogue and their fields\n"
    "       mcp-gateway ahead          lists the servers that the template has installed, with "
    "their packages\n"
    "Files: [--catalogue FILE] [--root DIR] [--token-file FILE] [--log FILE] [--user NAME]\n"
    "The bearer token is $GATEWAY_ACCESS_TOKEN; without it a random one is written to the token "
    "file.\n";

struct settings {
    const char *config;
    const char *catalogue;
    struct serve_options serve;
};

static int option_take(struct settings *settings, int option)
{
    switch (option) {
    case 'c':
        settings->config = optarg;
        return 0;
    case 'g':
        settings->catalogue = optarg;
        return 0;
    case 'l':
        settings->serve.listen = optarg;
        return strchr(optarg, ':') ? 0 : -1;
    case 'r':
        settings->serve.root = optarg;
        return 0;
    case 't':
        settings->serve.token_file = optarg;
        return 0;
    case 'o':
        settings->serve.log = optarg;
        return 0;
    case 'u':
        settings->serve.user = optarg;
        return 0;
    case 'w':
        settings->serve.wait_s = strtol(optarg, NULL, 10);
        return settings->serve.wait_s > 0 ? 0 : -1;
    case 'f':
        settings->serve.foreground = true;
        return 0;
    default:
        return -1;
    }
}

static int arguments_read(int argc, char **argv, struct settings *settings)
{
    static const struct option names[] = {
        {"config", required_argument, NULL, 'c'},     {"catalogue", required_argument, NULL, 'g'},
        {"listen", required_argument, NULL, 'l'},     {"root", required_argument, NULL, 'r'},
        {"token-file", required_argument, NULL, 't'}, {"log", required_argument, NULL, 'o'},
        {"user", required_argument, NULL, 'u'},       {"wait", required_argument, NULL, 'w'},
        {"foreground", no_argument, NULL, 'f'},       {NULL, 0, NULL, 0},
    };
    int option, r = 0;

    while (r == 0 && (option = getopt_long(argc, argv, "", names, NULL)) >= 0) {
        r = option_take(settings, option);
    }
    return r;
}

static int failed(const struct err *err)
{
    (void)fprintf(stderr, "mcp-gateway: %s\n", err->msg);
    return 1;
}

static int config_serve(const struct settings *settings, const struct catalogue *catalogue)
{
    scoped_plans plans = {.n = 0};
    struct err err;

    if (plans_read(str_of(settings->config), catalogue, &plans, &err) < 0) {
        return failed(&err);
    }
    return serve(&settings->serve, &plans);
}

static int names_pull(const struct settings *settings, const struct catalogue *catalogue,
                      char **names, int n)
{
    scoped_plans plans = {.n = 0};
    struct err err;

    if (plans_pull(names, (size_t)n, catalogue, &plans, &err) < 0) {
        return failed(&err);
    }
    return pull(&settings->serve, &plans);
}

/* Where a server comes from: "npm airtable-mcp-server". */
static void source_print(const json_t *entry)
{
    static const char *const kinds[] = {"npm", "pypi", "repository"};

    for (size_t i = 0; i < countof(kinds); i++) {
        const char *source = json_string_of(entry, kinds[i]);
        if (source) {
            (void)printf("%s %s", kinds[i], source);
        }
    }
}

static int ahead_list(const struct catalogue *catalogue)
{
    json_t *servers = catalogue->servers;

    for (void *at = json_object_iter(servers); at; at = json_object_iter_next(servers, at)) {
        json_t *entry = json_object_iter_value(at);
        const char *with = json_string_of(entry, "with");
        if (json_is_true(json_object_get(entry, "ahead"))) {
            (void)printf("%s ", json_object_iter_key(at));
            source_print(entry);
            (void)printf(" %s\n", with ? with : "");
        }
    }
    return 0;
}

static int servers_list(const struct catalogue *catalogue)
{
    json_t *servers = catalogue->servers;

    for (void *at = json_object_iter(servers); at; at = json_object_iter_next(servers, at)) {
        json_t *entry = json_object_iter_value(at);
        json_t *fields = json_object_get(entry, "fields");
        const char *about = json_string_of(entry, "about");
        (void)printf("%s: %s (", json_object_iter_key(at), about ? about : "");
        source_print(entry);
        (void)printf("%s)\n",
                     json_is_true(json_object_get(entry, "ahead")) ? ", in the template" : "");
        for (void *in = json_object_iter(fields); in; in = json_object_iter_next(fields, in)) {
            (void)printf("    %s: %s\n", json_object_iter_key(in),
                         json_string_value(json_object_iter_value(in)));
        }
    }
    return 0;
}

static int run(const struct settings *settings, char **words, int n)
{
    scoped_catalogue catalogue = {.servers = NULL};
    struct err err;

    if (catalogue_read(settings->catalogue, &catalogue, &err) < 0) {
        return failed(&err);
    }
    if (n == 0 && settings->config) {
        return config_serve(settings, &catalogue);
    }
    if (n > 1 && strcmp(words[0], "pull") == 0) {
        return names_pull(settings, &catalogue, words + 1, n - 1);
    }
    if (n == 1 && strcmp(words[0], "list") == 0) {
        return servers_list(&catalogue);
    }
    if (n == 1 && strcmp(words[0], "ahead") == 0) {
        return ahead_list(&catalogue);
    }
    (void)fputs(usage, stderr);
    return 2;
}

int main(int argc, char **argv)
{
    struct settings settings = {
        .catalogue = "/usr/lib/atoll/mcp-catalogue.json",
        .serve =
            {
                .listen = "0.0.0.0:50005",
                .root = "/var/lib/mcp-gateway",
                .user = "user",
                .token_file = "/etc/mcp-gateway/.token",
                .log = "/var/log/mcp-gateway/gateway.log",
                .wait_s = 55, /* the SDK waits for a minute */
            },
    };

    (void)setenv("UV_USE_IO_URING", "0", 1); /* a checkpoint takes none */
    if (arguments_read(argc, argv, &settings) < 0) {
        (void)fputs(usage, stderr);
        return 2;
    }
    return run(&settings, argv + optind, argc - optind);
}
