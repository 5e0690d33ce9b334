/* port.c - forwards ports of this machine into a sandbox. */
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cli/session.h"
#include "cli/tunnel.h"
#include "lib/base/clock.h"
#include "lib/base/fd.h"

enum {
    PORTS_MAX = 32,
    BACKLOG = 128,
    ALIVE_S = 60, /* the sandbox does not end while its ports are forwarded */
    ALIVE_MS = ALIVE_S * 1000 / 3,
    PORT_MAX = 65535,
    SERVICE_BYTES = 8,
};

struct forwarding {
    int listener;
    uint16_t local, remote;
};

/* ---- arguments ---- */

static bool number_read(const char *text, size_t len, uint16_t *out)
{
    char digits[SERVICE_BYTES];

    if (!str_copy(digits, sizeof(digits), (struct str){text, len}) || !digits[0] ||
        digits[strspn(digits, "0123456789")]) {
        return false;
    }
    long number = strtol(digits, NULL, 10);
    *out = (uint16_t)number;
    return number <= PORT_MAX;
}

/* "8000", "9000:8000", "0:8000": any free port. */
static bool pair_read(const char *text, struct forwarding *out)
{
    const char *colon = strchr(text, ':'), *remote = colon ? colon + 1 : text;
    size_t len = colon ? (size_t)(colon - text) : strlen(text);

    return number_read(text, len, &out->local) &&
           number_read(remote, strlen(remote), &out->remote) && out->remote > 0;
}

/* ---- listening ---- */

static uint16_t port_of(int fd)
{
    struct sockaddr_storage name = {0};
    socklen_t size = sizeof(name);
    char service[NI_MAXSERV];

    if (getsockname(fd, (struct sockaddr *)&name, &size) < 0 ||
        getnameinfo((struct sockaddr *)&name, size, NULL, 0, service, sizeof(service),
                    NI_NUMERICSERV) != 0) {
        return 0;
    }
    return (uint16_t)strtol(service, NULL, 10);
}

