/* endpoint.c - which daemon a command asks, and with which key. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/command.h"
#include "lib/base/str.h"
#include "serve/daemon/lock.h"

enum { DOMAIN_BYTES = 200 };

static int nobody_serves(const struct cli *cli, struct err *err)
{
    const struct paths *paths = &cli->paths;

    if (lock_is_held(paths->prepare_lock) || lock_is_held(paths->layers_lock)) {
        return err_set(err, CALL_NO_DAEMON,
                       "the daemon of %s is being prepared, which takes minutes when it is started "
                       "for the first time: wait until its log says where it serves",
                       cli->config.data);
    }
    if (lock_is_held(paths->serve_lock)) {
        return err_set(err, CALL_NO_DAEMON, "the daemon of %s is starting, or stopping: try again",
                       cli->config.data);
    }
    return err_set(err, CALL_NO_DAEMON,
                   "no daemon serves %s: start one with `%s serve` (the first `make run` installs "
                   "packages before that), or name its directory with --data",
                   cli->config.data, cli->program);
}

int endpoint_find(const struct cli *cli, struct endpoint *out, struct err *err)
{
    if (access(cli->paths.default_key, R_OK) < 0 && errno == EACCES) {
        return err_set(err, EACCES,
                       "you may not read the API key in %s: run this as root, or as the user %s",
                       cli->paths.state, cli->config.user);
    }
    int r = server_file_read_url(&cli->paths, out->url, sizeof(out->url), err);
    if (r < 0 && r != -ENOENT) {
        return r;
    }
    if (r < 0 || !out->url[0] || !lock_is_held(cli->paths.serve_lock)) {
        return nobody_serves(cli, err);
    }
    return server_file_read_key(&cli->paths, out->key, sizeof(out->key), err);
}

static bool variable_take(const char *name, char *out, size_t size)
{
    const char *value = getenv(name);

    return value && value[0] && str_copy(out, size, str_of(value));
}

/* A base URL may end with a slash; every path begins with one. */
static void url_trim(char *url)
{
    size_t len = strlen(url);

    while (len > 0 && url[len - 1] == '/') {
        url[--len] = '\0';
    }
}

/* As the SDKs choose: E2B_API_URL, or else E2B_DOMAIN. */
static bool variable_url(char *out, size_t size)
{
    char domain[DOMAIN_BYTES];
    bool named = variable_take("E2B_API_URL", out, size);

    if (!named && variable_take("E2B_DOMAIN", domain, sizeof(domain))) {
        int n = snprintf(out, size, "https://api.%s", domain);
        named = n < (int)size;
    }
    url_trim(out);
    return named;
}

/* The data directory is readable by root and the serving user only. */
static int url_find(const struct cli *cli, struct endpoint *out, struct err *err)
{
    if (server_file_read_url(&cli->paths, out->url, sizeof(out->url), err) == 0 && out->url[0]) {
        return 0;
    }
    return err_set(
        err, CALL_NO_DAEMON,
        "E2B_API_KEY is set, but %s names no daemon that you may know of: set "
        "E2B_API_URL to its address or E2B_DOMAIN to its domain, or name its directory with --data",
        cli->config.data);
}

static void copy_text(char *out, size_t size, const char *text)
{
    (void)snprintf(out, size, "%s", text ? text : "");
}

/* --url wins over all. Its key is --key, or that of the environment, or that of the data directory
 * if its daemon is the one that was named. */
static int url_named(const struct cli *cli, struct endpoint *out, struct err *err)
{
    struct endpoint local = {0};
    struct err ignored;

    copy_text(out->url, sizeof(out->url), cli->url);
    url_trim(out->url);
    if (strlen(cli->url) >= sizeof(out->url)) {
        return err_set(err, EINVAL, "the address of --url is too long");
    }
    if (cli->key || variable_take("E2B_API_KEY", out->key, sizeof(out->key))) {
        return 0;
    }
    if (endpoint_find(cli, &local, &ignored) == 0 && strcmp(local.url, out->url) == 0) {
        copy_text(out->key, sizeof(out->key), local.key);
        return 0;
    }
    return err_set(err, EINVAL,
                   "--url names a daemon, but there is no key for it: set E2B_API_KEY");
}

