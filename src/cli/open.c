/* open.c - opens the dashboard, logged in. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "lib/base/pid_wait.h"

enum { ADDRESS_BYTES = 512 };

/* The operator's rights too, where this user has them at the same daemon: the token of one daemon
 * is never sent to another. */
static void admin_add(const struct cli *cli, struct endpoint *endpoint)
{
    struct endpoint admin = {0};
    struct err ignored;

    if (!cli_has(cli, "--no-operator") && endpoint_admin(cli, &admin, &ignored) == 0 &&
        strcmp(admin.url, endpoint->url) == 0) {
        memcpy(endpoint->admin, admin.admin, sizeof(endpoint->admin));
    }
    explicit_bzero(&admin, sizeof(admin));
}

/* A link of a read-only key cannot have the operator's rights, and does without. */
static int link_make(struct endpoint *endpoint, json_t **answer, struct err *err)
{
    int r = endpoint_call(endpoint, "POST", "/dashboard/links", NULL, answer, err);

    if (r < 0 && endpoint->admin[0]) {
        endpoint->admin[0] = '\0';
        r = endpoint_call(endpoint, "POST", "/dashboard/links", NULL, answer, err);
    }
    return r;
}

static bool has_display(void)
{
    const char *x11 = getenv("DISPLAY"), *wayland = getenv("WAYLAND_DISPLAY");

    return (x11 && x11[0]) || (wayland && wayland[0]);
}

/* In the child: what a browser says is not for this terminal. */
static _Noreturn void browser_exec(const char *address)
{
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);

    if (nothing >= 0) {
        (void)dup2(nothing, STDIN_FILENO);
        (void)dup2(nothing, STDOUT_FILENO);
        (void)dup2(nothing, STDERR_FILENO);
    }
    (void)setsid();
    (void)execlp("xdg-open", "xdg-open", address, (char *)NULL);
    _exit(127);
}

/* xdg-open returns once a browser has the address. */
static bool browser_open(const char *address)
{
    pid_t pid = fork();

    if (pid == 0) {
        browser_exec(address);
    }
    return pid > 0 && pid_wait_success(pid);
}

static void show(const struct cli *cli, const char *address, const json_t *answer)
{
    bool terminal = isatty(STDOUT_FILENO);

    if (cli->json) {
        scoped_json *out =
            json_pack("{ssss}", "url", address, "expiresAt", answer_text(answer, "expiresAt"));
        cli_print_json(out);
        return;
    }
    printf("%s\n", address);
    (void)fflush(stdout);
    if (!cli->quiet && terminal) {
        (void)fprintf(stderr, "The link works once, for a minute.\n");
    }
    if (terminal && has_display() && !cli_has(cli, "--no-browser") && !browser_open(address)) {
        (void)fprintf(stderr, "No browser could be opened: open the link yourself.\n");
    }
}

static int command_open(struct cli *cli)
{
    struct endpoint endpoint;
    char address[ADDRESS_BYTES];
    scoped_json *answer = NULL;
    struct err err;
    int r = endpoint_choose(cli, &endpoint, &err);

    if (r == 0) {
        admin_add(cli, &endpoint);
        r = link_make(&endpoint, &answer, &err);
    }
    if (r == 0) {
        (void)snprintf(address, sizeof(address), "%s/#login=%s", endpoint.url,
                       answer_text(answer, "link"));
        show(cli, address, answer);
    }
    return cli_result(r, &err);
}

static const struct option options[] = {
    {.name = "--no-browser", .help = "only print the link"},
    {.name = "--no-operator", .help = "without the rights of the operator"},
    {.name = NULL},
};

const struct command row_open = {
    .name = "open",
    .args = "[--no-browser]",
    .summary = "prints a link that logs in to the dashboard, and opens it",
    .run = command_open,
    .group = GROUP_DAEMON,
    .bits = COMMAND_JSON | COMMAND_QUIET,
    .options = options,
    .about = "The link works once, for a minute. A browser is opened where there is a display\n"
             "and a terminal. The session has the rights of the operator where you may read\n"
             "the admin token of the data directory, or ATOLL_ADMIN_KEY is set.",
    .examples = "atoll open\n"
                "atoll open --url https://api.example.com --no-browser",
};
