/* hostile_descriptors.c - descriptors of every kind, handed to a daemon that asked for none. */
#include "hostile_agent.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "lib/base/fdpass.h"

enum { MEMORY_BYTES = 64 * 1024 * 1024 };

/* Answers with a descriptor, and keeps none. */
static void give(int channel, uint32_t seq, int fd)
{
    answer(channel, seq, fd);
    (void)close(fd);
}

static void gives_file(int channel, uint32_t seq)
{
    give(channel, seq, open("/tmp", O_TMPFILE | O_RDWR, 0600));
}

static void gives_directory(int channel, uint32_t seq)
{
    give(channel, seq, open("/", O_RDONLY | O_DIRECTORY));
}

static void gives_path(int channel, uint32_t seq)
{
    give(channel, seq, open("/", O_PATH));
}

static void gives_pipe(int channel, uint32_t seq)
{
    int pair[2];

    (void)!pipe(pair);
    give(channel, seq, pair[0]);
}

static void gives_fifo(int channel, uint32_t seq)
{
    (void)mkfifo("/tmp/hostile.fifo", 0600);
    give(channel, seq, open("/tmp/hostile.fifo", O_RDWR));
}

static void gives_udp(int channel, uint32_t seq)
{
    give(channel, seq, socket(AF_INET, SOCK_DGRAM, 0));
}

static void gives_netlink(int channel, uint32_t seq)
{
    give(channel, seq, socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE));
}

static int unix_half(int type)
{
    int pair[2];

    return socketpair(AF_UNIX, type, 0, pair) < 0 ? -1 : pair[0];
}

static void gives_unix_stream(int channel, uint32_t seq)
{
    give(channel, seq, unix_half(SOCK_STREAM));
}

static void gives_unix_datagram(int channel, uint32_t seq)
{
    give(channel, seq, unix_half(SOCK_DGRAM));
}

static void gives_listening(int channel, uint32_t seq)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    (void)listen(fd, 1);
    give(channel, seq, fd);
}

static void gives_unconnected(int channel, uint32_t seq)
{
    give(channel, seq, socket(AF_INET6, SOCK_STREAM, 0));
}

static void gives_connecting(int channel, uint32_t seq)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(9)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);

    (void)inet_pton(AF_INET, "192.0.2.1", &address.sin_addr);
    (void)connect(fd, (struct sockaddr *)&address, sizeof(address));
    give(channel, seq, fd);
}

static void gives_epoll(int channel, uint32_t seq)
{
    give(channel, seq, epoll_create1(0));
}

static void gives_channel(int channel, uint32_t seq)
{
    answer(channel, seq, channel);
}

static void gives_memory(int channel, uint32_t seq)
{
    int fd = memfd_create("hostile", 0);

    (void)!fallocate(fd, 0, 0, MEMORY_BYTES);
    give(channel, seq, fd);
}

static void gives_terminal(int channel, uint32_t seq)
{
    int fd = open("/dev/ptmx", O_RDWR | O_NOCTTY);

    give(channel, seq, fd);
}

static void gives_eventfd(int channel, uint32_t seq)
{
    give(channel, seq, eventfd(0, 0));
}

static void gives_timer(int channel, uint32_t seq)
{
    give(channel, seq, timerfd_create(CLOCK_MONOTONIC, 0));
}

static void gives_inotify(int channel, uint32_t seq)
{
    give(channel, seq, inotify_init());
}

static void gives_pidfd(int channel, uint32_t seq)
{
    give(channel, seq, (int)syscall(SYS_pidfd_open, getpid(), 0));
}

static void gives_zero(int channel, uint32_t seq)
{
    give(channel, seq, open("/dev/zero", O_RDWR));
}

/* A socket whose queue holds the socket itself. */
static void gives_rights_loop(int channel, uint32_t seq)
{
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) == 0) {
        for (int i = 0; i < 100; i++) {
            (void)fdpass_send(pair[0], "", 1, pair, 2, MSG_DONTWAIT);
        }
        answer(channel, seq, pair[0]);
        (void)close(pair[0]), (void)close(pair[1]);
    }
}

const struct hostile_mode descriptor_modes[] = {
    GIVES(gives_file),
    GIVES(gives_directory),
    GIVES(gives_path),
    GIVES(gives_pipe),
    GIVES(gives_fifo),
    GIVES(gives_udp),
    GIVES(gives_netlink),
    GIVES(gives_unix_stream),
    GIVES(gives_unix_datagram),
    GIVES(gives_listening),
    GIVES(gives_unconnected),
    GIVES(gives_connecting),
    GIVES(gives_epoll),
    GIVES(gives_channel),
    GIVES(gives_memory),
    GIVES(gives_terminal),
    GIVES(gives_eventfd),
    GIVES(gives_timer),
    GIVES(gives_inotify),
    GIVES(gives_pidfd),
    GIVES(gives_zero),
    GIVES(gives_rights_loop),
    {0},
};
