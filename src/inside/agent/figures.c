/* figures.c - cpu, memory and disk from inside.
 *
 * A jail's /proc shows its own processes but the host's totals, and its cgroup may not be mounted.
 * So cpu time and memory are added up over the processes: a process's time with that of the
 * children it has reaped, down from pid 1, which reaps every orphan. Totals are the sandbox's
 * limits where /init told them.
 */
#include "inside/agent/figures.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/statvfs.h>
#include <time.h>

#include "lib/base/clock.h"
#include "lib/base/fd.h"
#include "lib/base/small_file.h"

enum {
    STAT_BYTES = 1024,
    MEMINFO_BYTES = 4096,
    STAT_FIRST_TIME = 14, /* utime; stime, cutime and cstime follow it */
    KIB = 1024,
};

struct usage {
    uint64_t ticks;
    uint64_t rss_bytes;
    uint64_t shared_bytes;
};

/* Adds the four times of one process. Fields are counted from behind the name, which may hold
 * spaces and brackets. */
static void times_add(const char *stat, struct usage *usage)
{
    const char *at = strrchr(stat, ')');
    char *end;

    for (int field = 3; at && field < STAT_FIRST_TIME + 1; field++) {
        at = strchr(at + 1, ' ');
    }
    for (int i = 0; at && i < 4; i++, at = end) {
        usage->ticks += strtoull(at, &end, 10);
    }
}

static void memory_add(const char *statm, struct usage *usage)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    char *end;

    (void)strtoull(statm, &end, 10);
    usage->rss_bytes += strtoull(end, &end, 10) * page;
    usage->shared_bytes += strtoull(end, &end, 10) * page;
}

static void process_add(int proc, const char *pid, struct usage *usage)
{
    char path[280];
    char text[STAT_BYTES];

    (void)snprintf(path, sizeof(path), "%s/stat", pid);
    if (small_file_read(proc, path, text, sizeof(text)) > 0) {
        times_add(text, usage);
    }
    (void)snprintf(path, sizeof(path), "%s/statm", pid);
    if (small_file_read(proc, path, text, sizeof(text)) > 0) {
        memory_add(text, usage);
    }
}

static struct usage usage_read(void)
{
    struct usage usage = {0};
    DIR *proc = opendir("/proc");
    struct dirent *entry;

    while (proc && (entry = readdir(proc))) {
        if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9') {
            process_add(dirfd(proc), entry->d_name, &usage);
        }
    }
    if (proc) {
        (void)closedir(proc);
    }
    return usage;
}

static uint64_t meminfo_bytes(const char *meminfo, const char *name)
{
    const char *at = strstr(meminfo, name);

    return at ? strtoull(at + strlen(name), NULL, 10) * KIB : 0;
}

static void memory_read(const struct agent_limits *limits, const struct usage *usage,
                        struct figures *out)
{
    char meminfo[MEMINFO_BYTES];

    if (limits->memory_bytes > 0) {
        uint64_t used = usage->rss_bytes - usage->shared_bytes;
        out->memory_total_bytes = limits->memory_bytes;
        out->memory_used_bytes = used < limits->memory_bytes ? used : limits->memory_bytes;
        return;
    }
    (void)small_file_read(AT_FDCWD, "/proc/meminfo", meminfo, sizeof(meminfo));
    out->memory_total_bytes = meminfo_bytes(meminfo, "MemTotal:");
    out->memory_used_bytes = out->memory_total_bytes - meminfo_bytes(meminfo, "MemAvailable:");
    out->memory_cache_bytes = meminfo_bytes(meminfo, "\nCached:");
}

static void disk_read(const struct agent_limits *limits, struct figures *out)
{
    struct statvfs disk;

    if (statvfs("/", &disk) == 0) {
        out->disk_total_bytes = (uint64_t)disk.f_blocks * disk.f_frsize;
        out->disk_used_bytes = ((uint64_t)disk.f_blocks - disk.f_bavail) * disk.f_frsize;
    }
    if (limits->disk_bytes > 0) {
        out->disk_total_bytes = limits->disk_bytes;
        if (out->disk_used_bytes > limits->disk_bytes) {
            out->disk_used_bytes = limits->disk_bytes;
        }
    }
}

/* The use since the last call, as a share of the time of all cpus. */
static double cpu_share(uint64_t ticks, uint32_t cpus)
{
    static uint64_t last_ticks;
    static int64_t last_ms;
    int64_t now_ms = clock_mono_ms();
    double could = (double)(now_ms - last_ms) / 1000 * (double)sysconf(_SC_CLK_TCK) * cpus;
    double did = ticks > last_ticks ? (double)(ticks - last_ticks) : 0;
    double share = last_ms == 0 || could <= 0 ? 0 : did / could * 100;

    last_ticks = ticks;
    last_ms = now_ms;
    return share > 100 ? 100 : share;
}

void figures_read(const struct agent_limits *limits, struct figures *out)
{
    struct usage usage = usage_read();
    long online = sysconf(_SC_NPROCESSORS_ONLN);

    *out = (struct figures){.cpus = limits->cpus};
    if (out->cpus == 0) {
        out->cpus = online > 0 ? (uint32_t)online : 1;
    }
    out->cpu_used_pct = cpu_share(usage.ticks, out->cpus);
    memory_read(limits, &usage, out);
    disk_read(limits, out);
}
