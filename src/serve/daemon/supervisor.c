#include "serve/daemon/supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "keeper/disk/pool.h"
#include "lib/base/clock.h"
#include "lib/base/fd.h"
#include "lib/base/log.h"
#include "lib/http/server.h"
#include "serve/daemon/builtin.h"
#include "serve/daemon/drop.h"
#include "serve/daemon/egress_wiring.h"
#include "serve/daemon/lock.h"
#include "serve/daemon/prepare_host.h"
#include "serve/daemon/restart.h"
#include "serve/daemon/serve.h"
#include "serve/daemon/stop.h"
#include "serve/daemon/template_preparer.h"
#include "serve/daemon/tls_address.h"
#include "wire/keeper.h"

enum {
    LOCK_WAIT_MS = 2000, /* a predecessor that was killed needs a moment to be gone */
    STOP_WAIT_MS = 8000, /* longer than the server's own grace */
    PORT_POLL_MS = 50,
    PREPARER_NICE = 10,
};

#define OTHER_DAEMON                                                                               \
    "another daemon serves %s already: stop it, or name another directory with --data"

struct supervisor {
    const struct config *config;
    const struct paths *paths;
    const char *program;
    struct server_user who;
    pid_t pid; /* ours: a child whose parent is another one by now must end */
    sigset_t signals;
    bool stopping;
    int64_t stop_deadline_ms;
    int exit_code;
    struct child {
        const char *name;
        void (*main)(struct supervisor *sv, bool first);
        pid_t pid; /* 0: not running */
        unsigned starts;
        unsigned crashes; /* in a row */
        int64_t started_ms;
        int64_t due_ms; /* while not running: when it is started again */
    } children[3];
};

enum { SERVER, KEEPER, PREPARER };

/* ---- inside the children ---- */

