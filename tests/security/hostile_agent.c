/* hostile_agent.c - an agent in the hands of an attacker, for tests/security/test_hostile_agent.py.
 *
 * The program is the agent, with two calls between it and the daemon taken over (meson.build names
 * them to the linker). It serves as the agent does until there is a file HOSTILE_FILE in its jail
 * with the name of a mode: hostile_channel.c, hostile_descriptors.c, hostile_http.c and
 * hostile_freeze.c have a table each. From then on that mode answers when the daemon gives the
 * agent a connection: for a request from outside, or to initialise a sandbox that was resumed.
 */
#include "hostile_agent.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "lib/base/compiler.h"
#include "lib/base/fdpass.h"
#include "wire/channel.h"

#define HOSTILE_FILE "/hostile"

/* ---- pieces ---- */

struct hostile_spoil spoil;

int given = -1;

void connected(int out[2])
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

void say(int channel, uint32_t op, uint32_t seq, int32_t status, const int *fds, size_t n)
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

void answer(int channel, uint32_t seq, int fd)
{
    say(channel, CHANNEL_CONNECT, seq, 0, &fd, 1);
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

void act(void (*run)(int ours, int theirs), int ours, int theirs)
{
    struct actor *actor = malloc(sizeof(*actor));
    pthread_t thread;

    *actor = (struct actor){run, ours, theirs};
    if (pthread_create(&thread, NULL, actor_run, actor) == 0) {
        (void)pthread_detach(thread);
    }
}

void play(int channel, uint32_t seq, void (*run)(int ours, int theirs))
{
    (void)fcntl(given, F_SETFL, 0);
    say(channel, CHANNEL_CONNECT, seq, 0, NULL, 0);
    act(run, given, -1);
}

void play_own(int channel, uint32_t seq, void (*run)(int ours, int theirs))
{
    int pair[2];

    connected(pair);
    answer(channel, seq, pair[0]);
    act(run, pair[1], pair[0]);
}

bool put(int fd, const void *bytes, size_t len)
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

void text(int fd, const char *words)
{
    (void)put(fd, words, strlen(words));
}

void head_read(int fd)
{
    static _Thread_local char bytes[BLOCK];

    (void)recv(fd, bytes, sizeof(bytes), 0);
}

void part(int ours, int theirs)
{
    (void)close(theirs);
    head_read(ours);
}

void forever(void)
{
    for (;;) {
        (void)pause();
    }
}

/* ---- between the agent and the daemon ---- */

static const struct hostile_mode *armed(void)
{
    static const struct hostile_mode *const tables[] = {channel_modes, descriptor_modes, http_modes,
                                                        freeze_modes};
    char name[64] = "";
    int fd = open(HOSTILE_FILE, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, name, sizeof(name) - 1);

    (void)close(fd);
    for (size_t i = 0; n > 0 && i < countof(tables); i++) {
        for (const struct hostile_mode *mode = tables[i]; mode->name; mode++) {
            if (strcmp(name, mode->name) == 0) {
                return mode;
            }
        }
    }
    return NULL;
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
    const struct hostile_mode *mode = armed();
    if (!mode) {
        return n;
    }
    given = fds[0];
    fds[0] = -1;
    mode->run(socket, message->seq);
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
