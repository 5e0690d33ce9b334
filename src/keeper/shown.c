#include "keeper/shown.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <time.h>
#include <unistd.h>

#include "agent/channel.h"
#include "base/alloc.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "base/table.h"
#include "keeper/tenant_file.h"

enum {
    REFRESH_CPU_USEC = 1000, /* a jail that has run for less has changed nothing worth a write */
    CPUINFO_READ_BYTES = 16 * 1024 * 1024,
    TICK_USEC = 10 * 1000, /* of /proc/stat: USER_HZ is 100 everywhere */
    PATH_BYTES = 64,
    TOPOLOGY_BYTES = 64, /* of a line of cpuinfo that is written anew */
};

enum { FILE_MEMINFO, FILE_STAT, FILE_CPUINFO, FILE_ONLINE };

const struct shown_file shown_files[SHOWN_FILES] = {
    [FILE_MEMINFO] = {"meminfo", "meminfo", false},
    [FILE_STAT] = {"stat", "stat", false},
    [FILE_CPUINFO] = {"cpuinfo", "cpuinfo", false},
    [FILE_ONLINE] = {"online", "devices/system/cpu/online", true},
};

/* A jail that was asked for. */
struct note {
    char id[KEEPER_ID_BYTES];
    UT_hash_handle hh;
    pid_t first;
    struct cgroup_limits limits;
    uint64_t cpu_usec; /* at the last write */
};

struct shown {
    uint32_t cpus; /* of the host, that the keeper may use */
    uint16_t cpu[SHOWN_CPUS_MAX];
    uint64_t memory_bytes;
    uint64_t boot_s;
    char *cpuinfo; /* the host's */
    char *text;    /* room for any of the files */
    size_t text_bytes;
    struct note *notes;
};

/* ---- the host ---- */

static void cpus_find(struct shown *shown)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof(set), &set) < 0) {
        return; /* more than SHOWN_CPUS_MAX: nobody is bound */
    }
    for (size_t i = 0; i < SHOWN_CPUS_MAX; i++) {
        if (CPU_ISSET(i, &set)) {
            shown->cpu[shown->cpus++] = (uint16_t)i;
        }
    }
}

static int cpuinfo_read(struct shown *shown, struct err *err)
{
    size_t len = 0, room = 64 * 1024;
    ssize_t n = 1;
    scoped_fd fd = open("/proc/cpuinfo", O_RDONLY | O_CLOEXEC);

    shown->cpuinfo = xcalloc(1, room);
    while (fd >= 0 && n > 0 && len < CPUINFO_READ_BYTES) {
        if (room - len < SHOWN_CPU_BYTES) {
            room *= 2;
            shown->cpuinfo = xrealloc(shown->cpuinfo, room);
        }
        n = read(fd, shown->cpuinfo + len, room - len - 1);
        len += n > 0 ? (size_t)n : 0;
    }
    if (fd < 0 || n < 0) {
        return err_sys(err, "read /proc/cpuinfo");
    }
    shown->cpuinfo[len] = '\0';
    shown->text_bytes = len + SHOWN_STAT_BYTES + SHOWN_CPUS_MAX * TOPOLOGY_BYTES;
    shown->text = xcalloc(1, shown->text_bytes);
    return 0;
}

