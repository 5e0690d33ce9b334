#include "keeper/jail/cgroup.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "keeper/jail/cgroup_tree.h"
#include "keeper/jail/kernel_setting.h"
#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/fd.h"
#include "lib/base/small_file.h"

enum {
    CPU_PERIOD_US = 100 * 1000, /* the kernel's default; too short to be noticed as stalls */
    PROCS_BYTES = 1024 * 1024,
    FREEZE_TIMEOUT_MS = 5000,
    FREEZE_POLL_MS = 1,
    SOCKET_SHARE = 4, /* 1/4 of a jail's memory may be buffers of sockets; limited by v1 alone */
};

/* ---- limits ---- */

static int limit_cpu(int dir_fd, bool v2, uint32_t millis, struct err *err)
{
    uint64_t quota_us = (uint64_t)millis * CPU_PERIOD_US / 1000;
    char text[48];

    if (!v2) {
        return kernel_setting_write_number(dir_fd, "cpu.cfs_quota_us", quota_us, err);
    }
    (void)snprintf(text, sizeof(text), "%" PRIu64 " %d", quota_us, CPU_PERIOD_US);
    return kernel_setting_write(dir_fd, "cpu.max", text, err);
}

/* No swap: it would let a jail exceed its limit, and slow down the disk for all. */
static int limit_memory(int dir_fd, bool v2, uint32_t memory_mb, struct err *err)
{
    uint64_t bytes = (uint64_t)memory_mb << 20;

    if (v2) {
        int r = kernel_setting_write_number(dir_fd, "memory.max", bytes, err);
        return r < 0 ? r : kernel_setting_write_number_if(dir_fd, "memory.swap.max", 0, err);
    }
    int r = kernel_setting_write_number(dir_fd, "memory.limit_in_bytes", bytes, err);
    if (r == 0) {
        r = kernel_setting_write_number_if(dir_fd, "memory.memsw.limit_in_bytes", bytes, err);
    }
    /* Without this limit, socket buffers are bounded only for the whole host. */
    bytes /= SOCKET_SHARE;
    return r < 0 ? r
                 : kernel_setting_write_number_if(dir_fd, "memory.kmem.tcp.limit_in_bytes", bytes,
                                                  err);
}

int cgroup_limit(int dir_fd, bool v2, unsigned which, const struct cgroup_limits *limits,
                 struct err *err)
{
    int r = 0;

    if (which & CGROUP_CPU) {
        r = limit_cpu(dir_fd, v2, limits->cpu_millis, err);
    }
    if (r == 0 && which & CGROUP_MEMORY) {
        r = limit_memory(dir_fd, v2, limits->memory_mb, err);
    }
    if (r == 0 && which & CGROUP_PIDS) {
        r = kernel_setting_write_number(dir_fd, "pids.max", limits->pids, err);
    }
    return r;
}

/* ---- the groups of one jail ---- */

static int leaf_create(const struct hierarchy *h, const char *id,
                       const struct cgroup_limits *limits, struct err *err)
{
    /* EEXIST is an error: adopting a stale group would inherit its processes and counters. */
    if (mkdirat(h->dir_fd, id, 0755) < 0) {
        return err_sys(err, "make the control group of jail %s", id);
    }
    scoped_fd fd = cgroup_leaf_open(h, id);
    int r = fd < 0 ? err_sys(err, "open the control group of jail %s", id)
                   : cgroup_limit(fd, h->v2, h->controllers, limits, err);
    if (r < 0) {
        (void)unlinkat(h->dir_fd, id, AT_REMOVEDIR);
        return r;
    }
    return move_fd(&fd);
}

int cgroups_create(struct cgroups *groups, const char *id, const struct cgroup_limits *limits,
                   struct err *err)
{
    scoped_fd v2 = leaf_create(&groups->at[0], id, limits, err);
    size_t i;

