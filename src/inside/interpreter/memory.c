#include "inside/interpreter/memory.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/fd.h"

enum {
    VMSTAT_BYTES_MAX = 32 * 1024,
};

#define OOM_KILLS "\noom_kill "

uint64_t memory_oom_kills(void)
{
    char text[VMSTAT_BYTES_MAX];
    scoped_fd fd = open("/proc/vmstat", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

    text[n > 0 ? n : 0] = '\0';
    const char *at = strstr(text, OOM_KILLS);
    return at ? strtoull(at + strlen(OOM_KILLS), NULL, 10) : 0;
}
