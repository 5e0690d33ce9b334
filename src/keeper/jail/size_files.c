#include "keeper/jail/size_files.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "keeper/disk/tenant_file.h"
#include "keeper/jail/host.h"
#include "lib/base/alloc.h"
#include "lib/base/fd.h"
#include "lib/base/log.h"
#include "lib/base/procfile.h"
#include "lib/base/small_file.h"
#include "wire/channel.h"

enum {
    CPUINFO_READ_BYTES = 16 * 1024 * 1024,
    PATH_BYTES = 64,
    TOPOLOGY_BYTES = 64, /* for a line of cpuinfo that is rewritten */
};

enum { FILE_MEMINFO, FILE_STAT, FILE_CPUINFO, FILE_ONLINE };

const struct size_file size_files_files[SIZE_FILES_N] = {
    [FILE_MEMINFO] = {"meminfo", "meminfo", false},
    [FILE_STAT] = {"stat", "stat", false},
    [FILE_CPUINFO] = {"cpuinfo", "cpuinfo", false},
    [FILE_ONLINE] = {"online", "devices/system/cpu/online", true},
};

struct size_files {
    uint32_t cpus; /* processors that the keeper may use */
    uint16_t cpu[PROCFILE_CPUS_MAX];
    uint64_t memory_bytes;
    uint64_t boot_s;
    char *cpuinfo; /* text of the host's /proc/cpuinfo */
    char *text;    /* buffer for any of the files */
    size_t text_bytes;
};

/* ---- the host ---- */

static void cpus_find(struct size_files *size_files)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof(set), &set) < 0) {
        return; /* more than PROCFILE_CPUS_MAX: affinity is not set */
    }
    for (size_t i = 0; i < PROCFILE_CPUS_MAX; i++) {
        if (CPU_ISSET(i, &set)) {
            size_files->cpu[size_files->cpus++] = (uint16_t)i;
        }
    }
}

static int cpuinfo_read(struct size_files *size_files, struct err *err)
{
    scoped_fd fd = open("/proc/cpuinfo", O_RDONLY | O_CLOEXEC);
    ssize_t len = fd < 0 ? -errno : small_file_text(fd, CPUINFO_READ_BYTES, &size_files->cpuinfo);

    if (len < 0) {
        return err_code(err, (int)-len, "read /proc/cpuinfo");
    }
    size_files->text_bytes = (size_t)len + PROCFILE_STAT_BYTES + PROCFILE_CPUS_MAX * TOPOLOGY_BYTES;
    size_files->text = xcalloc(1, size_files->text_bytes);
    return 0;
}