/* Its own session: a terminal's Ctrl-C reaches the supervisor alone, which ends us in order. */
static void child_begin(void)
{
    sigset_t none;

    (void)setsid();
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

/* The server may write to the terminal that it was started from, and not read what is typed there:
 * a terminal's descriptors are for both, so they are opened anew. */
static int terminal_only_write(struct err *err)
{
    char path[32];
    scoped_fd null = open("/dev/null", O_RDONLY | O_CLOEXEC);

    if (null < 0 || dup2(null, STDIN_FILENO) < 0) {
        return err_sys(err, "open /dev/null");
    }
    for (int at = STDOUT_FILENO; at <= STDERR_FILENO; at++) {
        if (!isatty(at)) {
            continue;
        }
        (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", at);
        scoped_fd fd = open(path, O_WRONLY | O_NOCTTY | O_CLOEXEC);
        if (fd < 0 || dup2(fd, at) < 0) {
            return err_sys(err, "open the terminal for writing");
        }
    }
    return 0;
}

/* Comes after every change of credentials, because those clear it. */
static void die_with_parent(const struct supervisor *sv, int signal_number)
{
    (void)prctl(PR_SET_PDEATHSIG, signal_number);
    if (getppid() != sv->pid) {
        _exit(1);
    }
}

/* A server that was told to take any free port takes the one its predecessor had: its clients know
 * that one. The file is the server's own, so nothing but a port is believed. */
static void keep_port(const struct paths *paths, struct config *config)
{
    char url[CONFIG_TEXT_BYTES];
    struct err err;
    char *port = strrchr(config->listen, ':');

    if (!port || strcmp(port, ":0") != 0 ||
        server_file_read_url(paths, url, sizeof(url), &err) < 0 || !url[0]) {
        return;
    }
    (void)snprintf(port, sizeof(config->listen) - (size_t)(port - config->listen), "%s",
                   strrchr(url, ':'));
}

/* The server's user may be unable to reach the programs, for example in a checkout below /root. So
 * root opens atoll-tools first, and the server starts it by its descriptor. */
static void tools_keep(struct paths *paths)
{
    int fd = open(paths->tools, O_PATH | O_CLOEXEC);

    if (fd >= 0) {
        (void)snprintf(paths->tools, sizeof(paths->tools), "/proc/self/fd/%d", fd);
    }
}

static _Noreturn void server_main(struct supervisor *sv, bool first)
{
    struct config config = *sv->config;
    struct paths paths = *sv->paths;
    struct listeners listeners = LISTENERS_NONE;
    struct err err;

    child_begin();
    (void)prctl(PR_SET_NAME, "atoll-serve");
    tools_keep(&paths);
    if (terminal_only_write(&err) < 0 || listeners_open(&config, &listeners, &err) < 0 ||
        drop_privileges(&sv->who, &err) < 0) {
        log_error("%s", err.msg);
        _exit(1);
    }
    die_with_parent(sv, SIGKILL);
    if (!first) {
        keep_port(sv->paths, &config);
    }
    exit(serve_run(&config, &paths, sv->program, &listeners, first));
}

/* A program of its own, so that the process that forks jails is small and is seen for what it is.
 */
static _Noreturn void keeper_exec(struct supervisor *sv, bool first)
{
    static char name[] = "atoll";
    static char command[] = "keeper";
    char *argv[2 + CONFIG_ARGV_MAX + 1] = {name, command};

    (void)first;
    child_begin();
    die_with_parent(sv, SIGTERM);
    int n = config_argv(sv->config, argv + 2);
    argv[2 + n] = NULL;
    (void)execv("/proc/self/exe", argv);
    log_error("start the keeper: %s", strerrordesc_np(errno));
    _exit(1);
}

/* Ends when every template is ready. Has a lower priority than the server. */
static _Noreturn void template_preparer_main(struct supervisor *sv, bool first)
{
    (void)first;
    child_begin();
    (void)prctl(PR_SET_NAME, "atoll-prepare");
    (void)setpriority(PRIO_PROCESS, 0, PREPARER_NICE);
    die_with_parent(sv, SIGKILL);
    exit(template_preparer_run(sv->config, sv->paths));
}

/* ---- the children from outside ---- */

static void child_start(struct supervisor *sv, struct child *child)
{
    bool first = child->starts++ == 0;
    pid_t pid = fork();

    if (pid == 0) {
        child->main(sv, first); /* does not return */
    }
    if (pid < 0) {
        log_error("start the %s: %s", child->name, strerrordesc_np(errno));
        child->due_ms = clock_mono_ms() + RESTART_MAX_MS;
        return;
    }
    child->pid = pid;
    child->started_ms = clock_mono_ms();
}

static void child_signal(const struct child *child, int signal_number)
{
    if (child->pid > 0) {
        (void)kill(child->pid, signal_number);
    }
}

/* The server first: it finishes its exchanges while the keeper is still there. */
static void stop(struct supervisor *sv, int exit_code)
{
    child_signal(&sv->children[PREPARER], sv->stopping ? SIGKILL : SIGTERM);
    if (sv->stopping) {
        child_signal(&sv->children[SERVER], SIGKILL);
        child_signal(&sv->children[KEEPER], SIGTERM);
        return;
    }
    sv->stopping = true;
    sv->exit_code = exit_code;
    sv->stop_deadline_ms = clock_mono_ms() + STOP_WAIT_MS;
    child_signal(&sv->children[sv->children[SERVER].pid ? SERVER : KEEPER], SIGTERM);
}

static void child_crashed(struct child *child, int status)
{
    int64_t now_ms = clock_mono_ms();

    child->crashes = now_ms - child->started_ms > RESTART_HEALTHY_MS ? 0 : child->crashes + 1;
    child->due_ms = now_ms + restart_delay_ms(child->crashes);
    if (WIFSIGNALED(status)) {
        log_error("the %s was ended by signal %d; starting it again", child->name,
                  WTERMSIG(status));
    } else {
        log_error("the %s ended with status %d; starting it again", child->name,
                  WEXITSTATUS(status));
    }
}

static void child_ended(struct supervisor *sv, struct child *child, int status)
{
    bool exited = WIFEXITED(status);
    bool is_server = child == &sv->children[SERVER];

    child->pid = 0;
    if (sv->stopping) {
        if (is_server) {
            child_signal(&sv->children[KEEPER], SIGTERM);
        }
    } else if (exited && child == &sv->children[PREPARER]) {
        child->due_ms = INT64_MAX; /* all is made */
    } else if (exited && (child->starts == 1 || (is_server && WEXITSTATUS(status) == 0))) {
        stop(sv, WEXITSTATUS(status));
    } else {
        child_crashed(child, status);
    }
}

static void reap(struct supervisor *sv)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        for (size_t i = 0; i < countof(sv->children); i++) {
            if (sv->children[i].pid == pid) {
                child_ended(sv, &sv->children[i], status);
            }
        }
    }
}

