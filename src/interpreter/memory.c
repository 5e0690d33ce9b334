#include "interpreter/memory.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"

enum {
    VMSTAT_BYTES_MAX = 32 * 1024,
};

uint64_t memory_oom_kills(void)
{
    char text[VMSTAT_BYTES_MAX];
    uint64_t kills = 0;
    scoped_fd fd = open("/proc/vmstat", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

    text[n > 0 ? n : 0] = '\0';
    const char *at = strstr(text, "\noom_kill ");
    return at && sscanf(at, "\noom_kill %" SCNu64, &kills) == 1 ? kills : 0;
}
