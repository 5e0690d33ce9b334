/* main.c - atoll-interpreter: runs code in kernels, over HTTP, inside a sandbox. */
#include <getopt.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inside/interpreter/interpreter.h"
#include "lib/base/compiler.h"
#include "lib/base/log.h"
#include "lib/http/server.h"

enum {
    START_S_MAX = 60,
    IDLE_TIMEOUT_MS = 640 * 1000, /* longer than any proxy's in front */
    CONNECTIONS_MAX = 1000,
    ARENAS_MAX = 1,
    TRIM_BYTES = 256 * 1024,
};

static const char usage[] =
    "usage: atoll-interpreter [--listen ADDRESS:PORT] [--kernels DIR] [--run DIR] [--cwd DIR]\n"
    "                         [--agent-port PORT] [--boot-id FILE] [--warm LANGUAGE,...]\n"
    "                         [--start-limit SECONDS]\n"
    "Serves POST /execute and /contexts; --warm names what is started before it is asked for.\n";

struct settings {
    const char *listen;
    const char *warm_languages[16];
    struct interpreter_options options;
};

static int warm_languages_read(struct settings *settings, char *list)
{
    size_t n = 0;
    char *rest = NULL;

    for (char *name = strtok_r(list, ",", &rest); name; name = strtok_r(NULL, ",", &rest)) {
        if (n + 1 == countof(settings->warm_languages)) {
            return -1;
        }
        settings->warm_languages[n++] = name;
    }
    settings->warm_languages[n] = NULL;
    return 0;
}

static int arguments_read(int argc, char **argv, struct settings *settings)
{
    static const struct option names[] = {
        {"listen", required_argument, NULL, 'l'},
        {"kernels", required_argument, NULL, 'k'},
        {"run", required_argument, NULL, 'r'},
        {"cwd", required_argument, NULL, 'c'},
        {"agent-port", required_argument, NULL, 'a'},
        {"warm", required_argument, NULL, 'w'},
        {"boot-id", required_argument, NULL, 'b'},
        {"start-limit", required_argument, NULL, 's'},
        {NULL, 0, NULL, 0},
    };
    int option, r = 0;

    while (r == 0 && (option = getopt_long(argc, argv, "", names, NULL)) >= 0) {
        switch (option) {
        case 'l':
            settings->listen = optarg;
            break;
        case 'k':
            settings->options.kernels_dir = optarg;
            break;
        case 'r':
            settings->options.run_dir = optarg;
            break;
        case 'c':
            settings->options.cwd = optarg;
            break;
        case 'a':
            settings->options.agent_port = (int)strtol(optarg, NULL, 10);
            break;
        case 's':
            settings->options.start_s_max = (int)strtol(optarg, NULL, 10);
            break;
        case 'b':
            settings->options.boot_id_file = optarg;
            break;
        case 'w':
            r = warm_languages_read(settings, optarg);
            break;
        default:
            r = -1;
            break;
        }
    }
    return optind < argc || !strchr(settings->listen, ':') ? -1 : r;
}

/* Every sandbox pays for its memory: one arena, given back early. CRIU cannot checkpoint
 * io_uring. */
static void memory_spare(void)
{
    (void)mallopt(M_ARENA_MAX, ARENAS_MAX);
    (void)mallopt(M_TRIM_THRESHOLD, TRIM_BYTES);
    (void)setenv("UV_USE_IO_URING", "0", 1);
}

static void on_signal(uv_signal_t *handle, int signum)
{
    (void)signum;
    uv_stop(handle->loop);
}

static void end_on_signals(uv_loop_t *loop)
{
    static uv_signal_t handles[2];
    static const int signals[] = {SIGTERM, SIGINT};

    for (size_t i = 0; i < countof(signals); i++) {
        (void)uv_signal_init(loop, &handles[i]);
        (void)uv_signal_start(&handles[i], on_signal, signals[i]);
        uv_unref((uv_handle_t *)&handles[i]);
    }
}

static void on_stopped(void *server)
{
    http_server_free(server);
}

/* Kills the kernels, and waits until they have ended. */
static void end(struct interpreter *interpreter, struct http_server *server, uv_loop_t *loop)
{
    interpreter_free(interpreter);
    if (server) {
        http_server_stop(server, 0, on_stopped, server);
    }
    (void)uv_run(loop, UV_RUN_DEFAULT);
}

static int serve(const struct settings *settings)
{
    uv_loop_t *loop = settings->options.loop;
    struct http_server *server = NULL;
    struct err err;
    struct interpreter *interpreter = interpreter_new(&settings->options);
    (void)unsetenv("ATOLL_KEPT"); /* kernels that are started from now on are waited for */
    struct http_server_options options = {
        .loop = loop,
        .on_request = interpreter_request,
        .ctx = interpreter,
        .connections_max = CONNECTIONS_MAX,
        .idle_timeout_ms = IDLE_TIMEOUT_MS,
    };
    if (http_server_new(&options, &server, &err) < 0 ||
        http_server_listen(server, settings->listen, NULL, &err) < 0) {
        log_error("%s", err.msg);
        end(interpreter, server, loop);
        return 1;
    }
    (void)printf("%.*s:%d\n", (int)(strrchr(settings->listen, ':') - settings->listen),
                 settings->listen, http_server_port(server));
    (void)fflush(stdout);
    (void)uv_run(loop, UV_RUN_DEFAULT);
    end(interpreter, server, loop);
    return 0;
}

int main(int argc, char **argv)
{
    static struct settings settings = {
        .listen = "0.0.0.0:49999",
        .warm_languages = {"python", "javascript"},
        .options =
            {
                .kernels_dir = "/usr/lib/atoll/kernels",
                .run_dir = "/run/atoll-interpreter",
                .cwd = "/home/user",
                .boot_id_file = "/proc/sys/kernel/random/boot_id",
                .agent_port = 49983,
                .start_s_max = START_S_MAX,
            },
    };
    struct sigaction ignore = {.sa_handler = SIG_IGN};

    if (arguments_read(argc, argv, &settings) < 0) {
        (void)fputs(usage, stderr);
        return 2;
    }
    memory_spare();
    log_init("interpreter", LOG_INFO);
    (void)sigaction(SIGPIPE, &ignore, NULL);
    settings.options.loop = uv_default_loop();
    settings.options.warm_languages = settings.warm_languages;
    end_on_signals(settings.options.loop);
    return serve(&settings);
}