static uint64_t clock_usec(clockid_t clock)
{
    struct timespec now;

    (void)clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static void size_files_freep(struct size_files **size_files)
{
    size_files_free(*size_files);
}

int size_files_new(struct size_files **out, struct err *err)
{
    scoped(size_files_freep) struct size_files *size_files = xnew(struct size_files);
    int r = host_memory(&size_files->memory_bytes, err);

    if (r < 0) {
        return r;
    }
    size_files->boot_s = (clock_usec(CLOCK_REALTIME) - clock_usec(CLOCK_BOOTTIME)) / 1000000;
    cpus_find(size_files);
    r = cpuinfo_read(size_files, err);
    if (r < 0) {
        return r;
    }
    *out = move_ptr(&size_files);
    return 0;
}

void size_files_free(struct size_files *size_files)
{
    if (!size_files) {
        return;
    }
    free(size_files->cpuinfo);
    free(size_files->text);
    free(size_files);
}

/* ---- processors ---- */

/* A fraction of a processor counts as one. */
static uint32_t cpus_of(const struct size_files *size_files, uint32_t cpu_millis)
{
    uint32_t n = (cpu_millis + 999) / 1000;

    return n < size_files->cpus ? n : size_files->cpus;
}

/* Processors are given out in turn, so that each has about the same number of jails. */
int size_files_bind(const struct size_files *size_files, const struct keeper_plan *plan,
                    struct err *err)
{
    const uint32_t n = cpus_of(size_files, plan->cpu_millis);
    cpu_set_t set;

    if (n == size_files->cpus) {
        return 0;
    }
    CPU_ZERO(&set);
    for (uint32_t i = 0; i < n; i++) {
        uint64_t turn = (uint64_t)plan->uid_slot * n + i;
        CPU_SET(size_files->cpu[turn % size_files->cpus], &set);
    }
    return sched_setaffinity(0, sizeof(set), &set) < 0
               ? err_sys(err, "bind the jail to its processors")
               : 0;
}

static struct procfile_figures figures_of(const struct size_files *size_files,
                                          const struct cgroup_limits *limits,
                                          const struct keeper_usage *usage)
{
    const uint64_t memory_bytes = (uint64_t)limits->memory_mb << 20;

    return (struct procfile_figures){
        .memory_bytes =
            memory_bytes < size_files->memory_bytes ? memory_bytes : size_files->memory_bytes,
        .used_bytes = usage->memory_bytes,
        .cache_bytes = usage->memory_cache_bytes,
        .cpus = cpus_of(size_files, limits->cpu_millis),
        .cpu_usec = usage->cpu_usec,
        .up_usec = clock_usec(CLOCK_BOOTTIME),
        .boot_s = size_files->boot_s,
    };
}

/* Writes into size_files->text. */
static size_t text_make(const struct size_files *size_files, const struct procfile_figures *f,
                        size_t file)
{
    switch (file) {
    case FILE_MEMINFO:
        return procfile_meminfo(f, size_files->text);
    case FILE_STAT:
        return procfile_stat(f, size_files->text);
    case FILE_CPUINFO:
        return procfile_cpuinfo(size_files->cpuinfo, f->cpus, size_files->text,
                                size_files->text_bytes);
    default:
        return procfile_online(f->cpus, size_files->text);
    }
}

/* ---- a new jail ---- */

int size_files_make(const struct size_files *size_files, const struct keeper_plan *plan, int dir_fd,
                    size_t i, struct err *err)
{
    const struct cgroup_limits limits = {plan->cpu_millis, plan->memory_mb, plan->pids};
    const struct procfile_figures f = figures_of(size_files, &limits, &(struct keeper_usage){0});
    size_t len = text_make(size_files, &f, i);
    scoped_fd fd =
        openat(dir_fd, size_files_files[i].name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);

    return fd < 0 || write(fd, size_files->text, len) != (ssize_t)len
               ? err_sys(err, "write the jail's %s", size_files_files[i].name)
               : 0;
}

/* ---- one that is restored ---- */

static int file_write(const struct size_files *size_files, const struct procfile_figures *f,
                      int root_fd, size_t i, struct err *err)
{
    const struct tenant_want want = {.access = O_WRONLY, .bytes_max = SIZE_FILES_BYTES_MAX};
    char path[PATH_BYTES];
    struct stat st;

    (void)snprintf(path, sizeof(path), "%s/%s", &CHANNEL_DIR[1], size_files_files[i].name);
    scoped_fd fd = tenant_file_open(root_fd, path, &want, err);
    if (fd < 0) {
        return fd;
    }
    size_t len = text_make(size_files, f, i);
    if (pwrite(fd, size_files->text, len, 0) != (ssize_t)len || fstat(fd, &st) < 0 ||
        (st.st_size != (off_t)len && ftruncate(fd, (off_t)len) < 0)) {
        return err_sys(err, "write /%s of the jail", path);
    }
    return 0;
}

void size_files_restored(const struct size_files *size_files, struct cgroups *groups,
                         const char *id, const struct keeper_plan *plan, pid_t first)
{
    const struct cgroup_limits limits = {plan->cpu_millis, plan->memory_mb, plan->pids};
    struct keeper_usage usage = {0};
    struct err err;
    scoped_fd root = tenant_root_open(first, &err);
    int r = root < 0 ? root : 0;

    (void)!cgroups_sample(groups, id, &usage);
    const struct procfile_figures f = figures_of(size_files, &limits, &usage);
    for (size_t i = 0; r == 0 && i < SIZE_FILES_N; i++) {
        r = file_write(size_files, &f, root, i, &err);
    }
    if (r < 0) {
        log_info("jail %s goes on with the size that its source was shown: %s", id, err.msg);
    }
}
