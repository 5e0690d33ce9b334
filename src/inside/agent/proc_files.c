#include "inside/agent/proc_files.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/fd.h"
#include "lib/base/procfile.h"
#include "lib/base/small_file.h"
#include "wire/channel.h"

enum { KIB = 1024, USEC_PER_S = 1000 * 1000, HEAD_BYTES = 64 };

/* The limit as the keeper wrote it. 0: the host's file is not covered, and nothing is to be
 * done. */
static uint64_t memory_bytes(void)
{
    static const char name[] = "MemTotal:";
    char head[HEAD_BYTES];
    scoped_fd fd = open(CHANNEL_DIR "/meminfo", O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

    if (fd < 0 || small_file_read_fd(fd, head, sizeof(head)) <= 0 ||
        strncmp(head, name, strlen(name)) != 0) {
        return 0;
    }
    return strtoull(head + strlen(name), NULL, 10) * KIB;
}

static uint32_t cpus(void)
{
    cpu_set_t set;

    return sched_getaffinity(0, sizeof(set), &set) < 0 ? 1 : (uint32_t)CPU_COUNT(&set);
}

/* The texts always have the same length. */
static void put(const char *path, const char *text, size_t len)
{
    scoped_fd fd = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

    if (fd >= 0) {
        (void)!pwrite(fd, text, len, 0);
    }
}

void proc_files_update(uint32_t used_kib, uint32_t cache_kib, uint32_t ticks)
{
    static char text[PROCFILE_STAT_BYTES];
    struct timespec up = {0};

    (void)clock_gettime(CLOCK_BOOTTIME, &up);
    const struct procfile_figures figures = {
        .memory_bytes = memory_bytes(),
        .used_bytes = (uint64_t)used_kib * KIB,
        .cache_bytes = (uint64_t)cache_kib * KIB,
        .cpus = cpus(),
        .cpu_usec = (uint64_t)ticks * CHANNEL_TICK_MS * 1000,
        .up_usec = (uint64_t)up.tv_sec * USEC_PER_S,
        .boot_s = (uint64_t)(clock_wall_ms() / 1000 - up.tv_sec),
    };
    if (figures.memory_bytes == 0) {
        return;
    }
    put(CHANNEL_DIR "/meminfo", text, procfile_meminfo(&figures, text));
    put(CHANNEL_DIR "/stat", text, procfile_stat(&figures, text));
}
