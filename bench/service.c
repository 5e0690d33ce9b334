/* A service to measure the way to it: GET /N answers N bytes, an upgrade is answered with 101 and
 * then kept open. Static, so that it runs in any image. One thread, one epoll.
 *
 * usage: bench-service PORT */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { HEAD_BYTES = 4096, CHUNK_BYTES = 256 * 1024, EVENTS = 64 };

struct peer {
    int fd;
    char head[HEAD_BYTES];
    size_t head_len;
    uint64_t left; /* of the answer's body */
};

static char chunk[CHUNK_BYTES];

static void peer_free(struct peer *peer)
{
    (void)close(peer->fd);
    free(peer);
}

/* What is left of the answer, as far as the socket takes it. -1: it is over. */
static int peer_send(struct peer *peer)
{
    while (peer->left > 0) {
        size_t most = peer->left < sizeof(chunk) ? (size_t)peer->left : sizeof(chunk);
        ssize_t n = send(peer->fd, chunk, most, MSG_NOSIGNAL);
        if (n < 0) {
            return errno == EAGAIN ? 0 : -1;
        }
        peer->left -= (uint64_t)n;
    }
    return 0;
}

static int peer_answer(struct peer *peer)
{
    static const char upgraded[] = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n"
                                   "Upgrade: websocket\r\n\r\n";
    char head[128];
    const char *path = strchr(peer->head, '/');

    if (strcasestr(peer->head, "\r\nupgrade:")) {
        return send(peer->fd, upgraded, sizeof(upgraded) - 1, MSG_NOSIGNAL) < 0 ? -1 : 0;
    }
    peer->left = path ? strtoull(path + 1, NULL, 10) : 0;
    int len = snprintf(head, sizeof(head), "HTTP/1.1 200 OK\r\nContent-Length: %llu\r\n\r\n",
                       (unsigned long long)peer->left);
    return send(peer->fd, head, (size_t)len, MSG_NOSIGNAL | (peer->left ? MSG_MORE : 0)) < 0
               ? -1
               : peer_send(peer);
}

static int peer_read(struct peer *peer)
{
    ssize_t n = recv(peer->fd, peer->head + peer->head_len, HEAD_BYTES - 1 - peer->head_len, 0);

    if (n <= 0) {
        return n < 0 && errno == EAGAIN ? 0 : -1;
    }
    peer->head_len += (size_t)n;
    peer->head[peer->head_len] = '\0';
    if (!strstr(peer->head, "\r\n\r\n")) {
        return peer->head_len == HEAD_BYTES - 1 ? -1 : 0;
    }
    peer->head_len = 0;
    return peer_answer(peer);
}

static void accept_all(int listener, int epoll)
{
    int fd, one = 1;

    while ((fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
        struct peer *peer = calloc(1, sizeof(*peer));
        struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = peer};
        if (!peer) {
            abort();
        }
        peer->fd = fd;
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        (void)epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
    }
}

static void files_raise(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}

int main(int argc, char **argv)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int epoll = epoll_create1(EPOLL_CLOEXEC), one = 1;
    struct epoll_event events[EVENTS], accepting = {.events = EPOLLIN, .data.ptr = NULL};

    files_raise();
    at.sin_port = htons(argc > 1 ? (uint16_t)atoi(argv[1]) : 0);
    (void)setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (bind(listener, (struct sockaddr *)&at, sizeof(at)) < 0 || listen(listener, SOMAXCONN) < 0) {
        perror("bench-service");
        return 1;
    }
    (void)epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &accepting);
    for (;;) {
        int n = epoll_wait(epoll, events, EVENTS, -1);
        for (int i = 0; i < n; i++) {
            struct peer *peer = events[i].data.ptr;
            if (!peer) {
                accept_all(listener, epoll);
            } else if (peer_send(peer) < 0 || (events[i].events & EPOLLIN && peer_read(peer) < 0)) {
                peer_free(peer);
            }
        }
    }
}
