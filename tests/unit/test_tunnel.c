/* The agent's tunnels to TCP ports: bytes both ways, ends, refusals. */
#include <poll.h>
#include <pthread.h>

#include "agent_fixture.h"
#include "check.h"
#include "lib/base/fd.h"

enum { BIG_BYTES = 8 * 1024 * 1024, MANY = 40 };

static struct agent_child agent;

static int listen_here(int family, int *port)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    bool six = family == AF_INET6;
    socklen_t size = six ? sizeof(v6) : sizeof(v4);
    struct sockaddr *name = six ? (void *)&v6 : (void *)&v4;
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (bind(fd, name, size) < 0 || listen(fd, MANY) < 0 || getsockname(fd, name, &size) < 0) {
        (void)close(fd);
        return -1;
    }
    *port = ntohs(six ? v6.sin6_port : v4.sin_port);
    return fd;
}

static void ask(struct client *c, const char *method, const char *path, const char *more)
{
    char head[512];
    int n = snprintf(head, sizeof(head), "%s %s HTTP/1.1\r\nHost: x\r\n%s\r\n", method, path, more);

    client_open(c, agent.port);
    client_write(c, head, (size_t)n);
}

#define UPGRADE "Connection: upgrade\r\nUpgrade: tcp\r\n"

/* The status, with the head taken off `in`. */
static int status_read(struct client *c)
{
    const char *end;

    while (
        !(end = buf_len(&c->in) ? memmem(buf_at(&c->in), buf_len(&c->in), "\r\n\r\n", 4) : NULL)) {
        if (!client_fill(c)) {
            return -1;
        }
    }
    int status = atoi(buf_at(&c->in) + 9);
    buf_consume(&c->in, (size_t)(end + 4 - buf_at(&c->in)));
    return status;
}

static int tunnel_to(struct client *c, int port)
{
    char path[32];

    (void)snprintf(path, sizeof(path), "/tcp/%d", port);
    ask(c, "GET", path, UPGRADE);
    return status_read(c);
}

static void bytes_go_both_ways(void)
{
    int port = 0;
    scoped_fd listener = listen_here(AF_INET, &port);
    char text[8] = "";
    scoped_client(c);

    CHECK_INT(tunnel_to(&c, port), 101);
    scoped_fd peer = accept(listener, NULL, NULL);
    client_write(&c, "\0ping", 5);
    CHECK_INT(recv(peer, text, 5, MSG_WAITALL), 5);
    CHECK_INT(memcmp(text, "\0ping", 5), 0);
    CHECK_INT(send(peer, "pong", 4, 0), 4);
    while (buf_len(&c.in) < 4 && client_fill(&c)) {
    }
    CHECK_INT(memcmp(buf_at(&c.in), "pong", 4), 0);
    /* Our end closes one direction; the other one goes on. */
    CHECK_INT(shutdown(c.fd, SHUT_WR), 0);
    CHECK_INT(recv(peer, text, sizeof(text), 0), 0);
    CHECK_INT(send(peer, "more", 4, 0), 4);
    (void)shutdown(peer, SHUT_WR);
    while (client_fill(&c)) {
    }
    CHECK_INT(buf_len(&c.in), 8);
}

static void *echo(void *ctx)
{
    int listener = *(int *)ctx;
    scoped_fd peer = accept(listener, NULL, NULL);
    static char chunk[65536];
    ssize_t n;

    while ((n = recv(peer, chunk, sizeof(chunk), 0)) > 0) {
        for (ssize_t sent = 0, m; sent < n; sent += m) {
            m = send(peer, chunk + sent, (size_t)(n - sent), MSG_NOSIGNAL);
            if (m <= 0) {
                return NULL;
            }
        }
    }
    return NULL;
}

static void *big_send(void *ctx)
{
    struct client *c = ctx;
    static char bytes[BIG_BYTES];

    for (size_t i = 0; i < sizeof(bytes); i++) {
        bytes[i] = (char)(i * 2654435761u >> 13);
    }
    client_write(c, bytes, sizeof(bytes));
    (void)shutdown(c->fd, SHUT_WR);
    return bytes;
}

