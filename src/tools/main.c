/* main.c - atoll-tools: the catalogue as a program of its own, which the daemon starts.
 *
 * It listens on a socket that it was given (TOOLS_LISTEN_FD) and asks the daemon's API by another,
 * both of the unix kind (wire/tools.h). SIGTERM cancels the calls under way, and the program ends
 * when they have cleaned up.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>
#include <uv.h>

#include "lib/base/alloc.h"
#include "lib/base/fd.h"
#include "lib/base/log.h"
#include "lib/base/table.h"
#include "lib/base/unix_socket.h"
#include "lib/http/server.h"
#include "tools/confine.h"
#include "tools/tools.h"
#include "wire/tools.h"

enum { ANSWERS_MS = 2000 }; /* for the last answers, once every call has ended */

/* Handlers keep the id of a team for good. */
struct team {
    UT_hash_handle hh;
    char id[];
};

struct program {
    const char *api;
    long parent;
    enum log_level log_level;
    struct tools_options options;
    uv_loop_t loop;
    uv_signal_t on_term;
    struct tools *tools;
    struct http_server *http;
    struct team *teams;
    bool stopping;
};

/* ---- requests ---- */

static void on_request(void *ctx, struct http_exchange *ex)
{
    struct program *program = ctx;

    if (!tools_handle(program->tools, ex)) {
        http_answer(ex, 404, NULL, NULL, 0);
    }
}

static const char *team_kept(struct program *program, struct str id)
{
    struct team *team;

    HASH_FIND(hh, program->teams, id.at, id.len, team);
    if (!team) {
        team = xcalloc(1, sizeof(*team) + id.len + 1);
        memcpy(team->id, id.at, id.len);
        HASH_ADD_KEYPTR(hh, program->teams, team->id, id.len, team);
    }
    return team->id;
}

/* The daemon has authenticated the caller. */
static int authenticate(void *ctx, const struct http_request *req, const char **team_id,
                        struct str *key, struct err *err)
{
    struct str refused = http_header_get(req, TOOLS_HEADER_REFUSED);
    struct str team = http_header_get(req, TOOLS_HEADER_TEAM);

    if (refused.at || !team.at) {
        return err_set(err, EACCES, "%.*s", (int)refused.len, refused.at ? refused.at : "");
    }
    *team_id = team_kept(ctx, team);
    *key = http_header_get(req, TOOLS_HEADER_KEY);
    return 0;
}

static int dial(void *ctx, struct err *err)
{
    const struct program *program = ctx;

    return unix_connect(program->api, err);
}

/* ---- life ---- */

static void on_http_stopped(void *ctx)
{
    struct program *program = ctx;

    uv_stop(&program->loop);
}

static void on_tools_stopped(void *ctx)
{
    struct program *program = ctx;

    http_server_stop(program->http, ANSWERS_MS, on_http_stopped, program);
}

static void on_signal(uv_signal_t *handle, int number)
{
    struct program *program = handle->data;

    (void)number;
    if (!program->stopping) {
        program->stopping = true;
        tools_stop(program->tools, on_tools_stopped, program);
    }
}

static int open_all(struct program *program, struct err *err)
{
    const struct http_server_options http = {
        .loop = &program->loop, .on_request = on_request, .ctx = program};

    (void)uv_loop_init(&program->loop);
    (void)uv_signal_init(&program->loop, &program->on_term);
    program->on_term.data = program;
    (void)uv_signal_start(&program->on_term, on_signal, SIGTERM);
    program->options.loop = &program->loop;
    program->options.authenticate = authenticate;
    program->options.dial = dial;
    program->options.ctx = program;
    int r = tools_new(&program->options, &program->tools, err);
    r = r < 0 ? r : http_server_new(&http, &program->http, err);
    return r < 0 ? r : http_server_listen_fd(program->http, TOOLS_LISTEN_FD, NULL, err);
}

static void close_all(struct program *program)
{
    struct team *team, *next;

    http_server_free(program->http);
    tools_free(program->tools);
    uv_close((uv_handle_t *)&program->on_term, NULL);
    (void)uv_run(&program->loop, UV_RUN_DEFAULT);
    HASH_ITER (hh, program->teams, team, next) {
        HASH_DEL(program->teams, team);
        free(team);
    }
}

static int run(struct program *program, struct err *err)
{
    int r = confine_to_parent((pid_t)program->parent, err);

    if (r < 0) {
        return r;
    }
    (void)fd_allow_most();
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGINT,
                 SIG_IGN); /* a terminal's Ctrl-C is for the daemon, which ends us in order */
    (void)signal(SIGHUP, SIG_IGN);
    r = confine(err);
    if (r == -EOPNOTSUPP) {
        log_warn("%s: the tools could read every file of their user", err->msg);
    } else if (r < 0) {
        return r;
    }
    r = open_all(program, err);
    if (r == 0) {
        (void)uv_run(&program->loop, UV_RUN_DEFAULT);
        close_all(program);
    }
    return r;
}

/* ---- options ---- */

static int number_take(const char *text, int64_t *out)
{
    char *end = NULL;

    errno = 0;
    *out = strtoll(text, &end, 10);
    return errno || *end || !*text ? -EINVAL : 0;
}

static int option_take(struct program *program, int option)
{
    int64_t number = 0;

    switch (option) {
    case 'a':
        program->api = optarg;
        return 0;
    case 'p':
        if (number_take(optarg, &number) < 0) {
            return -EINVAL;
        }
        program->parent = number;
        return 0;
    case 'd':
        program->options.domain = optarg[0] ? optarg : NULL;
        return 0;
    case 's':
        return number_take(optarg, &program->options.sandbox_s_max);
    case 'c':
        return number_take(optarg, &program->options.code_s_max);
    case 'l':
        return log_level_parse(optarg, &program->log_level);
    default:
        return -EINVAL;
    }
}

static int options_read(int argc, char **argv, struct program *program)
{
    static const struct option names[] = {
        {"api", required_argument, NULL, 'a'},
        {"parent", required_argument, NULL, 'p'},
        {"domain", required_argument, NULL, 'd'},
        {"sandbox-seconds", required_argument, NULL, 's'},
        {"code-seconds", required_argument, NULL, 'c'},
        {"log-level", required_argument, NULL, 'l'},
        {NULL, 0, NULL, 0},
    };
    int option, r = 0;

    while (r == 0 && (option = getopt_long(argc, argv, "", names, NULL)) >= 0) {
        r = option_take(program, option);
    }
    return r == 0 && optind == argc && program->api && program->parent > 0 ? 0 : -EINVAL;
}

int main(int argc, char **argv)
{
    struct program program = {.log_level = LOG_INFO};
    struct err err;

    if (options_read(argc, argv, &program) < 0 || fcntl(TOOLS_LISTEN_FD, F_SETFD, FD_CLOEXEC) < 0) {
        (void)fputs("atoll-tools is started by the daemon (`atoll serve`) alone\n", stderr);
        return 2;
    }
    (void)close_range(TOOLS_LISTEN_FD + 1, UINT_MAX,
                      0);                    /* libraries of the daemon's leave some open */
    (void)prctl(PR_SET_NAME, "atoll-tools"); /* it may have been started by a descriptor */
    log_init("tools", program.log_level);
    if (run(&program, &err) < 0) {
        log_error("%s", err.msg);
        return 1;
    }
    return 0;
}
