/* agent_fixture.h - the real atoll-agent as a child of the test, on a port of its own.
 *
 * argv[1] of the test is the program. With a channel, descriptor 3 of the agent is a listening
 * socket, as in a jail, and `channel` is a connection to it that has said hello.
 */
#ifndef TESTS_AGENT_FIXTURE_H
#define TESTS_AGENT_FIXTURE_H

#include <fcntl.h>
#include <signal.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "rpc_client.h"
#include "tmpdir.h"
#include "wire/channel.h"

struct agent_child {
    pid_t pid;
    int port;
    int listener; /* -1: none */
    struct tmpdir dir;
};

static inline int channel_address(const struct agent_child *child, struct sockaddr_un *out)
{
    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    return snprintf(out->sun_path, sizeof(out->sun_path), "%s/agent.sock", child->dir.path);
}

static inline void agent_exec(const char *program, int out, int listener)
{
    (void)dup2(out, STDOUT_FILENO);
    if (listener >= 0) {
        (void)dup2(listener, CHANNEL_LISTEN_FD);
    } else {
        (void)close(CHANNEL_LISTEN_FD);
    }
    execl(program, program, "--listen", "127.0.0.1:0", (char *)NULL);
    _exit(127);
}

static inline bool agent_start(struct agent_child *child, const char *program, bool channel)
{
    char line[128] = "";
    int fds[2];
    struct sockaddr_un address;

    *child = (struct agent_child){.listener = -1, .dir = tmpdir_make()};
    (void)channel_address(child, &address);
    if (channel) {
        /* Well above 3, so that it is never in the way of the child's descriptors. */
        int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        child->listener = fcntl(fd, F_DUPFD_CLOEXEC, 64);
        (void)close(fd);
        if (bind(child->listener, (struct sockaddr *)&address, sizeof(address)) < 0 ||
            listen(child->listener, 16) < 0) {
            return false;
        }
    }
    if (pipe2(fds, O_CLOEXEC) < 0) {
        return false;
    }
    int out = fcntl(fds[1], F_DUPFD_CLOEXEC, 64);
    child->pid = fork();
    if (child->pid == 0) {
        agent_exec(program, out, child->listener);
    }
    (void)close(fds[1]);
    (void)close(out);
    ssize_t n = read(fds[0], line, sizeof(line) - 1);
    (void)close(fds[0]);
    const char *colon = n > 0 ? strrchr(line, ':') : NULL;
    child->port = colon ? atoi(colon + 1) : 0;
    return child->port > 0;
}

/* True when the agent was still alive and ended well: a leak is a bad end under a sanitizer. */
static inline bool agent_stop(struct agent_child *child)
{
    int status = 0;
    bool alive = waitpid(child->pid, &status, WNOHANG) == 0;

    if (alive) {
        (void)kill(child->pid, SIGTERM);
        (void)waitpid(child->pid, &status, 0);
    }
    if (child->listener >= 0) {
        (void)close(child->listener);
    }
    tmpdir_removep(&child->dir);
    return alive && status == 0;
}

#endif
