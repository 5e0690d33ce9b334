/* hostile_freeze.c - sockets that make the thread that reads, writes or closes them wait. */
#include "hostile_agent.h"

#include <fcntl.h>
#include <linux/errqueue.h>
#include <linux/net_tstamp.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/compiler.h"
#include "wire/channel.h"

enum {
    LINGER_S = 120,
    SLOW_BYTES = 8 * 1024 * 1024,
    BURNERS = 24,
};

static void linger_set(int fd)
{
    const struct linger linger = {.l_onoff = 1, .l_linger = LINGER_S};

    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
}

/* Nobody reads, and the close waits. The option comes back as often as it is taken away. */
static void lingers_run(int ours, int theirs)
{
    (void)ours;
    for (int i = 0; i < 1000; i++) {
        linger_set(theirs);
        (void)usleep(1000);
    }
    (void)close(theirs); /* the daemon's close is the last one then */
    forever();
}

/* The peer never reads, and O_NONBLOCK is cleared on the file that both share. */
static void blocks_writes_run(int ours, int theirs)
{
    (void)ours;
    for (;;) {
        (void)fcntl(theirs, F_SETFL, 0);
        (void)usleep(1000);
    }
}

/* Bytes that the daemon was told of are taken away before it reads them. */
static void blocks_reads_run(int ours, int theirs)
{
    char bytes[BLOCK];

    head_read(ours);
    text(ours, "HTTP/1.1 200 OK\r\n\r\n");
    for (;;) {
        (void)fcntl(theirs, F_SETFL, 0);
        (void)put(ours, "x", 1);
        (void)recv(theirs, bytes, sizeof(bytes), MSG_DONTWAIT);
    }
}

/* Each byte that the daemon sends leaves a word in the error queue, which it never reads. */
static void error_queue_run(int ours, int theirs)
{
    int stamps = SOF_TIMESTAMPING_TX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE |
                 SOF_TIMESTAMPING_TX_ACK | SOF_TIMESTAMPING_OPT_TSONLY;

    (void)setsockopt(theirs, SOL_SOCKET, SO_TIMESTAMPING, &stamps, sizeof(stamps));
    head_read(ours);
    forever();
}

/* The socket becomes another one under the daemon's hands. */
static void reconnects_run(int ours, int theirs)
{
    const struct sockaddr nowhere = {.sa_family = AF_UNSPEC};

    (void)ours;
    for (;;) {
        (void)connect(theirs, &nowhere, sizeof(nowhere));
        (void)listen(theirs, 1);
        (void)shutdown(theirs, SHUT_RDWR);
    }
}

/* The kernel locks a socket while a call sends from memory, also while that memory is read from
 * disk, and while the thread waits for its turn on a processor: this one always does. Another call
 * on the same socket waits, whatever its flags. */
static void burn(int unused, int unused_2)
{
    (void)unused, (void)unused_2;
    for (volatile unsigned i = 0;; i++) {
    }
}

static void drain(int ours, int unused)
{
    static char bytes[BLOCK];

    (void)unused;
    while (recv(ours, bytes, sizeof(bytes), MSG_TRUNC) > 0) {
    }
}

/* Makes the daemon read from the socket, again and again. */
static void poke(int ours, int unused)
{
    (void)unused;
    text(ours, "HTTP/1.1 200 OK\r\n\r\n");
    while (put(ours, "x", 1)) {
        (void)usleep(1000);
    }
}

/* Pages that come from disk one by one, and threads that leave no time to others. */
static struct {
    pthread_once_t once;
    int fd;
    char *pages;
} slow = {.once = PTHREAD_ONCE_INIT};

static void slow_make(void)
{
    static const char block[BLOCK] = {1};

    slow.fd = open("/tmp", O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
    for (int i = 0; i < SLOW_BYTES / BLOCK; i++) {
        (void)!write(slow.fd, block, sizeof(block));
    }
    (void)fsync(slow.fd);
    slow.pages = mmap(NULL, SLOW_BYTES, PROT_READ, MAP_SHARED, slow.fd, 0);
    (void)madvise(slow.pages, SLOW_BYTES, MADV_RANDOM);
    for (int i = 0; i < BURNERS; i++) {
        act(burn, -1, -1);
    }
}

static void holds_the_lock_run(int ours, int theirs)
{
    const struct sched_param idle = {0};

    (void)pthread_once(&slow.once, slow_make);
    act(drain, ours, -1);
    act(poke, ours, -1);
    (void)sched_setscheduler(0, SCHED_IDLE, &idle);
    (void)fcntl(theirs, F_SETFL, 0);
    for (;;) {
        (void)madvise(slow.pages, SLOW_BYTES, MADV_DONTNEED);
        (void)posix_fadvise(slow.fd, 0, 0, POSIX_FADV_DONTNEED);
        (void)send(theirs, slow.pages, SLOW_BYTES, MSG_NOSIGNAL);
    }
}

/* Sockets that linger, none of which the daemon has asked for: the kernel closes those for which
 * the receiver has no room. */
static int lingering(void)
{
    static const char block[BLOCK];
    int pair[2];

    connected(pair);
    while (send(pair[0], block, sizeof(block), MSG_DONTWAIT | MSG_NOSIGNAL) > 0) {
    }
    linger_set(pair[0]);
    return pair[0]; /* its peer stays open, and unread */
}

static void lingers_among_many(int channel, uint32_t seq)
{
    int fds[4];

    for (size_t i = 0; i < countof(fds); i++) {
        fds[i] = lingering();
    }
    say(channel, CHANNEL_CONNECT, seq, 0, fds, countof(fds));
    for (size_t i = 0; i < countof(fds); i++) {
        (void)close(fds[i]);
    }
}

/* They lie in the channel's queue when the daemon closes it for the first message. */
static void lingers_in_the_queue(int channel, uint32_t seq)
{
    int fd = lingering();

    say(channel, 4242, seq, 0, NULL, 0);
    for (uint32_t i = 0; i < 8; i++) {
        say(channel, CHANNEL_CONNECT, seq + i, 0, &fd, 1);
    }
    (void)close(fd);
}

#define COPY(name)                                                                                 \
    static void name(int channel, uint32_t seq)                                                    \
    {                                                                                              \
        play_own(channel, seq, name##_run);                                                        \
    }
COPY(lingers)
COPY(blocks_writes)
COPY(blocks_reads)
COPY(error_queue)
COPY(reconnects)
COPY(holds_the_lock)

/* As an agent of the first release, of which the daemon would take sockets. */
static void says_it_is_old(int channel, uint32_t seq)
{
    struct channel_message hello = {.op = CHANNEL_HELLO, .value = CHANNEL_VERSION_FIRST};

    (void)send(channel, &hello, sizeof(hello), MSG_NOSIGNAL);
    holds_the_lock(channel, seq);
}

const struct hostile_mode freeze_modes[] = {
    GIVES(lingers),
    GIVES(blocks_writes),
    GIVES(blocks_reads),
    GIVES(error_queue),
    GIVES(reconnects),
    GIVES(holds_the_lock),
    MODE(says_it_is_old),
    GIVES(lingers_among_many),
    MODE(lingers_in_the_queue),
    {0},
};
