#include "lib/base/pid_wait.h"

#include <errno.h>
#include <sys/wait.h>

int pid_wait(pid_t pid, int *status)
{
    while (waitpid(pid, status, 0) < 0) {
        if (errno != EINTR) {
            return -errno;
        }
    }
    return 0;
}

bool pid_wait_success(pid_t pid)
{
    int status;

    return pid_wait(pid, &status) == 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}
