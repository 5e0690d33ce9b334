#include "inside/interpreter/memory.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/small_file.h"

enum {
    VMSTAT_BYTES_MAX = 32 * 1024,
};

#define OOM_KILLS "\noom_kill "

uint64_t memory_oom_kills(void)
{
    char text[VMSTAT_BYTES_MAX];

    (void)small_file_read(AT_FDCWD, "/proc/vmstat", text, sizeof(text));
    const char *at = strstr(text, OOM_KILLS);
    return at ? strtoull(at + strlen(OOM_KILLS), NULL, 10) : 0;
}