static void a_slow_reader_stops_the_writer(void)
{
    int port = 0;
    int listener = listen_here(AF_INET, &port);
    pthread_t service, sender;
    void *bytes = NULL;
    scoped_client(c);

    CHECK_INT(pthread_create(&service, NULL, echo, &listener), 0);
    CHECK_INT(tunnel_to(&c, port), 101);
    CHECK_INT(pthread_create(&sender, NULL, big_send, &c), 0);
    (void)usleep(100 * 1000); /* all windows are full by now; no check depends on it */
    while (client_fill(&c)) {
    }
    (void)pthread_join(sender, &bytes);
    (void)pthread_join(service, NULL);
    (void)close(listener);
    CHECK_INT(buf_len(&c.in), BIG_BYTES);
    CHECK_INT(memcmp(buf_at(&c.in), bytes, BIG_BYTES), 0);
}

static void services_on_ipv6_are_found(void)
{
    int port = 0;
    scoped_fd listener = listen_here(AF_INET6, &port);
    scoped_client(c);

    CHECK(listener >= 0);
    CHECK_INT(tunnel_to(&c, port), 101);
    scoped_fd peer = accept(listener, NULL, NULL);
    CHECK_INT(send(peer, "six", 3, 0), 3);
    while (buf_len(&c.in) < 3 && client_fill(&c)) {
    }
    CHECK_INT(memcmp(buf_at(&c.in), "six", 3), 0);
}

static void wrong_requests_are_refused(void)
{
    static const struct {
        const char *method, *path, *more;
        int status;
    } rows[] = {
        {"GET", "/tcp/80", "", 426},
        {"POST", "/tcp/80", UPGRADE "Content-Length: 0\r\n", 426},
        {"GET", "/tcp/80", "Connection: upgrade\r\nUpgrade: websocket\r\n", 426},
        {"GET", "/tcp/49983", UPGRADE, 400},
        {"GET", "/tcp/0", UPGRADE, 400},
        {"GET", "/tcp/65536", UPGRADE, 400},
        {"GET", "/tcp/-1", UPGRADE, 400},
        {"GET", "/tcp/99999999999999999999", UPGRADE, 400},
        {"GET", "/tcp/", UPGRADE, 400},
        {"GET", "/tcp/80/x", UPGRADE, 400},
        {"GET", "/tcp/1", UPGRADE, 502},
    };

    for (size_t i = 0; i < countof(rows); i++) {
        scoped_client(c);
        ask(&c, rows[i].method, rows[i].path, rows[i].more);
        int status = status_read(&c);
        CHECK_THAT(status == rows[i].status, "%s %s is %d, want %d", rows[i].method, rows[i].path,
                   status, rows[i].status);
    }
}

/* Each side leaves at a different moment; the agent ends well afterwards, which main() checks. */
static void either_side_may_leave(void)
{
    int port = 0;
    scoped_fd listener = listen_here(AF_INET, &port);

    for (int i = 0; i < MANY; i++) {
        scoped_client(c);
        CHECK_INT(tunnel_to(&c, port), 101);
        scoped_fd peer = accept(listener, NULL, NULL);
        client_write(&c, "x", 1);
        if (i % 4 == 1) {
            struct linger at_once = {.l_onoff = 1};
            (void)setsockopt(peer, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
            fd_closep(&peer);
            while (client_fill(&c)) {
            }
        } else if (i % 4 == 2) {
            (void)send(peer, "y", 1, MSG_NOSIGNAL);
            fd_closep(&peer);
        } else if (i % 4 == 3) {
            client_write(&c, "and more that nobody reads", 26);
        }
    }
}

int main(int argc, char **argv)
{
    static const struct check_test tests[] = {
        {"bytes go both ways", bytes_go_both_ways},
        {"a slow reader stops the writer", a_slow_reader_stops_the_writer},
        {"services on IPv6 are found", services_on_ipv6_are_found},
        {"wrong requests are refused", wrong_requests_are_refused},
        {"either side may leave", either_side_may_leave},
    };

    if (argc < 2 || !agent_start(&agent, argv[1], false)) {
        printf("Bail out! the agent does not start\n");
        return 1;
    }
    int r = check_run(tests, countof(tests));
    if (!agent_stop(&agent)) {
        printf("# the agent did not end well\n");
        r = 1;
    }
    return r;
}
