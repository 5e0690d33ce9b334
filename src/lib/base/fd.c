#include "lib/base/fd.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>

/* The kernel's limit for a process; 0 when it cannot be read. Read by hand: small programs compile
 * this file without small_file.c. */
static rlim_t kernel_most(void)
{
    char text[32] = "";
    scoped_fd fd = open("/proc/sys/fs/nr_open", O_RDONLY | O_CLOEXEC);

    if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0) {
        return 0;
    }
    return strtoul(text, NULL, 10);
}

size_t fd_allow_most(void)
{
    struct rlimit limit;
    rlim_t most = kernel_most();

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0) {
        return 0;
    }
    if (most > limit.rlim_max) {
        const struct rlimit raised = {most, most};
        if (setrlimit(RLIMIT_NOFILE, &raised) == 0) {
            return most;
        }
    }
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
    return limit.rlim_cur;
}