    if (v2 < 0) {
        return v2;
    }
    for (i = 1; i < groups->n; i++) {
        scoped_fd fd = leaf_create(&groups->at[i], id, limits, err);
        if (fd < 0) {
            break;
        }
    }
    if (i == groups->n) {
        return move_fd(&v2);
    }
    int r = -err->code;
    while (i-- > 0) {
        (void)unlinkat(groups->at[i].dir_fd, id, AT_REMOVEDIR);
    }
    /* Only the v2 leaf says that a jail exists; a stray v1 leaf does not. */
    return r == -EEXIST ? err_set(err, EBUSY, "jail %s left a v1 control group behind", id) : r;
}

bool cgroups_exists(struct cgroups *groups, const char *id)
{
    return faccessat(groups->at[0].dir_fd, id, F_OK, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT;
}

int cgroups_v1_open(struct cgroups *groups, const char *id, struct cgroup_v1_files *out,
                    struct err *err)
{
    char file[CGROUP_PATH_BYTES];

    *out = CGROUP_V1_FILES_NONE;
    (void)snprintf(file, sizeof(file), "%s/tasks", id);
    for (size_t i = 1; i < groups->n; i++) {
        out->fds[i] = openat(groups->at[i].dir_fd, file, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
        if (out->fds[i] < 0) {
            (void)err_sys(err, "open %s", file);
            cgroups_v1_closep(out);
            return -err->code;
        }
    }
    return 0;
}

void cgroups_v1_closep(struct cgroup_v1_files *v1_files)
{
    for (size_t i = 0; i < CGROUP_MOUNTS_MAX; i++) {
        fd_closep(&v1_files->fds[i]);
    }
}

int cgroups_v1_enter(const struct cgroup_v1_files *v1_files, struct err *err)
{
    for (size_t i = 0; i < CGROUP_MOUNTS_MAX; i++) {
        if (v1_files->fds[i] >= 0 && write(v1_files->fds[i], "0", 1) < 0) {
            return err_sys(err, "enter a control group");
        }
    }
    return 0;
}

int cgroups_kill(struct cgroups *groups, const char *id, struct err *err)
{
    char file[CGROUP_PATH_BYTES];

    (void)snprintf(file, sizeof(file), "%s/cgroup.kill", id);
    int r = kernel_setting_write(groups->at[0].dir_fd, file, "1", err);
    return r == -ENOENT || r == -ENODEV ? 0 : r;
}

/* Waits for the kernel's report that all have stopped. A process in an uninterruptible system call,
 * or a parent in vfork(), delays it. */
static bool frozen_await(int events_fd)
{
    struct pollfd event = {.fd = events_fd, .events = POLLPRI};
    int64_t deadline_ms = clock_mono_ms() + FREEZE_TIMEOUT_MS;
    char text[CGROUP_STAT_BYTES];

    for (;;) {
        ssize_t n = pread(events_fd, text, sizeof(text) - 1, 0);
        text[n > 0 ? n : 0] = '\0';
        if (cgroup_stat_value(text, "frozen") == 1) {
            return true;
        }
        int64_t left_ms = deadline_ms - clock_mono_ms();
        if (left_ms <= 0) {
            return false;
        }
        /* Polls as well: the kernel delays events of a group for some time. */
        (void)poll(&event, 1, FREEZE_POLL_MS);
    }
}

int cgroups_freeze(struct cgroups *groups, const char *id, struct err *err)
{
    char file[CGROUP_PATH_BYTES];

    (void)snprintf(file, sizeof(file), "%s/cgroup.freeze", id);
    scoped_fd events = cgroups_events(groups, id);
    int r = events < 0 ? err_set(err, -events, "jail %s does not run", id)
                       : kernel_setting_write(groups->at[0].dir_fd, file, "1", err);
    if (r == 0 && !frozen_await(events)) {
        cgroups_thaw(groups, id);
        return err_set(err, EBUSY, "processes of jail %s do not stand still", id);
    }
    return r;
}

void cgroups_thaw(struct cgroups *groups, const char *id)
{
    char file[CGROUP_PATH_BYTES];
    struct err ignored;

    (void)snprintf(file, sizeof(file), "%s/cgroup.freeze", id);
    (void)!kernel_setting_write(groups->at[0].dir_fd, file, "0", &ignored);
}

/* The v2 leaf goes last: while it exists the jail is listed, so an interrupted removal is found. */
int cgroups_remove(struct cgroups *groups, const char *id, struct err *err)
{
    for (size_t i = groups->n; i-- > 0;) {
        if (unlinkat(groups->at[i].dir_fd, id, AT_REMOVEDIR) == 0 || errno == ENOENT) {
            continue;
        }
        if (errno == EBUSY) {
            return -EBUSY;
        }
        return err_sys(err, "remove the control group of jail %s", id);
    }
    return 0;
}

int cgroups_events(struct cgroups *groups, const char *id)
{
    char file[CGROUP_PATH_BYTES];

    (void)snprintf(file, sizeof(file), "%s/cgroup.events", id);
    int fd = openat(groups->at[0].dir_fd, file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    return fd < 0 ? -errno : fd;
}

/* On 64-bit machines the inode of a group is its id. */
uint64_t cgroups_number(struct cgroups *groups, const char *id)
{
    struct stat st;

    return fstatat(groups->at[0].dir_fd, id, &st, AT_SYMLINK_NOFOLLOW) < 0 ? 0 : st.st_ino;
}

uint64_t cgroups_memory_limit(struct cgroups *groups, const char *id)
{
    for (size_t i = 0; i < groups->n; i++) {
        const struct hierarchy *h = &groups->at[i];
        scoped_fd leaf = h->controllers & CGROUP_MEMORY ? cgroup_leaf_open(h, id) : -1;
        if (leaf >= 0) {
            return small_file_number(leaf, h->v2 ? "memory.max" : "memory.limit_in_bytes");
        }
    }
    return 0;
}

int cgroups_leaf(struct cgroups *groups, const char *id)
{
    int fd = cgroup_leaf_open(&groups->at[0], id);

    return fd < 0 ? -errno : fd;
}

/* The last number of NSpid is the pid inside the jail. */
static bool is_first(pid_t pid)
{
    char path[32], text[CGROUP_STAT_BYTES];

    (void)snprintf(path, sizeof(path), "/proc/%d/status", pid);
    (void)small_file_read(AT_FDCWD, path, text, sizeof(text));
    const char *line = strstr(text, "\nNSpid:");
    const char *end = line ? strchr(line + 1, '\n') : NULL;
    return end && end - line > 2 && end[-1] == '1' && end[-2] == '\t';
}

pid_t cgroups_first(struct cgroups *groups, const char *id)
{
    char *text = xcalloc(1, PROCS_BYTES);
    scoped_fd leaf = cgroup_leaf_open(&groups->at[0], id);
    pid_t found = 0;

    if (leaf >= 0) {
        (void)small_file_read(leaf, "cgroup.procs", text, PROCS_BYTES);
    }
    for (char *at = text; *at && !found; at += *at == '\n') {
        pid_t pid = (pid_t)strtol(at, &at, 10);
        found = is_first(pid) ? pid : 0;
    }
    free(text);
    return found;
}

bool cgroups_populated(struct cgroups *groups, const char *id)
{
    char text[CGROUP_STAT_BYTES];
    scoped_fd leaf = cgroup_leaf_open(&groups->at[0], id);

    if (leaf < 0) {
        return false;
    }
    (void)small_file_read(leaf, "cgroup.events", text, sizeof(text));
    return cgroup_stat_value(text, "populated") == 1;
}

bool cgroups_holds(struct cgroups *groups, const char *id, pid_t pid)
{
    char path[40];
    char want[CGROUP_PATH_BYTES + 64];
    char text[CGROUP_STAT_BYTES];

    (void)snprintf(path, sizeof(path), "/proc/%d/cgroup", pid);
    (void)small_file_read(AT_FDCWD, path, text, sizeof(text));
    int n = snprintf(want, sizeof(want), "/%s/%s\n", groups->parent, id);

    /* The line of the v2 hierarchy is "0::" and a path. Seen from a cgroup namespace the path may
     * have more parts in front. */
    const char *line = strncmp(text, "0::", 3) == 0 ? text : strstr(text, "\n0::");
    const char *end = line ? strchr(line + 1, '\n') : NULL;
    return end && end + 1 - line >= n && strncmp(end + 1 - n, want, (size_t)n) == 0;
}
