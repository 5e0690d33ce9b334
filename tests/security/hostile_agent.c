/* hostile_agent.c - an agent in the hands of an attacker, for tests/security/test_hostile_agent.py.
 *
 * The program is the agent, with two calls between it and the daemon taken over (meson.build names
 * them to the linker). It serves as the agent does until there is a file HOSTILE_FILE in its jail,
 * with the name of a mode of the table at the end of this file. From then on that mode answers when
 * the daemon gives the agent a connection: for a request from outside, or, when the sandbox is
 * resumed, to tell it who it is.
 *
 * A mode gets the channel and the question's number, and leaves behind threads that go on for as
 * long as the jail lives. The agent's end of the connection is in `given`.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/errqueue.h>
#include <linux/net_tstamp.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <unistd.h>

#include "inside/agent/journal.h"
#include "lib/base/compiler.h"
#include "lib/base/fdpass.h"
#include "wire/channel.h"

#define HOSTILE_FILE "/hostile"

enum {
    RIGHTS_MAX = 253, /* with one message: the kernel's limit */
    LINGER_S = 120,
    MEMORY_BYTES = 64 * 1024 * 1024,
    SLOW_BYTES = 8 * 1024 * 1024,
    BURNERS = 24,
    FLOOD = 200 * 1000,
    LATE_S = 12, /* the daemon waits for ten */
    BLOCK = 64 * 1024,
};

/* ---- pieces ---- */

static struct {
    bool not_utf8, controls; /* what becomes of log lines */
} spoil;

static int given = -1; /* with the question that is being answered */

static void connected(int out[2])
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t len = sizeof(address);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    out[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(listener, (struct sockaddr *)&address, len) < 0 || listen(listener, 1) < 0 ||
        getsockname(listener, (struct sockaddr *)&address, &len) < 0 ||
        connect(out[0], (struct sockaddr *)&address, len) < 0) {
        out[0] = out[1] = -1;
        return;
    }
    out[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    (void)close(listener);
}

