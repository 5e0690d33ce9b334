/* main.c - atoll-agent: pid 1 of a jail.
 *
 * In a jail it inherits the channel's listening socket and serves its own port on both loopback
 * addresses. By hand, for tests, `atoll-agent --listen 127.0.0.1:0` serves that address; it prints
 * the address it got on one line. Started under the name of the unpacker or of `tar`, it is the
 * unpacker or CRIU's tar: a jail needs only one program.
 */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "inside/agent/alone.h"
#include "inside/agent/internal.h"
#include "inside/agent/journal.h"
#include "inside/agent/process.h"
#include "inside/stow/stow.h"
#include "inside/unpack/unpack.h"
#include "lib/base/alloc.h"
#include "lib/base/log.h"
#include "wire/channel.h"

enum {
    CONNECTIONS_MAX = 2000,
    IDLE_TIMEOUT_MS = 640 * 1000, /* longer than any proxy's in front */
    ARENAS_MAX = 2,
    TRIM_BYTES = 256 * 1024,
    NOFILE_MAX = 65536,
};

#define POOL_THREADS "2" /* that file calls run on; each costs every sandbox, used or not */

static const char usage[] = "usage: atoll-agent [--listen ADDRESS:PORT]\n"
                            "The first process of a sandbox. With --listen it serves that address "
                            "alone, for tests.\n";

/* Every sandbox pays for the agent's memory: few arenas, memory given back early, no io_uring. */
static void memory_spare(void)
{
    (void)mallopt(M_ARENA_MAX, ARENAS_MAX);
    (void)mallopt(M_TRIM_THRESHOLD, TRIM_BYTES);
    (void)setenv("UV_USE_IO_URING", "0", 1);
    (void)setenv("UV_THREADPOOL_SIZE", POOL_THREADS, 1);
}

/* Descriptors 0 to 2 exist whatever we were started with, so that none of ours becomes one. */
static void stdio_ensure(void)
{
    int fd;

    do {
        fd = open("/dev/null", O_RDWR);
    } while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0) {
        (void)close(fd);
    }
}

/* Ends the jail when the host shuts down: its service manager sends SIGTERM to every process, and
 * waits for those that stay. A sender outside of the pid namespace has no pid here. */
static void on_shutdown(int signum, siginfo_t *info, void *context)
{
    (void)signum, (void)context;
    if (info->si_code == SI_USER && info->si_pid == 0) {
        _exit(0);
    }
}

/* The agent must survive clients that leave and stray signals from within the jail: the kernel
 * shields pid 1 only from signals it has no handler for. */
static void signals_set(void)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    struct sigaction shutdown = {.sa_sigaction = on_shutdown, .sa_flags = SA_SIGINFO | SA_RESTART};
    static const int ignored[] = {SIGPIPE, SIGHUP, SIGINT, SIGQUIT};
    size_t n = getpid() == 1 ? countof(ignored) : 1;

    for (size_t i = 0; i < n; i++) {
        (void)sigaction(ignored[i], &ignore, NULL);
    }
    if (getpid() == 1) {
        (void)sigaction(SIGTERM, &shutdown, NULL);
    }
}

static void nofile_raise(struct agent *agent)
{
    struct rlimit raised;

    (void)getrlimit(RLIMIT_NOFILE, &agent->nofile);
    raised = agent->nofile;
    raised.rlim_cur = raised.rlim_max < NOFILE_MAX ? raised.rlim_max : NOFILE_MAX;
    (void)setrlimit(RLIMIT_NOFILE, &raised);
}

static bool is_listening_channel(int fd)
{
    int type = 0;
    int listening = 0;
    socklen_t len = sizeof(type);

    return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0 && type == SOCK_SEQPACKET &&
           getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &len) == 0 && listening;
}

static int channel_open(struct agent *agent, struct err *err)
{
    if (!is_listening_channel(CHANNEL_LISTEN_FD)) {
        return 0;
    }
    (void)fcntl(CHANNEL_LISTEN_FD, F_SETFD, FD_CLOEXEC);
    (void)fcntl(CHANNEL_LISTEN_FD, F_SETFL, O_NONBLOCK);
    return channel_new(agent, CHANNEL_LISTEN_FD, &agent->channel, err);
}

static int listen_on(struct agent *agent, const char *address, struct err *err)
{
    int r = http_server_listen(agent->server, address, NULL, err);

    if (r == 0) {
        (void)printf("%.*s:%d\n", (int)(strrchr(address, ':') - address), address,
                     http_server_port(agent->server));
        (void)fflush(stdout);
    }
    return r;
}

/* The jail may have no IPv6, and another service may hold the port: the agent serves the channel in
 * any case. */