static uint64_t clock_usec(clockid_t clock)
{
    struct timespec now;

    (void)clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static void shown_freep(struct shown **shown)
{
    shown_free(*shown);
}

int shown_new(struct shown **out, struct err *err)
{
    scoped(shown_freep) struct shown *shown = xnew(struct shown);
    struct sysinfo info;

    if (sysinfo(&info) < 0) {
        return err_sys(err, "ask for the host's memory");
    }
    shown->memory_bytes = (uint64_t)info.totalram * info.mem_unit;
    shown->boot_s = (clock_usec(CLOCK_REALTIME) - clock_usec(CLOCK_BOOTTIME)) / 1000000;
    cpus_find(shown);
    int r = cpuinfo_read(shown, err);
    if (r < 0) {
        return r;
    }
    *out = move_ptr(&shown);
    return 0;
}

static void note_free(struct shown *shown, struct note *note)
{
    HASH_DEL(shown->notes, note);
    free(note);
}

void shown_free(struct shown *shown)
{
    if (!shown) {
        return;
    }
    while (shown->notes) {
        note_free(shown, shown->notes);
    }
    free(shown->cpuinfo);
    free(shown->text);
    free(shown);
}

/* ---- processors ---- */

/* A part of one counts as one. */
static uint32_t cpus_of(const struct shown *shown, uint32_t cpu_millis)
{
    uint32_t n = (cpu_millis + 999) / 1000;

    return n < shown->cpus ? n : shown->cpus;
}

/* Jails take the processors in turns, so that each has about as many jails as any other. */
int shown_bind(const struct shown *shown, const struct keeper_plan *plan, struct err *err)
{
    const uint32_t n = cpus_of(shown, plan->cpu_millis);
    cpu_set_t set;

    if (n == shown->cpus) {
        return 0;
    }
    CPU_ZERO(&set);
    for (uint32_t i = 0; i < n; i++) {
        uint64_t turn = (uint64_t)plan->uid_slot * n + i;
        CPU_SET(shown->cpu[turn % shown->cpus], &set);
    }
    return sched_setaffinity(0, sizeof(set), &set) < 0
               ? err_sys(err, "bind the jail to its processors")
               : 0;
}

/* ---- the texts ---- */

struct text {
    char *at;
    size_t len, size;
};

__attribute__((format(printf, 2, 3))) static void text_add(struct text *text, const char *format,
                                                           ...)
{
    va_list args;

    va_start(args, format);
    int n = vsnprintf(text->at + text->len, text->size - text->len, format, args);
    va_end(args);
    assert(n >= 0 && (size_t)n < text->size - text->len);
    text->len += (size_t)n;
}

static void kb_add(struct text *text, const char *name, uint64_t bytes)
{
    text_add(text, "%-16s%11" PRIu64 " kB\n", name, bytes / 1024);
}

/* What the kernel would have to write to a disk, or keeps for itself, is charged to the jail as
 * well and shows as used. There is no swap for jails. */
size_t shown_meminfo(const struct shown_figures *f, char out[SHOWN_MEMINFO_BYTES])
{
    struct text text = {.at = out, .size = SHOWN_MEMINFO_BYTES};
    const uint64_t used = f->used_bytes < f->memory_bytes ? f->used_bytes : f->memory_bytes;
    const uint64_t cache = f->cache_bytes < used ? f->cache_bytes : used;
    const uint64_t free_bytes = f->memory_bytes - used;

    kb_add(&text, "MemTotal:", f->memory_bytes);
    kb_add(&text, "MemFree:", free_bytes);
    kb_add(&text, "MemAvailable:", free_bytes + cache);
    kb_add(&text, "Buffers:", 0);
    kb_add(&text, "Cached:", cache);
    kb_add(&text, "SwapCached:", 0);
    kb_add(&text, "Active:", used - cache);
    kb_add(&text, "Inactive:", cache);
    kb_add(&text, "Active(anon):", used - cache);
    kb_add(&text, "Inactive(anon):", 0);
    kb_add(&text, "Active(file):", 0);
    kb_add(&text, "Inactive(file):", cache);
    static const char *const none[] = {
        "Unevictable:", "Mlocked:", "SwapTotal:", "SwapFree:", "Dirty:", "Writeback:"};
    for (size_t i = 0; i < countof(none); i++) {
        kb_add(&text, none[i], 0);
    }
    kb_add(&text, "AnonPages:", used - cache);
    static const char *const unknown[] = {
        "Mapped:",       "Shmem:",      "KReclaimable:", "Slab:",
        "SReclaimable:", "SUnreclaim:", "KernelStack:",  "PageTables:"};
    for (size_t i = 0; i < countof(unknown); i++) {
        kb_add(&text, unknown[i], 0);
    }
    kb_add(&text, "CommitLimit:", f->memory_bytes);
    kb_add(&text, "Committed_AS:", used - cache);
    text_add(&text, "HugePages_Total:%11d\nHugePages_Free: %11d\n", 0, 0);
    kb_add(&text, "Hugepagesize:", 2048 * 1024);
    return text.len;
}

/* The time that it ran is not told apart: all of it is a user's. What is left of its processors'
 * time is idle. */
static void cpu_add(struct text *text, const char *name, uint64_t used_usec, uint64_t up_usec)
{
    uint64_t idle_usec = used_usec < up_usec ? up_usec - used_usec : 0;

    text_add(text, "%-8s %14" PRIu64 " 0 0 %14" PRIu64 " 0 0 0 0 0 0\n", name,
             used_usec / TICK_USEC, idle_usec / TICK_USEC);
}

size_t shown_stat(const struct shown_figures *f, char out[SHOWN_STAT_BYTES])
{
    struct text text = {.at = out, .size = SHOWN_STAT_BYTES};

    cpu_add(&text, "cpu", f->cpu_usec, f->up_usec * f->cpus);
    for (uint32_t i = 0; i < f->cpus; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "cpu%" PRIu32, i);
        cpu_add(&text, name, f->cpu_usec / f->cpus, f->up_usec);
    }
    text_add(&text,
             "intr 0\nctxt 0\nbtime %" PRIu64 "\nprocesses 0\nprocs_running 1\nprocs_blocked 0\n"
             "softirq 0 0 0 0 0 0 0 0 0 0 0\n",
             f->boot_s);
    return text.len;
}