static void say(int channel, uint32_t op, uint32_t seq, int32_t status, const int *fds, size_t n)
{
    const struct channel_message message = {.op = op, .seq = seq, .status = status};
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int) * RIGHTS_MAX)];
    } control = {0};
    struct iovec iov = {(void *)(uintptr_t)&message, sizeof(message)};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

    if (n) {
        control.header = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int) * n),
                                          .cmsg_level = SOL_SOCKET,
                                          .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(&control.header), fds, sizeof(int) * n);
        msg.msg_control = &control;
        msg.msg_controllen = CMSG_SPACE(sizeof(int) * n);
    }
    (void)sendmsg(channel, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void answer(int channel, uint32_t seq, int fd)
{
    say(channel, CHANNEL_CONNECT, seq, 0, &fd, 1);
}

/* Answers with a descriptor, and keeps none. */
static void give(int channel, uint32_t seq, int fd)
{
    answer(channel, seq, fd);
    (void)close(fd);
}

struct actor {
    void (*run)(int ours, int theirs);
    int ours, theirs;
};

static void *actor_run(void *ctx)
{
    struct actor actor = *(struct actor *)ctx;

    free(ctx);
    actor.run(actor.ours, actor.theirs);
    return NULL;
}

static void act(void (*run)(int ours, int theirs), int ours, int theirs)
{
    struct actor *actor = malloc(sizeof(*actor));
    pthread_t thread;

    *actor = (struct actor){run, ours, theirs};
    if (pthread_create(&thread, NULL, actor_run, actor) == 0) {
        (void)pthread_detach(thread);
    }
}

/* Serves the connection that the daemon has made. */
static void play(int channel, uint32_t seq, void (*run)(int ours, int theirs))
{
    (void)fcntl(given, F_SETFL, 0);
    say(channel, CHANNEL_CONNECT, seq, 0, NULL, 0);
    act(run, given, -1);
}

/* Makes a connection as agents of the first release did: gives one end to the daemon, keeps a copy
 * of it, and plays with both. */
static void play_own(int channel, uint32_t seq, void (*run)(int ours, int theirs))
{
    int pair[2];

    connected(pair);
    answer(channel, seq, pair[0]);
    act(run, pair[1], pair[0]);
}

static bool put(int fd, const void *bytes, size_t len)
{
    const char *at = bytes;

    while (len > 0) {
        ssize_t n = send(fd, at, len, MSG_NOSIGNAL);
        if (n <= 0) {
            return false;
        }
        at += n;
        len -= (size_t)n;
    }
    return true;
}

static void text(int fd, const char *words)
{
    (void)put(fd, words, strlen(words));
}

static void head_read(int fd)
{
    static _Thread_local char bytes[BLOCK];

    (void)recv(fd, bytes, sizeof(bytes), 0);
}

/* What is sent is read, so that nothing else keeps the daemon from what the mode is about. */
static void part(int ours, int theirs)
{
    (void)close(theirs);
    head_read(ours);
}

static void forever(void)
{
    for (;;) {
        (void)pause();
    }
}

/* ---- answers on the channel ---- */

static void never_answers(int channel, uint32_t seq)
{
    (void)channel, (void)seq;
}

static void answers_twice(int channel, uint32_t seq)
{
    int pair[2];

    connected(pair);
    answer(channel, seq, pair[0]);
    answer(channel, seq, pair[0]);
}

static uint32_t late_seq;

static void late(int channel, int unused)
{
    int pair[2];

    (void)unused;
    (void)sleep(LATE_S);
    connected(pair);
    answer(channel, late_seq, pair[0]);
}

static void answers_late(int channel, uint32_t seq)
{
    late_seq = seq;
    act(late, channel, -1);
}

static void wrong_number(int channel, uint32_t seq)
{
    int pair[2];

    connected(pair);
    answer(channel, seq + 100 * 1000, pair[0]);
}

static void short_message(int channel, uint32_t seq)
{
    (void)send(channel, &seq, 3, MSG_NOSIGNAL);
}

static void long_message(int channel, uint32_t seq)
{
    static char bytes[BLOCK];
    struct channel_message message = {.op = CHANNEL_CONNECT, .seq = seq};

    memcpy(bytes, &message, sizeof(message));
    (void)send(channel, bytes, sizeof(bytes), MSG_NOSIGNAL);
}

static void empty_message(int channel, uint32_t seq)
{
    (void)send(channel, &seq, 0, MSG_NOSIGNAL);
}

static void unknown_message(int channel, uint32_t seq)
{
    say(channel, 4242, seq, 0, NULL, 0);
}

static void no_descriptor(int channel, uint32_t seq)
{
    say(channel, CHANNEL_CONNECT, seq, 0, NULL, 0);
}

static void many_descriptors(int channel, uint32_t seq, size_t n)
{
    int pair[2], fds[RIGHTS_MAX];

    connected(pair);
    for (size_t i = 0; i < n; i++) {
        fds[i] = pair[0];
    }
    say(channel, CHANNEL_CONNECT, seq, 0, fds, n);
    (void)close(pair[0]), (void)close(pair[1]);
}

static void two_descriptors(int channel, uint32_t seq)
{
    many_descriptors(channel, seq, 2);
}

static void all_descriptors(int channel, uint32_t seq)
{
    many_descriptors(channel, seq, RIGHTS_MAX);
}

static void bad_status(int channel, uint32_t seq)
{
    say(channel, CHANNEL_CONNECT, seq, INT32_MIN, NULL, 0);
}

static void error_with_descriptor(int channel, uint32_t seq)
{
    int pair[2];

    connected(pair);
    say(channel, CHANNEL_CONNECT, seq, -ECONNREFUSED, pair, 1);
}

static void hello_again(int channel, uint32_t seq)
{
    say(channel, CHANNEL_HELLO, seq, 0, NULL, 0);
}

static void quiet_unasked(int channel, uint32_t seq)
{
    say(channel, CHANNEL_QUIET, seq, 0, NULL, 0);
}

static void closes_the_channel(int channel, uint32_t seq)
{
    (void)seq;
    (void)shutdown(channel, SHUT_RDWR);
}

static void flood(int channel, int unused)
{
    (void)unused;
    for (uint32_t i = 0; i < FLOOD; i++) {
        struct channel_message message = {.op = CHANNEL_OOM, .seq = i};
        if (send(channel, &message, sizeof(message), MSG_NOSIGNAL) < 0) {
            return;
        }
    }
}

static void question_flood(int channel, uint32_t seq)
{
    (void)seq;
    act(flood, channel, -1);
}

/* ---- the log ---- */

static void lines_write(int n)
{
    for (int i = 0; i < n; i++) {
        journal_write(LOG_ERROR, "hostile", "flood", NULL, "line %d of a flood %0400d", i, i);
    }
}

static void log_flood(int channel, uint32_t seq)
{
    (void)channel, (void)seq;
    lines_write(FLOOD);
}

static void log_not_utf8(int channel, uint32_t seq)
{
    (void)channel, (void)seq;
    spoil.not_utf8 = true;
    lines_write(50);
}

static void log_controls(int channel, uint32_t seq)
{
    (void)channel, (void)seq;
    spoil.controls = true;
    lines_write(50);
}

static void log_unasked(int channel, uint32_t seq)
{
    struct {
        struct channel_message message;
        struct channel_log log;
        char line[16];
    } all = {.message = {.op = CHANNEL_LOG, .seq = UINT32_MAX}, .line = "{\"a\":1}"};

    (void)seq;
    (void)send(channel, &all, sizeof(all), MSG_NOSIGNAL);
}

/* ---- descriptors of another kind ---- */

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

/* ---- HTTP ---- */

#define OK "HTTP/1.1 200 OK\r\n"

static void half_head_run(int ours, int theirs)
{
    part(ours, theirs);
    text(ours, "HTTP/1.1 200 OK\r\nContent-Ty");
    forever();
}

static void silent_run(int ours, int theirs)
{
    part(ours, theirs);
    forever();
}

static void endless_headers_run(int ours, int theirs)
{
    part(ours, theirs);
    text(ours, OK);
    for (int i = 0; put(ours, "x-header: value\r\n", 17) && i < INT32_MAX; i++) {
    }
}

static void long_header_run(int ours, int theirs)
{
    static const char block[BLOCK] = {[0 ... BLOCK - 1] = 'a'};

    part(ours, theirs);
    text(ours, OK "x-long: ");
    while (put(ours, block, sizeof(block))) {
    }
}

static void endless_body_run(int ours, int theirs)
{
    static const char block[BLOCK];

    part(ours, theirs);
    text(ours, OK "\r\n");
    while (put(ours, block, sizeof(block))) {
    }
}

static void endless_chunks_run(int ours, int theirs)
{
    part(ours, theirs);
    text(ours, OK "transfer-encoding: chunked\r\n\r\n");
    while (put(ours, "1\r\nx\r\n", 6)) {
    }
}

static void endless_trailers_run(int ours, int theirs)
{
    part(ours, theirs);
    text(ours, OK "transfer-encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n");
    while (put(ours, "x-trailer: value\r\n", 18)) {
    }
}

static void bad_chunks_run(int ours, int theirs)
{
    part(ours, theirs);
    text(ours, OK "transfer-encoding: chunked\r\n\r\nzz\r\n\r\n-5\r\nhello\r\n");
    forever();
}

static void huge_chunk_run(int ours, int theirs)
{
    part(ours, theirs);
    text(ours, OK "transfer-encoding: chunked\r\n\r\nffffffffffffffff\r\nhello");
    forever();
}

static void huge_length_run(int ours, int theirs)
{
    part(ours, theirs);
    text(ours, OK "content-length: 9223372036854775807\r\n\r\nhello");
    forever();
}

static void negative_length_run(int ours, int theirs)
{
    part(ours, theirs);
    text(ours, OK "content-length: -1\r\n\r\nhello");
    forever();
}

static void two_lengths_run(int ours, int theirs)
{
    part(ours, theirs);
    text(ours,
         OK "content-length: 5\r\ncontent-length: 6\r\ntransfer-encoding: chunked\r\n\r\nhello");
    forever();
}

static void interim_flood_run(int ours, int theirs)
{
    part(ours, theirs);
    while (put(ours, "HTTP/1.1 103 Early Hints\r\n\r\n", 28)) {
    }
}

static void upgrade_unasked_run(int ours, int theirs)
{
    part(ours, theirs);
    text(ours, "HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\nraw");
    forever();
}

static void http2_garbage_run(int ours, int theirs)
{
    static const char frames[] = "\0\0\6\4\0\0\0\0\0\0\1\377\377\377\377\377\377\0\0\0\0\0\0\377";

    part(ours, theirs);
    while (put(ours, frames, sizeof(frames))) {
    }
}

/* Zeros, a thousand to one. Whoever unpacked it would not be done soon. */
static void gzip_bomb_run(int ours, int theirs)
{
    static const unsigned char start[] = {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3};
    static const unsigned char zeros[] = {0xec, 0xc1, 0x01, 0x0d, 0x00, 0x00, 0x00, 0xc2,
                                          0xa0, 0xf7, 0x4f, 0x6d, 0x0e, 0x37, 0xa0, 0x00};

    part(ours, theirs);
    text(ours, OK "content-encoding: gzip\r\ncontent-type: application/json\r\n\r\n");
    (void)put(ours, start, sizeof(start));
    for (int i = 0; i < FLOOD && put(ours, zeros, sizeof(zeros)); i++) {
    }
    (void)close(ours);
}

static void closes_in_head_run(int ours, int theirs)
{
    part(ours, theirs);
    text(ours, "HTTP/1.1 200 OK\r\nContent-Ty");
    (void)close(ours);
}

static void closes_in_body_run(int ours, int theirs)
{
    part(ours, theirs);
    text(ours, OK "content-length: 100\r\n\r\nhello");
    (void)close(ours);
}

static void resets_in_body_run(int ours, int theirs)
{
    const struct linger reset = {.l_onoff = 1, .l_linger = 0};

    part(ours, theirs);
    text(ours, OK "content-length: 100\r\n\r\nhello");
    (void)setsockopt(ours, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    (void)close(ours);
}

static void answers_unasked_run(int ours, int theirs)
{
    (void)close(theirs);
    for (int i = 0; i < 1000; i++) {
        text(ours, OK "content-length: 2\r\n\r\nhi");
    }
    forever();
}

static void noise_run(int ours, int theirs)
{
    static char bytes[BLOCK];

    part(ours, theirs);
    (void)getrandom(bytes, sizeof(bytes), 0);
    while (put(ours, bytes, sizeof(bytes))) {
    }
}

static void zeros_in_head_run(int ours, int theirs)
{
    part(ours, theirs);
    (void)put(ours, OK "x-\0y: \0\r\n\r\n", sizeof(OK "x-\0y: \0\r\n\r\n") - 1);
    forever();
}

static void drips_run(int ours, int theirs)
{
    part(ours, theirs);
    text(ours, OK "\r\n");
    while (put(ours, "x", 1)) {
        (void)usleep(1000);
    }
}

/* ---- freezes ---- */

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
    text(ours, OK "\r\n");
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

/* ---- the table ---- */

#define HTTP(name)                                                                                 \
    static void name(int channel, uint32_t seq)                                                    \
    {                                                                                              \
        play(channel, seq, name##_run);                                                            \
    }
HTTP(half_head)
HTTP(silent)
HTTP(endless_headers)
HTTP(long_header)
HTTP(endless_body)
HTTP(endless_chunks)
HTTP(endless_trailers)
HTTP(bad_chunks)
HTTP(huge_chunk)
HTTP(huge_length)
HTTP(negative_length)
HTTP(two_lengths)
HTTP(interim_flood)
HTTP(upgrade_unasked)
HTTP(http2_garbage)
HTTP(gzip_bomb)
HTTP(closes_in_head)
HTTP(closes_in_body)
HTTP(resets_in_body)
HTTP(answers_unasked)
HTTP(noise)
HTTP(zeros_in_head)
HTTP(drips)

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

/* The test reads the names from here. */
#define MODE(name)                                                                                 \
    {                                                                                              \
#name, name                                                                                \
    }
#define GIVES MODE /* hands over a descriptor, which ends the sandbox */
static const struct {
    const char *name;
    void (*run)(int channel, uint32_t seq);
} modes[] = {
    MODE(never_answers),
    GIVES(answers_twice),
    GIVES(answers_late),
    GIVES(wrong_number),
    MODE(short_message),
    MODE(long_message),
    MODE(empty_message),
    MODE(unknown_message),
    MODE(no_descriptor),
    GIVES(two_descriptors),
    GIVES(all_descriptors),
    MODE(bad_status),
    GIVES(error_with_descriptor),
    MODE(hello_again),
    MODE(quiet_unasked),
    MODE(closes_the_channel),
    MODE(question_flood),
    MODE(log_flood),
    MODE(log_not_utf8),
    MODE(log_controls),
    MODE(log_unasked),
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
    MODE(half_head),
    MODE(silent),
    MODE(endless_headers),
    MODE(long_header),
    MODE(endless_body),
    MODE(endless_chunks),
    MODE(endless_trailers),
    MODE(bad_chunks),
    MODE(huge_chunk),
    MODE(huge_length),
    MODE(negative_length),
    MODE(two_lengths),
    MODE(interim_flood),
    MODE(upgrade_unasked),
    MODE(http2_garbage),
    MODE(gzip_bomb),
    MODE(closes_in_head),
    MODE(closes_in_body),
    MODE(resets_in_body),
    MODE(answers_unasked),
    MODE(noise),
    MODE(zeros_in_head),
    MODE(drips),
    GIVES(lingers),
    GIVES(blocks_writes),
    GIVES(blocks_reads),
    GIVES(error_queue),
    GIVES(reconnects),
    GIVES(holds_the_lock),
    MODE(says_it_is_old),
    GIVES(lingers_among_many),
    MODE(lingers_in_the_queue),
};

/* ---- between the agent and the daemon ---- */

static int armed(void)
{
    char name[64] = "";
    int fd = open(HOSTILE_FILE, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, name, sizeof(name) - 1);

    (void)close(fd);
    for (size_t i = 0; n > 0 && i < countof(modes); i++) {
        if (strcmp(name, modes[i].name) == 0) {
            return (int)i;
        }
    }
    return -1;
}

ssize_t __real_fdpass_receive(int socket, struct iovec *iov, size_t iov_n, int *fds, size_t max,
                              int flags);
ssize_t __wrap_fdpass_receive(int socket, struct iovec *iov, size_t iov_n, int *fds, size_t max,
                              int flags);

/* The channel's messages are the only ones that are read like this. A question for a mode is not
 * shown to the agent. */
ssize_t __wrap_fdpass_receive(int socket, struct iovec *iov, size_t iov_n, int *fds, size_t max,
                              int flags)
{
    ssize_t n = __real_fdpass_receive(socket, iov, iov_n, fds, max, flags);
    const struct channel_message *message = iov->iov_base;

    if (n != (ssize_t)sizeof(*message) || message->op != CHANNEL_CONNECT) {
        return n;
    }
    int mode = armed();
    if (mode < 0) {
        return n;
    }
    given = fds[0];
    fds[0] = -1;
    modes[mode].run(socket, message->seq);
    return -EAGAIN;
}

ssize_t __real_sendmsg(int fd, const struct msghdr *msg, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *msg, int flags);

/* A message of three parts is a line of the log. */
ssize_t __wrap_sendmsg(int fd, const struct msghdr *msg, int flags)
{
    static char not_utf8[] = "{\"message\":\"\xff\xfe\xc0\x80\xed\xa0\x80 \xf5\x80\x80\x80\"}";
    static char controls[] =
        "{\"message\":\"\x1b[2J\x1b]0;title\x07\r\n\0\x7f\"}\n{\"level\":\"x\"}";
    struct msghdr spoilt = *msg;
    struct iovec parts[3];

    if (msg->msg_iovlen == 3 && (spoil.not_utf8 || spoil.controls)) {
        memcpy(parts, msg->msg_iov, sizeof(parts));
        parts[2] = spoil.not_utf8 ? (struct iovec){not_utf8, sizeof(not_utf8) - 1}
                                  : (struct iovec){controls, sizeof(controls) - 1};
        spoilt.msg_iov = parts;
    }
    return __real_sendmsg(fd, &spoilt, flags);
}
