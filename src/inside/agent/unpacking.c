#include "inside/agent/unpacking.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "inside/unpack/unpack.h"

/* Only what is safe between fork() and exec(); every other descriptor of ours closes by itself. */
static _Noreturn void become_unpacker(int socket_fd)
{
    static char name[] = UNPACK_PROGRAM;
    char *argv[] = {name, NULL}, *envp[] = {NULL};

    if (dup2(socket_fd, STDIN_FILENO) == STDIN_FILENO && fcntl(STDIN_FILENO, F_SETFL, 0) == 0) {
        (void)execve("/proc/self/exe", argv, envp);
    }
    _exit(127);
}

int unpacking_start(int socket_fd)
{
    pid_t pid = fork();

    if (pid == 0) {
        become_unpacker(socket_fd);
    }
    return pid < 0 ? -errno : 0;
}