/* Whether a line has that name, which blanks, tabs and a colon follow. */
static bool line_names(struct str line, const char *name)
{
    size_t len = strlen(name);

    return line.len > len && memcmp(line.at, name, len) == 0 &&
           (line.at[len] == '\t' || line.at[len] == ' ' || line.at[len] == ':');
}

size_t shown_cpuinfo(const char *host, uint32_t cpus, char *out, size_t size)
{
    struct text text = {.at = out, .size = size};
    struct str rest = str_of(host), line;
    uint32_t seen = 0;

    while (str_split(&rest, '\n', &line)) {
        seen += line_names(line, "processor");
        if (seen > cpus) {
            break;
        }
        if (line_names(line, "siblings") || line_names(line, "cpu cores")) {
            text_add(&text, "%.*s %" PRIu32 "\n", (int)(str_find(line, ':') + 1), line.at, cpus);
        } else if (rest.len || line.len) {
            text_add(&text, "%.*s\n", (int)line.len, line.at);
        }
    }
    return text.len;
}

size_t shown_online(uint32_t cpus, char out[32])
{
    struct text text = {.at = out, .size = 32};

    if (cpus > 1) {
        text_add(&text, "0-%" PRIu32 "\n", cpus - 1);
    } else {
        text_add(&text, "0\n");
    }
    return text.len;
}

static struct shown_figures figures_of(const struct shown *shown,
                                       const struct cgroup_limits *limits,
                                       const struct keeper_usage *usage)
{
    const uint64_t memory_bytes = (uint64_t)limits->memory_mb << 20;

    return (struct shown_figures){
        .memory_bytes = memory_bytes < shown->memory_bytes ? memory_bytes : shown->memory_bytes,
        .used_bytes = usage->memory_bytes,
        .cache_bytes = usage->memory_cache_bytes,
        .cpus = cpus_of(shown, limits->cpu_millis),
        .cpu_usec = usage->cpu_usec,
        .up_usec = clock_usec(CLOCK_BOOTTIME),
        .boot_s = shown->boot_s,
    };
}

/* In shown->text. */
static size_t text_make(const struct shown *shown, const struct shown_figures *f, size_t file)
{
    switch (file) {
    case FILE_MEMINFO:
        return shown_meminfo(f, shown->text);
    case FILE_STAT:
        return shown_stat(f, shown->text);
    case FILE_CPUINFO:
        return shown_cpuinfo(shown->cpuinfo, f->cpus, shown->text, shown->text_bytes);
    default:
        return shown_online(f->cpus, shown->text);
    }
}

/* ---- a new jail ---- */

int shown_make(const struct shown *shown, const struct keeper_plan *plan, int dir_fd, size_t i,
               struct err *err)
{
    const struct cgroup_limits limits = {plan->cpu_millis, plan->memory_mb, plan->pids};
    const struct shown_figures f = figures_of(shown, &limits, &(struct keeper_usage){0});
    size_t len = text_make(shown, &f, i);
    scoped_fd fd =
        openat(dir_fd, shown_files[i].name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);

