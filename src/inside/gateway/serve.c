#include "inside/gateway/serve.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <uv.h>

#include "inside/gateway/gateway.h"
#include "inside/gateway/launch.h"
#include "lib/base/alloc.h"
#include "lib/base/fd.h"
#include "lib/base/id.h"
#include "lib/base/log.h"
#include "lib/http/server.h"

enum {
    TOKEN_BYTES_MAX = 1024,
    PATH_BYTES = 4096,
    NAMES_BYTES = 1024,
    CONNECTIONS_MAX = 1000,
    IDLE_TIMEOUT_MS = 640 * 1000, /* longer than any proxy's in front */
};

/* ---- the token ---- */

/* If the environment has no token, a random one is made: no client is served without a token. */
static int token_get(char token[TOKEN_BYTES_MAX], struct err *err)
{
    const char *given = getenv("GATEWAY_ACCESS_TOKEN");

    if (!given || !*given) {
        id_uuid(token);
        return 0;
    }
    return str_copy(token, TOKEN_BYTES_MAX, str_of(given))
               ? 0
               : err_set(err, EINVAL, "GATEWAY_ACCESS_TOKEN is longer than %d bytes",
                         TOKEN_BYTES_MAX - 1);
}

static int token_write(const char *path, const char *token, struct err *err)
{
    char temporary[PATH_BYTES];
    int r = launch_directories(path, err);

    if (r < 0) {
        return r;
    }
    (void)snprintf(temporary, sizeof(temporary), "%s.new", path);
    (void)unlink(temporary);
    scoped_fd fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    ssize_t len = (ssize_t)strlen(token);
    if (fd < 0 || write(fd, token, (size_t)len) != len || rename(temporary, path) < 0) {
        return err_sys(err, "write the token to %s", path);
    }
    return 0;
}

/* ---- serving ---- */

struct serving {
    const struct serve_options *options;
    uv_loop_t *loop;
    struct http_server *server;
    struct gateway *gateway;
    char token[TOKEN_BYTES_MAX];
    int report; /* to who launched us; -1: nobody, or told already */
    uv_poll_t launcher;
    uv_timer_t patience;
    uv_signal_t signals[2];
    bool up;
    int status;
};

static void serving_end(struct serving *s, int status)
{
    s->status = status;
    uv_stop(s->loop);
}

static void on_patience_over(uv_timer_t *timer)
{
    struct serving *s = timer->data;
    char why[NAMES_BYTES + 64], names[NAMES_BYTES];

    struct str said = gateway_missing(s->gateway, names, sizeof(names));
    (void)snprintf(why, sizeof(why), "after %ld s these MCP servers were not up: %s",
                   s->options->wait_s, names);
    log_error("%s", why);
    launch_report_failure(s->report, why, said);
    serving_end(s, 1);
}

/* The launcher never writes: a readable socket means that it is gone. */
static void on_launcher_gone(uv_poll_t *poll, int status, int events)
{
    (void)status, (void)events;
    serving_end(poll->data, 1);
}

static void on_up(void *ctx)
{
    struct serving *s = ctx;
    struct err err;

    s->up = true;
    uv_timer_stop(&s->patience);
    if (token_write(s->options->token_file, s->token, &err) < 0) {
        launch_report_failure(s->report, err.msg, (struct str){"", 0});
        serving_end(s, 1);
        return;
    }
    log_info("serving on %s", s->options->listen);
    launch_report_up(s->report);
    if (s->report >= 0) {
        (void)uv_poll_stop(&s->launcher);
        fd_closep(&s->report);
    }
}

static void on_failed(void *ctx, const char *why, struct str said)
{
    struct serving *s = ctx;

    launch_report_failure(s->report, why, said);
    serving_end(s, 1);
}

static void on_request(void *ctx, struct http_exchange *ex)
{
    struct serving *s = ctx;

    if (s->up) {
        gateway_request(s->gateway, ex);
    } else {
        http_answer(ex, 503, "text/plain", "The MCP servers are starting",
                    strlen("The MCP servers are starting"));
    }
}

static void on_signal(uv_signal_t *handle, int signum)
{
    (void)signum;
    serving_end(handle->data, 0);
}