static int listen_in_jail(struct agent *agent, struct err *err)
{
    static const char *const addresses[] = {"127.0.0.1:49983", "[::1]:49983"};

    for (size_t i = 0; i < countof(addresses); i++) {
        if (http_server_listen(agent->server, addresses[i], NULL, err) < 0) {
            log_debug("%s", err->msg);
        }
    }
    return agent->channel
               ? 0
               : err_set(err, ENOTSOCK, "there is no channel at descriptor %d", CHANNEL_LISTEN_FD);
}

static void pool_work(uv_work_t *work)
{
    (void)work;
}

static void pool_worked(uv_work_t *work, int status)
{
    (void)work, (void)status;
}

/* libuv starts its threads with the first job, and aborts when it cannot. Later the sandbox may be
 * at its process limit; now there is room. */
static int pool_start(struct agent *agent, struct err *err)
{
    static uv_work_t work;
    int r = uv_queue_work(agent->loop, &work, pool_work, pool_worked);

    return r < 0 ? err_set(err, -r, "start the threads for file calls: %s", uv_strerror(r)) : 0;
}

/* Clients ask with Stat whether a file is there, so "no" is an answer and no fault. */
static bool is_answer(const char *path, const char *code)
{
    return strcmp(path, "/filesystem.Filesystem/Stat") == 0 && strcmp(code, "not_found") == 0;
}

static void on_rpc_failed(const char *path, const char *code, const char *message)
{
    json_t *fields = json_object();
    const enum log_level level = is_answer(path, code) ? LOG_DEBUG : LOG_WARN;

    journal_text(fields, "operation", str_of(path));
    journal_text(fields, "code", str_of(code));
    journal_write(level, "rpc", "rpc_error", fields, "%s: %s", path, message);
}

static int agent_start(struct agent *agent, const char *address, struct err *err)
{
    struct http_server_options options = {
        .loop = agent->loop,
        .on_request = agent_request,
        .ctx = agent,
        .connections_max = CONNECTIONS_MAX,
        .idle_timeout_ms = IDLE_TIMEOUT_MS,
        .adopted_may_wait = true, /* the daemon makes some before it needs them */
    };
    rpc_observe(on_rpc_failed);
    int r = pool_start(agent, err);

    if (r == 0) {
        r = http_server_new(&options, &agent->server, err);
    }
    if (r == 0) {
        r = processes_new(agent, &agent->processes, err);
    }
    if (r == 0) {
        r = channel_open(agent, err);
    }
    if (r < 0) {
        return r;
    }
    return address ? listen_on(agent, address, err) : listen_in_jail(agent, err);
}

static int arguments_read(int argc, char **argv, const char **address)
{
    *address = NULL;
    if (argc == 3 && strcmp(argv[1], "--listen") == 0 && strchr(argv[2], ':')) {
        *address = argv[2];
        return 0;
    }
    return argc == 1 ? 0 : -EINVAL;
}

static void on_sigterm(uv_signal_t *handle, int signum)
{
    (void)signum;
    uv_stop(handle->loop);
}

/* Started by hand, the agent ends on SIGTERM by returning from main(), so that a sanitizer can find
 * leaks. Pid 1 ends with its jail. */
static void end_on_sigterm(uv_loop_t *loop)
{
    static uv_signal_t handle;

    if (getpid() != 1 && uv_signal_init(loop, &handle) == 0) {
        (void)uv_signal_start(&handle, on_sigterm, SIGTERM);
    }
}

int main(int argc, char **argv)
{
    static struct agent agent = {.output_kept_bytes = PROCESS_OUTPUT_KEPT_DEFAULT};
    const char *address;
    struct err err;

    if (argc == 1 && strcmp(argv[0], UNPACK_PROGRAM) == 0) {
        return unpack_main(STDIN_FILENO);
    }
    if (argc > 1 && strcmp(argv[0], CHANNEL_TAR_PROGRAM) == 0) {
        return stow_main(argc, argv);
    }
    if (arguments_read(argc, argv, &address) < 0) {
        (void)fputs(usage, stderr);
        return 2;
    }
    privacy_keep(true);
    memory_spare();
    stdio_ensure();
    log_init("agent", LOG_INFO);
    signals_set();
    nofile_raise(&agent);
    alone_begin(&agent);
    (void)umask(022);
    agent.loop = uv_default_loop();
    agent.default_user = xstrdup("root");
    agent.default_workdir = xstrdup("");
    if (agent_start(&agent, address, &err) < 0) {
        log_error("%s", err.msg);
        return 1;
    }
    end_on_sigterm(agent.loop);
    (void)uv_run(agent.loop, UV_RUN_DEFAULT);
    return 0;
}