    return fd < 0 || write(fd, shown->text, len) != (ssize_t)len
               ? err_sys(err, "write the jail's %s", shown_files[i].name)
               : 0;
}

/* ---- one that runs ---- */

static int file_write(const struct shown *shown, const struct shown_figures *f, int root_fd,
                      size_t i, struct err *err)
{
    const struct tenant_want want = {.access = O_WRONLY, .bytes_max = SHOWN_BYTES_MAX};
    char path[PATH_BYTES];
    struct stat st;

    (void)snprintf(path, sizeof(path), "%s/%s", &CHANNEL_DIR[1], shown_files[i].name);
    scoped_fd fd = tenant_file_open(root_fd, path, &want, err);
    if (fd < 0) {
        return fd;
    }
    size_t len = text_make(shown, f, i);
    if (pwrite(fd, shown->text, len, 0) != (ssize_t)len || fstat(fd, &st) < 0 ||
        (st.st_size != (off_t)len && ftruncate(fd, (off_t)len) < 0)) {
        return err_sys(err, "write /%s of the jail", path);
    }
    return 0;
}

void shown_restored(const struct shown *shown, struct cgroups *groups, const char *id,
                    const struct keeper_plan *plan, pid_t first)
{
    const struct cgroup_limits limits = {plan->cpu_millis, plan->memory_mb, plan->pids};
    struct keeper_usage usage = {0};
    struct err err;
    scoped_fd root = tenant_root_open(first, &err);
    int r = root < 0 ? root : 0;

    (void)!cgroups_sample(groups, id, &usage);
    const struct shown_figures f = figures_of(shown, &limits, &usage);
    for (size_t i = 0; r == 0 && i < SHOWN_FILES; i++) {
        r = file_write(shown, &f, root, i, &err);
    }
    if (r < 0) {
        log_info("jail %s goes on with the size that its source was shown: %s", id, err.msg);
    }
}

static struct note *note_of(struct shown *shown, struct cgroups *groups, const char *id)
{
    struct note *note = NULL;

    HASH_FIND_STR(shown->notes, id, note);
    if (note) {
        return note;
    }
    struct cgroup_limits limits;
    pid_t first = cgroups_first(groups, id);
    if (first <= 0 || cgroups_limits(groups, id, &limits) < 0) {
        return NULL;
    }
    note = xnew(struct note);
    note->first = first;
    note->limits = limits;
    (void)str_copy(note->id, sizeof(note->id), str_of(id));
    HASH_ADD_STR(shown->notes, id, note);
    return note;
}

/* The pid is looked at once its root is open: what was opened is not a later owner's. */
static int note_root(const struct note *note, struct cgroups *groups, struct err *err)
{
    scoped_fd root = tenant_root_open(note->first, err);

    if (root < 0) {
        return root;
    }
    return cgroups_holds(groups, note->id, note->first)
               ? move_fd(&root)
               : err_set(err, ESRCH, "process %d is not of jail %s", note->first, note->id);
}

void shown_refresh(struct shown *shown, struct cgroups *groups, const char *id,
                   const struct keeper_usage *usage)
{
    struct note *note = note_of(shown, groups, id);
    struct err err;

    if (!note || usage->cpu_usec - note->cpu_usec < REFRESH_CPU_USEC) {
        return;
    }
    scoped_fd root = note_root(note, groups, &err);
    if (root < 0) {
        note_free(shown, note); /* the next time finds out anew */
        return;
    }
    note->cpu_usec = usage->cpu_usec;
    const struct shown_figures f = figures_of(shown, &note->limits, usage);
    /* What its root has put in their place is its own affair. */
    (void)!file_write(shown, &f, root, FILE_MEMINFO, &err);
    (void)!file_write(shown, &f, root, FILE_STAT, &err);
}

void shown_forget(struct shown *shown, const char *id)
{
    struct note *note = NULL;

    HASH_FIND_STR(shown->notes, id, note);
    if (note) {
        note_free(shown, note);
    }
}