static void watches_start(struct serving *s)
{
    static const int signals[] = {SIGTERM, SIGINT};

    for (size_t i = 0; i < countof(signals); i++) {
        (void)uv_signal_init(s->loop, &s->signals[i]);
        s->signals[i].data = s;
        (void)uv_signal_start(&s->signals[i], on_signal, signals[i]);
    }
    (void)uv_timer_init(s->loop, &s->patience);
    s->patience.data = s;
    (void)uv_timer_start(&s->patience, on_patience_over, (uint64_t)s->options->wait_s * 1000, 0);
    if (s->report >= 0 && uv_poll_init(s->loop, &s->launcher, s->report) == 0) {
        s->launcher.data = s;
        (void)uv_poll_start(&s->launcher, UV_READABLE | UV_DISCONNECT, on_launcher_gone);
    }
}

static int server_start(struct serving *s, struct err *err)
{
    const struct http_server_options options = {
        .loop = s->loop,
        .on_request = on_request,
        .ctx = s,
        .connections_max = CONNECTIONS_MAX,
        .idle_timeout_ms = IDLE_TIMEOUT_MS,
    };
    int r = http_server_new(&options, &s->server, err);

    return r == 0 ? http_server_listen(s->server, s->options->listen, NULL, err) : r;
}

static void on_stopped(void *ctx)
{
    struct serving *s = ctx;

    http_server_free(s->server);
    gateway_free(s->gateway);
    uv_close((uv_handle_t *)&s->patience, NULL);
    for (size_t i = 0; i < countof(s->signals); i++) {
        uv_close((uv_handle_t *)&s->signals[i], NULL);
    }
    if (s->launcher.data) {
        uv_close((uv_handle_t *)&s->launcher, NULL);
    }
    fd_closep(&s->report);
}

static void serving_run(struct serving *s, const struct plans *plans)
{
    struct gateway_options options = {
        .place = {.loop = s->loop, .root = s->options->root},
        .plans = plans,
        .token = s->token,
        .on_up = on_up,
        .on_failed = on_failed,
        .ctx = s,
    };
    account_find(s->options->user, &options.place.account);
    watches_start(s);
    s->gateway = gateway_new(&options);
    gateway_start(s->gateway);
    if (s->status < 0) { /* a stop before the loop runs would be forgotten */
        (void)uv_run(s->loop, UV_RUN_DEFAULT);
    }
    http_server_stop(s->server, 0, on_stopped, s);
    (void)uv_run(s->loop, UV_RUN_DEFAULT);
}

static int failure(int report, const struct err *err)
{
    launch_report_failure(report, err->msg, (struct str){"", 0});
    return 1;
}

int serve(const struct serve_options *options, const struct plans *plans)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    struct serving s = {.options = options, .report = -1, .status = -1};
    struct err err;

    if (!options->foreground && (s.report = launch(options->log, &err)) < 0) {
        return failure(-1, &err);
    }
    log_init("mcp-gateway", LOG_INFO);
    (void)sigaction(SIGPIPE, &ignore, NULL);
    s.loop = uv_default_loop();
    if (token_get(s.token, &err) < 0 || server_start(&s, &err) < 0) {
        return failure(s.report, &err);
    }
    serving_run(&s, plans);
    return s.status;
}

/* ---- pulling ---- */

struct pulling {
    struct install *install;
    const struct plan *plan;
    int *status;
};

static void on_pulled(void *ctx, const struct err *err, struct str said)
{
    struct pulling *p = ctx;
    char why[NAMES_BYTES];

    install_free(move_ptr(&p->install));
    if (err->code) {
        *p->status = 1;
        (void)snprintf(why, sizeof(why), "the MCP server %s %s", p->plan->name, err->msg);
        launch_report_failure(-1, why, said);
    } else {
        (void)printf("%s: installed %s\n", p->plan->name, p->plan->source);
    }
}

int pull(const struct serve_options *options, const struct plans *plans)
{
    static const struct install_handler handler = {.done = on_pulled};
    struct place place = {.loop = uv_default_loop(), .root = options->root};
    struct pulling all[PLANS_MAX];
    int status = 0;
    struct err err;

    log_init("mcp-gateway", LOG_WARN);
    account_find(options->user, &place.account);
    for (size_t i = 0; i < plans->n; i++) {
        all[i] = (struct pulling){.plan = &plans->all[i], .status = &status};
        if (install_start(&place, all[i].plan, &handler, &all[i], &all[i].install, &err) < 0) {
            status = failure(-1, &err);
        } else if (!all[i].install) {
            (void)printf("%s: %s is installed already\n", all[i].plan->name, all[i].plan->source);
        }
    }
    (void)uv_run(place.loop, UV_RUN_DEFAULT);
    return status;
}