static int listen_on(const char *address, struct forwarding *f, struct err *err)
{
    struct addrinfo wanted = {.ai_flags = AI_PASSIVE | AI_NUMERICHOST, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    char service[SERVICE_BYTES];
    int one = 1;

    (void)snprintf(service, sizeof(service), "%u", f->local);
    if (getaddrinfo(address, service, &wanted, &found) != 0) {
        return err_set(err, EINVAL, "'%.64s' is not an address of this machine", address);
    }
    scoped_fd fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int r = fd < 0 ? -1 : setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    r = r < 0 ? r : bind(fd, found->ai_addr, found->ai_addrlen);
    r = r < 0 ? r : listen(fd, BACKLOG);
    if (r < 0) {
        r = err_sys(err, "listen on %s port %u", address, f->local);
    }
    freeaddrinfo(found);
    if (r < 0) {
        return r;
    }
    f->local = port_of(fd);
    f->listener = move_fd(&fd);
    return 0;
}

/* ---- until a signal ---- */

static void tell(const struct cli *cli, const char *address, const struct forwarding *f)
{
    if (cli->json) {
        scoped_json *row = json_pack("{sssisi}", "address", address, "local", (int)f->local,
                                     "remote", (int)f->remote);
        cli_print_json(row);
    } else if (cli->quiet) {
        printf("%u\n", f->local);
    } else {
        printf("%s:%u -> %u\n", address, f->local, f->remote);
    }
    (void)fflush(stdout);
}

/* The sandbox may be gone: the next connection says so, and this tells it first. */
static int alive_keep(const struct link *link, int64_t *due_ms, struct err *err)
{
    if (clock_mono_ms() < *due_ms) {
        return 0;
    }
    *due_ms = clock_mono_ms() + ALIVE_MS;
    int r = link_extend(link, ALIVE_S, err);
    return r == -CALL_NOT_FOUND ? r : 0; /* a daemon that restarts is back by the next time */
}

static int serve(struct link *link, struct forwarding *list, int n, int signals, struct err *err)
{
    struct pollfd fds[PORTS_MAX + 1] = {{.fd = signals, .events = POLLIN}};
    int64_t due_ms = 0;
    int r = 0;

    for (int i = 0; i < n; i++) {
        fds[i + 1] = (struct pollfd){.fd = list[i].listener, .events = POLLIN};
    }
    while ((r = alive_keep(link, &due_ms, err)) == 0) {
        if (poll(fds, (nfds_t)n + 1, ALIVE_MS) < 0 && errno != EINTR) {
            return err_sys(err, "wait for connections");
        }
        struct signalfd_siginfo info;
        if (read(signals, &info, sizeof(info)) == (ssize_t)sizeof(info) &&
            info.ssi_signo != SIGWINCH) {
            return 0;
        }
        for (int i = 0; i < n; i++) {
            int fd = fds[i + 1].revents ? accept4(list[i].listener, NULL, NULL, SOCK_CLOEXEC) : -1;
            if (fd >= 0) {
                tunnel_start(link, list[i].remote, fd);
            }
        }
    }
    return r;
}

static int port_run(struct cli *cli)
{
    static struct link link; /* threads of connections may outlive this frame */
    const char *address = cli_option(cli, "--address");
    struct forwarding list[PORTS_MAX] = {0};
    struct remote_signals signals = {.fd = -1};
    int n = cli->words_n - 1;
    struct err err;

    address = address ? address : "127.0.0.1";
    for (int i = 0; i < n; i++) {
        list[i].listener = -1;
        if (!pair_read(cli->words[i + 1], &list[i])) {
            return cli_usage(cli, "'%.32s' is not of the form [LOCAL:]REMOTE", cli->words[i + 1]);
        }
    }
    int r = session_link(cli, cli->words[0], LINK_RESUMED_S, &link, &err);
    r = r < 0 ? r : remote_signals_open(&signals, &err);
    for (int i = 0; r == 0 && i < n; i++) {
        r = listen_on(address, &list[i], &err);
    }
    for (int i = 0; r == 0 && i < n; i++) {
        tell(cli, address, &list[i]);
    }
    if (r == 0 && isatty(STDERR_FILENO) && !cli->json && !cli->quiet) {
        (void)fprintf(stderr, "Forwarding into %s. End with Ctrl-C.\n", link.id);
    }
    r = r < 0 ? r : serve(&link, list, n, signals.fd, &err);
    int code = cli_result(r, &err);
    (void)fflush(stdout);
    _exit(code); /* connections are still under way, on libraries that exit() would take down */
}

static const struct option port_options[] = {
    {.name = "--address", .value = "ADDRESS", .help = "listen there (default: 127.0.0.1)"},
    {.name = NULL},
};

const struct command row_port = {
    .name = "port",
    .args = "ID [LOCAL:]REMOTE...",
    .summary = "forwards local ports to ports of a sandbox, until Ctrl-C",
    .run = port_run,
    .group = GROUP_SANDBOXES,
    .bits = COMMAND_JSON | COMMAND_QUIET,
    .words_min = 2,
    .words_max = PORTS_MAX + 1,
    .takes = TAKES_SANDBOX,
    .options = port_options,
    .about = "\nWorks for every protocol over TCP: HTTP, databases, ssh. Services that listen\n"
             "on 127.0.0.1 inside are reached too. LOCAL 0 takes any free port and prints it\n"
             "(-q: nothing but it).\n"
             "Everybody who can reach the local port reaches the service: it listens on this\n"
             "machine alone unless --address says otherwise. The sandbox does not reach its\n"
             "timeout meanwhile.",
    .examples = "atoll port i0123456789abcdefghij 8000\n"
                "atoll port i0123456789abcdefghij 15432:5432 8080:80",
};