static int choose(const struct cli *cli, struct endpoint *out, struct err *err)
{
    struct endpoint named = {0};
    bool has_url = variable_url(named.url, sizeof(named.url));
    bool has_key = variable_take("E2B_API_KEY", named.key, sizeof(named.key));

    *out = (struct endpoint){0};
    if (cli->url) {
        return url_named(cli, out, err);
    }
    if (cli->data_named || (!has_url && !has_key)) {
        return endpoint_find(cli, out, err);
    }
    int r = 0;
    if (!has_key) {
        r = endpoint_find(cli, out, err);
        if (r < 0) {
            return err_set(err, EACCES, "%s names a daemon, but E2B_API_KEY is not set",
                           getenv("E2B_API_URL") ? "E2B_API_URL" : "E2B_DOMAIN");
        }
        (void)memcpy(named.key, out->key, sizeof(named.key));
    } else if (!has_url) {
        r = url_find(cli, &named, err);
    }
    *out = named;
    return r;
}

int endpoint_choose(const struct cli *cli, struct endpoint *out, struct err *err)
{
    int r = choose(cli, out, err);

    if (cli->key && strlen(cli->key) >= sizeof(out->key)) {
        return err_set(err, EINVAL, "the key of --key is too long");
    }
    if (cli->key) {
        copy_text(out->key, sizeof(out->key), cli->key);
    }
    copy_text(out->ca, sizeof(out->ca), cli->ca);
    return r;
}

/* `atoll env` names a daemon, but gives no operator's key: without one only the data directory
 * helps, and it is not the default one. */
static int operator_unknown(const struct cli *cli, int r, struct err *err)
{
    char url[sizeof(((struct endpoint *)NULL)->url)];

    if (r != -CALL_NO_DAEMON || cli->data_named || !variable_url(url, sizeof(url))) {
        return r;
    }
    return err_set(err, CALL_NO_DAEMON,
                   "this needs the operator's key of %s: set ATOLL_ADMIN_KEY, or name the daemon's "
                   "directory with --data",
                   url);
}

int endpoint_admin(const struct cli *cli, struct endpoint *out, struct err *err)
{
    *out = (struct endpoint){0};
    copy_text(out->ca, sizeof(out->ca), cli->ca);
    if (cli->url) {
        copy_text(out->url, sizeof(out->url), cli->url);
        url_trim(out->url);
        bool known = variable_take("ATOLL_ADMIN_KEY", out->admin, sizeof(out->admin));
        return known ? 0
                     : err_set(err, EINVAL, "--url needs the operator's key: set ATOLL_ADMIN_KEY");
    }
    if (variable_take("ATOLL_ADMIN_KEY", out->admin, sizeof(out->admin))) {
        bool named = !cli->data_named && variable_url(out->url, sizeof(out->url));

        return named ? 0 : server_file_read_url(&cli->paths, out->url, sizeof(out->url), err);
    }
    if (access(cli->paths.admin_token, R_OK) < 0 && errno == EACCES) {
        return err_set(err, EACCES,
                       "you may not read the admin token in %s: run this as root, or as the user "
                       "%s, or set ATOLL_ADMIN_KEY",
                       cli->paths.state, cli->config.user);
    }
    int r = endpoint_find(cli, out, err);
    out->key[0] = '\0';
    return r < 0 ? operator_unknown(cli, r, err)
                 : server_file_read_admin(&cli->paths, out->admin, sizeof(out->admin), err);
}

int cli_each_word(const struct cli *cli, const struct endpoint *endpoint,
                  int (*one)(const struct endpoint *endpoint, const char *word, struct err *err),
                  const char *done)
{
    int code = CLI_OK;

    for (int i = 1; i < cli->words_n; i++) {
        struct err err;
        int r = one(endpoint, cli->words[i], &err);
        if (r < 0) {
            int failed = cli_fail(cli_code(r), "%s: %s", cli->words[i], err.msg);
            code = cli->words_n == 2 ? failed : CLI_FAILED;
        } else {
            cli_print_done(cli, done, cli->words[i]);
        }
    }
    return code;
}

int cli_daemon_call(const struct cli *cli, const struct daemon_call *subs, size_t n)
{
    struct endpoint endpoint;
    struct err err;
    int r = endpoint_choose(cli, &endpoint, &err);

    for (size_t i = 0; r == 0 && i < n; i++) {
        if (strcmp(subs[i].name, cli->sub->name) == 0) {
            return subs[i].each ? cli_each_word(cli, &endpoint, subs[i].each, subs[i].done)
                                : cli_result(subs[i].run(cli, &endpoint, &err), &err);
        }
    }
    return cli_result(r, &err);
}