/* ---- the loop ---- */

/* Starts the children that are due; returns the time until the next is. */
static int64_t start_due(struct supervisor *sv)
{
    int64_t now_ms = clock_mono_ms();
    int64_t next_ms = now_ms + RESTART_MAX_MS;

    if (sv->stopping) {
        if (now_ms >= sv->stop_deadline_ms) {
            child_signal(&sv->children[SERVER], SIGKILL);
            child_signal(&sv->children[KEEPER], SIGKILL);
            child_signal(&sv->children[PREPARER], SIGKILL);
        }
        return RESTART_FIRST_MS;
    }
    for (size_t i = 0; i < countof(sv->children); i++) {
        struct child *child = &sv->children[i];
        if (child->pid == 0 && child->due_ms <= now_ms) {
            child_start(sv, child);
        } else if (child->pid == 0 && child->due_ms < next_ms) {
            next_ms = child->due_ms;
        }
    }
    return next_ms - now_ms;
}

static bool is_empty(const struct supervisor *sv)
{
    return !sv->children[SERVER].pid && !sv->children[KEEPER].pid && !sv->children[PREPARER].pid;
}

static int supervise(struct supervisor *sv)
{
    while (!sv->stopping || !is_empty(sv)) {
        int64_t wait_ms = start_due(sv);
        struct timespec wait = {.tv_sec = wait_ms / 1000, .tv_nsec = wait_ms % 1000 * 1000000};
        int number = sigtimedwait(&sv->signals, NULL, &wait);
        if (stop_is(number)) {
            stop(sv, 0);
        }
        reap(sv);
    }
    return sv->exit_code;
}

static int serve_lock_take(const struct config *config, const struct paths *paths)
{
    struct err err;

    int fd = lock_take(paths->serve_lock, LOCK_WAIT_MS, &err);
    if (fd == -EBUSY) {
        log_error(OTHER_DAEMON, config->data);
    } else if (fd == -EACCES) {
        log_error("%s belongs to another user: run this as root, or name another directory with "
                  "--data",
                  config->data);
    } else if (fd < 0) {
        log_error("%s", err.msg);
    }
    return fd;
}

/* ---- before and after ---- */

static int port_check(const char *flag, const char *address, struct err *err)
{
    const struct timespec pause = {.tv_nsec = PORT_POLL_MS * 1000000L};
    int64_t deadline_ms = clock_mono_ms() + LOCK_WAIT_MS;
    bool open = address[0] && strcmp(address, CONFIG_AUTO_TEXT) != 0;
    int r = open ? http_address_check(address, err) : 0;

    while (r == -EADDRINUSE && clock_mono_ms() < deadline_ms && !stop_asked()) {
        (void)nanosleep(&pause, NULL);
        r = http_address_check(address, err);
    }
    if (r == -EADDRINUSE) {
        return err_set(err, EADDRINUSE,
                       "another program listens on %s: name another address with %s", address,
                       flag);
    }
    return r < 0 ? err_wrap(err, "%s", flag) : 0;
}

/* Checks now what would fail at the end, after minutes of preparation. */
static int ports_check(const struct config *config, const struct paths *paths,
                       const struct listeners *given, struct err *err)
{
    int r = given->plain < 0 ? port_check("--listen", config->listen, err) : 0;

    if (r == 0 && given->tls < 0) {
        r = port_check("--tls-listen", config->tls_listen, err);
    }
    if (r == -EADDRINUSE && lock_is_held(paths->serve_lock)) {
        return err_set(err, EBUSY, OTHER_DAEMON, config->data);
    }
    return r;
}

/* With no sandbox left, nothing of ours stays mounted. Needs the serve lock; another start that
 * prepares, or a keeper of its own, has the pool in use and keeps it. */
static void pool_put_away(const struct paths *paths)
{
    struct err err;
    scoped_fd lock = lock_take(paths->prepare_lock, 0, &err);
    scoped_fd layers = lock_take(paths->layers_lock, 0, &err);

    if (lock >= 0 && layers >= 0 && !lock_is_held(paths->keeper_lock)) {
        pool_unmount_empty(paths->pool);
    }
}

