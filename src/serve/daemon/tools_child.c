#include "serve/daemon/tools_child.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/fd.h"
#include "lib/base/log.h"
#include "lib/base/unix_socket.h"
#include "lib/http/server.h"
#include "serve/daemon/restart.h"
#include "serve/daemon/tools_forward.h"
#include "wire/tools.h"

enum {
    IDLE_MS = 60 * 60 * 1000, /* atoll-tools closes connections that it does not need */
    NUMBER_BYTES = 24,
};

struct tools_child {
    struct tools_child_options options;
    struct tools_forward way;
    struct http_server *inner;
    int listen_fd;
    uv_process_t process;
    bool running;
    bool stopping;
    bool freed;       /* as soon as the process is gone */
    unsigned crashes; /* in a row */
    int64_t started_ms;
    uv_timer_t restart;
    void (*done)(void *ctx);
    void *ctx;
};

static void start(struct tools_child *tools);

/* ---- the end ---- */

static void on_inner_stopped(void *ctx)
{
    struct tools_child *tools = ctx;

    tools->done(tools->ctx);
}

/* Its connections are gone with it, or are about to be. */
static void inner_stop(struct tools_child *tools)
{
    (void)uv_timer_stop(&tools->restart);
    http_server_stop(tools->inner, 0, on_inner_stopped, tools);
}

static void on_restart(uv_timer_t *timer)
{
    start(timer->data);
}

static void start_later(struct tools_child *tools)
{
    int64_t ms = restart_delay_ms(tools->crashes++);

    (void)uv_timer_start(&tools->restart, on_restart, (uint64_t)ms, 0);
}

static void on_timer_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static void finish(struct tools_child *tools)
{
    fd_closep(&tools->listen_fd);
    http_server_free(tools->inner);
    uv_close((uv_handle_t *)&tools->restart, on_timer_closed);
}

static void on_process_closed(uv_handle_t *handle)
{
    struct tools_child *tools = handle->data;

    tools->running = false;
    if (tools->freed) {
        finish(tools);
    } else if (tools->stopping) {
        inner_stop(tools);
    } else {
        start_later(tools);
    }
}

static void on_exit_seen(uv_process_t *process, int64_t status, int signal_number)
{
    struct tools_child *tools = process->data;

    if (tools->freed || tools->stopping) {
        log_debug("atoll-tools has ended");
    } else if (signal_number) {
        log_error("atoll-tools was ended by signal %d; starting it again", signal_number);
    } else {
        log_error("atoll-tools ended with status %" PRId64 "; starting it again", status);
    }
    if (clock_mono_ms() - tools->started_ms > RESTART_HEALTHY_MS) {
        tools->crashes = 0;
    }
    uv_close((uv_handle_t *)process, on_process_closed);
}

/* ---- the beginning ---- */

static int spawn(struct tools_child *tools)
{
    const struct tools_child_options *options = &tools->options;
    const struct config *config = options->config;
    char parent[NUMBER_BYTES], sandbox[NUMBER_BYTES], code[NUMBER_BYTES];
    const char *argv[] = {"atoll-tools",
                          "--api",
                          options->paths->api_socket,
                          "--parent",
                          parent,
                          "--domain",
                          config->domain,
                          "--sandbox-seconds",
                          sandbox,
                          "--code-seconds",
                          code,
                          "--log-level",
                          log_level_name(config->log_level),
                          NULL};
    char *no_environment[] = {NULL};
    uv_stdio_container_t stdio[TOOLS_LISTEN_FD + 1] = {
        {.flags = UV_IGNORE},
        {.flags = UV_INHERIT_FD, .data.fd = STDERR_FILENO},
        {.flags = UV_INHERIT_FD, .data.fd = STDERR_FILENO},
        {.flags = UV_INHERIT_FD, .data.fd = tools->listen_fd},
    };
    const uv_process_options_t process = {
        .exit_cb = on_exit_seen,
        .file = options->paths->tools,
        .args = (char **)(uintptr_t)argv,
        .env = no_environment,
        .cwd = "/",
        .stdio_count = countof(stdio),
        .stdio = stdio,
    };

    (void)snprintf(parent, sizeof(parent), "%d", (int)getpid());
    (void)snprintf(sandbox, sizeof(sandbox), "%" PRIu64,
                   (uint64_t)config->sandbox_hours_max * 3600);
    (void)snprintf(code, sizeof(code), "%" PRIu64, (uint64_t)config->code_timeout_s);
    return uv_spawn(options->loop, &tools->process, &process);
}

static void start(struct tools_child *tools)
{
    int r = spawn(tools);

    tools->process.data = tools;
    tools->running = true;
    tools->started_ms = clock_mono_ms();
    if (r < 0) {
        log_error("start atoll-tools: %s", uv_strerror(r));
        uv_close((uv_handle_t *)&tools->process, on_process_closed);
    }
}

static int inner_open(struct tools_child *tools, struct err *err)
{
    const struct http_server_options options = {
        .loop = tools->options.loop,
        .on_request = tools->options.on_request,
        .ctx = tools->options.ctx,
        .idle_timeout_ms = IDLE_MS,
        .header_timeout_ms = IDLE_MS,
    };
    int r = http_server_new(&options, &tools->inner, err);

    if (r < 0) {
        return r;
    }
    int fd = unix_listen(tools->options.paths->api_socket, err);
    return fd < 0 ? fd : http_server_listen_fd(tools->inner, fd, NULL, err);
}

int tools_child_new(const struct tools_child_options *options, struct tools_child **out,
                    struct err *err)
{
    struct tools_child *tools = xnew(struct tools_child);

    tools->options = *options;
    tools->way = (struct tools_forward){
        .loop = options->loop, .api = options->api, .socket = options->paths->tools_socket};
    tools->listen_fd = -1;
    (void)uv_timer_init(options->loop, &tools->restart);
    tools->restart.data = tools;
    *out = tools;
    if (!options->paths->tools[0]) {
        return err_set(err, ENOENT, "atoll-tools is not beside this program");
    }
    int r = inner_open(tools, err);
    if (r == 0) {
        tools->listen_fd = r = unix_listen(options->paths->tools_socket, err);
    }
    if (r >= 0) {
        start(tools);
    }
    return r < 0 ? r : 0;
}

bool tools_child_handle(struct tools_child *tools, struct http_exchange *ex)
{
    const struct http_request *req = http_request(ex);

    if (!tools_takes(req->method, req->path)) {
        return false;
    }
    if (tools->stopping) {
        tools_refuse(ex, "the daemon is stopping");
    } else if (!tools->running) {
        tools_refuse(ex, "the tools are being started again: try again in a moment");
    } else {
        tools_forward(&tools->way, ex);
    }
    return true;
}

/* ---- stopping ---- */

void tools_child_stop(struct tools_child *tools, void (*done)(void *ctx), void *ctx)
{
    tools->stopping = true;
    tools->done = done;
    tools->ctx = ctx;
    if (!tools->running) {
        inner_stop(tools);
    } else if (!uv_is_closing((uv_handle_t *)&tools->process)) {
        (void)uv_process_kill(&tools->process, SIGTERM);
    }
}

void tools_child_hurry(struct tools_child *tools)
{
    if (tools->running && !uv_is_closing((uv_handle_t *)&tools->process)) {
        (void)uv_process_kill(&tools->process, SIGKILL);
    }
}

void tools_child_free(struct tools_child *tools)
{
    if (tools && tools->running) {
        tools->freed = true;
        tools_child_hurry(tools);
    } else if (tools) {
        finish(tools);
    }
}
