#include "agent/unpacking.h"

#include <errno.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "unpack/unpack.h"

/* Only what is safe between fork() and exec(); every other descriptor of ours closes by itself. */
static _Noreturn void become_unpacker(int socket_fd)
{
    static char name[] = UNPACK_PROGRAM;
    char *argv[] = {name, NULL}, *envp[] = {NULL};

    if (dup2(socket_fd, STDIN_FILENO) == STDIN_FILENO) {
        (void)execve("/proc/self/exe", argv, envp);
    }
    _exit(127);
}

int unpacking_start(void)
{
    int fds[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0) {
        return -errno;
    }
    scoped_fd ours = fds[0], theirs = fds[1];
    pid_t pid = fork();
    if (pid < 0) {
        return -errno;
    }
    if (pid == 0) {
        become_unpacker(theirs);
    }
    return move_fd(&ours);
}
