#include "interpreter/lifetime.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"

enum { STAT_BYTES = 1024 };

uint64_t lifetime_began(void)
{
    char stat[STAT_BYTES] = "";
    uint64_t began = 0;
    scoped_fd fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, stat, sizeof(stat) - 1);
    const char *at = n > 0 ? strrchr(stat, ')') : NULL; /* a name may have blanks of its own */

    /* The 22nd field; the name is the second. */
    if (!at || sscanf(at + 1,
                      " %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s"
                      " %*s %" SCNu64,
                      &began) != 1) {
        return 0;
    }
    return began;
}