int supervisor_run(struct config *config, const struct paths *paths, const char *program)
{
    struct supervisor sv = {
        .config = config,
        .paths = paths,
        .program = program,
        .pid = getpid(),
        .children = {[SERVER] = {.name = "server", .main = server_main},
                     [KEEPER] = {.name = "keeper", .main = keeper_exec},
                     [PREPARER] = {.name = "preparer", .main = template_preparer_main}},
    };
    struct err err;

    log_init("serve", config->log_level);
    (void)fd_allow_most(); /* the server may not raise its own limit */
    stop_block(&sv.signals);
    int r = egress_wiring_check(config, &err);
    if (r == 0) {
        r = ports_check(config, paths, &LISTENERS_NONE, &err);
    }
    if (r == 0) {
        r = prepare_host(config, paths, &sv.who, &err);
    }
    if (r < 0) {
        log_error("%s", err.msg);
    }
    /* The server's too: it is forked with it. */
    scoped_fd lock = r < 0 ? lock_take(paths->serve_lock, 0, &err) : serve_lock_take(config, paths);
    if (lock < 0) {
        return 1;
    }
    notices_forget_awaited(paths);
    if (r == 0) {
        template_preparer_announce(config, paths);
        r = tls_address_choose(config, -1, &err);
        if (r < 0) {
            log_error("%s", err.msg);
        }
    }
    int exit_code = r < 0 ? 1 : supervise(&sv);
    pool_put_away(paths);
    return exit_code;
}

/* In the keeper's words 0 is for it to decide, and 1 for none beside it. */
static uint32_t keeper_workers(const struct config *config)
{
    const uint64_t n = config->keeper_workers;

    return n == CONFIG_AUTO ? 0 : n == 0 ? 1 : (uint32_t)n;
}

int supervisor_keeper(const struct config *config, const struct paths *paths)
{
    struct server_user who;
    struct err err;

    log_init("keeper", config->log_level);
    if (server_user_find(config->user, &who, &err) < 0) {
        log_error("%s: run `atoll prepare` first", err.msg);
        return 1;
    }
    if (!paths->agent[0]) {
        log_error("the agent is not beside this program: name it with --agent");
        return 1;
    }
    if (!paths->keeper[0]) {
        log_error("atoll-keeper is not beside this program");
        return 1;
    }
    scoped_fd lock = lock_take(paths->keeper_lock, LOCK_WAIT_MS, &err);
    if (lock < 0) {
        log_error("%s", lock == -EBUSY ? "another keeper runs for this data directory" : err.msg);
        return 1;
    }
    const struct keeper_options options = {
        .socket_path = paths->keeper_socket,
        .pool_path = paths->pool,
        .agent_path = paths->agent,
        .client_uid = who.uid,
        .client_gid = who.gid,
        .instance = paths->instance,
        .merge_pages = config->merge_pages,
        .bpf_figures = config->bpf_figures,
        .lazy_mb =
            config->lazy_resume_mb < UINT32_MAX ? (uint32_t)config->lazy_resume_mb : UINT32_MAX,
        .workers = keeper_workers(config),
        .log_level = config->log_level,
        .lock_fd = lock,
    };
    (void)!keeper_options_exec(paths->keeper, &options, &err);
    log_error("%s", err.msg);
    return 1;
}

int supervisor_unprivileged(struct config *config, const struct paths *paths, const char *program)
{
    char layers[KEEPER_LAYER_BYTES];
    struct err err;

    log_init("serve", config->log_level);
    if (notice_layers(paths, BUILTIN_BASE, layers, sizeof(layers), &err) < 0) {
        log_error("sandboxes need a keeper, which only root can start: run this as root, or start "
                  "atoll-keeper.service first");
        return 1;
    }
    scoped_fd lock = serve_lock_take(config, paths);
    if (lock < 0) {
        return 1;
    }
    scoped(listeners_closep) struct listeners listeners = LISTENERS_NONE;
    int r = listeners_inherit(&listeners, &err);
    if (r == 0) {
        r = ports_check(config, paths, &listeners, &err);
    }
    if (r == 0) {
        r = tls_address_choose(config, listeners.tls, &err);
    }
    if (r == 0) {
        r = listeners_open(config, &listeners, &err);
    }
    if (r < 0) {
        log_error("%s", err.msg);
        return 1;
    }
    return serve_run(config, paths, program, &listeners, true);
}
