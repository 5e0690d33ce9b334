#include "keeper/jail/cgroup.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "keeper/disk/mounts.h"
#include "keeper/jail/host.h"
#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/fd.h"
#include "lib/base/small_file.h"
#include "lib/base/str.h"

enum {
    CPU_PERIOD_US = 100 * 1000, /* the kernel's default; short enough not to show as stalls */
    STAT_BYTES = 8192,
    PROCS_BYTES = 1024 * 1024,
    SWEEP_TRIES = 1000,
    SWEEP_POLL_MS = 2,
    MOUNTINFO_BYTES = 256 * 1024,
    ID_ROOM = NAME_MAX + 1,
    TASKS_MAX = 8, /* on one jail, that end at one time */
    FREEZE_TIMEOUT_MS = 5000,
    FREEZE_POLL_MS = 1,
    SOCKET_SHARE = 4, /* of a jail's memory, one part of so many may lie in sockets; v1 alone */
};

struct hierarchy {
    int dir_fd; /* atoll-<instance> */
    bool v2;
    unsigned controllers; /* those that are limited here */
};

struct cgroups {
    struct hierarchy at[CGROUP_MOUNTS_MAX]; /* at[0] is v2, always */
    size_t n;
    char parent[80];
};

static const struct {
    const char *name;
    unsigned controller;
    uint32_t lack;
} controllers[] = {
    {"cpu", CGROUP_CPU, KEEPER_LACKS_CPU_LIMIT},
    {"memory", CGROUP_MEMORY, KEEPER_LACKS_MEMORY_LIMIT},
    {"pids", CGROUP_PIDS, KEEPER_LACKS_PIDS_LIMIT},
};

/* ---- knobs ---- */

static int knob_write(int dir_fd, const char *knob, const char *value, struct err *err)
{
    /* No O_CREAT: a missing knob means a missing controller, which must not pass silently. */
    scoped_fd fd = openat(dir_fd, knob, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) {
        return err_sys(err, "open %s", knob);
    }
    /* The kernel parses each write() as one command, so a short write is a failure, not a retry. */
    size_t len = strlen(value);
    ssize_t n = write(fd, value, len);
    if (n < 0) {
        return err_sys(err, "write '%s' to %s", value, knob);
    }
    if ((size_t)n != len) {
        return err_set(err, EIO, "write '%s' to %s: %zd of %zu bytes", value, knob, n, len);
    }
    return 0;
}

static int knob_write_number(int dir_fd, const char *knob, uint64_t value, struct err *err)
{
    char text[24];

    (void)snprintf(text, sizeof(text), "%" PRIu64, value);
    return knob_write(dir_fd, knob, text, err);
}

/* For knobs that exist only when the kernel accounts swap. */
static int knob_write_number_if(int dir_fd, const char *knob, uint64_t value, struct err *err)
{
    int r = knob_write_number(dir_fd, knob, value, err);

    return r == -ENOENT ? 0 : r;
}

uint64_t cgroup_stat_value(const char *text, const char *key)
{
    size_t len = strlen(key);

    for (const char *line = text; line && *line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, key, len) == 0 && line[len] == ' ') {
            return strtoull(line + len + 1, NULL, 10);
        }
    }
    return 0;
}

/* ---- finding the hierarchies ---- */

static bool word_in(struct str words, char sep, const char *word)
{
    struct str part;

    while (str_split(&words, sep, &part)) {
        if (str_eq(str_trim(part), str_of(word))) {
            return true;
        }
    }
    return false;
}

static unsigned controllers_in(struct str words, char sep)
{
    unsigned found = 0;

    for (size_t i = 0; i < countof(controllers); i++) {
        found |= word_in(words, sep, controllers[i].name) ? controllers[i].controller : 0;
    }
    return found;
}

/* One line of mountinfo: the fifth field, and type and options after " - ". */
static bool mount_line(struct str line, struct str *path, struct str *type, struct str *options)
{
    struct str field = {0};
    int at = 0;

    while (str_split(&line, ' ', &field) && !(at >= 6 && str_eq(field, STR("-")))) {
        *path = ++at == 5 ? field : *path;
    }
    return str_split(&line, ' ', type) && str_split(&line, ' ', &field) &&
           str_split(&line, ' ', options);
}

void cgroup_mounts_find(const char *mountinfo, struct cgroup_mounts *out)
{
    struct str rest = str_of(mountinfo);
    struct str line;
    unsigned claimed = 0;

    *out = (struct cgroup_mounts){.n = 1};
    while (str_split(&rest, '\n', &line)) {
        struct str path = {0}, type = {0}, options = {0};
        if (!mount_line(line, &path, &type, &options)) {
            continue;
        }
        if (str_eq(type, STR("cgroup2")) && !out->at[0].path[0]) {
            (void)str_copy(out->at[0].path, CGROUP_MOUNT_PATH_BYTES, path);
        }
        unsigned found = controllers_in(options, ',') & ~claimed;
        if (str_eq(type, STR("cgroup")) && found && out->n < CGROUP_MOUNTS_MAX &&
            str_copy(out->at[out->n].path, CGROUP_MOUNT_PATH_BYTES, path)) {
            out->at[out->n++].controllers = found;
            claimed |= found;
        }
    }
}

static int parent_open(int root_fd, const char *name, struct err *err)
{
    if (mkdirat(root_fd, name, 0755) < 0 && errno != EEXIST) {
        return err_sys(err, "make the control group %s", name);
    }
    int fd = openat(root_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    return fd < 0 ? err_sys(err, "open the control group %s", name) : fd;
}

/* Lets children of dir_fd be limited by whichever of our controllers it has, one by one: one that
 * is refused must not cost the others. */
static void controllers_enable(int dir_fd)
{
    char text[STAT_BYTES];
    struct err ignored;

    (void)small_file_read(dir_fd, "cgroup.controllers", text, sizeof(text));
    text[strcspn(text, "\n")] = '\0';
    for (size_t i = 0; i < countof(controllers); i++) {
        if (word_in(str_of(text), ' ', controllers[i].name)) {
            char command[16];
            (void)snprintf(command, sizeof(command), "+%s", controllers[i].name);
            (void)knob_write(dir_fd, "cgroup.subtree_control", command, &ignored);
        }
    }
}

static int unified_open(struct cgroups *groups, const char *path, struct err *err)
{
    /* Mounting it a second time would reset the options of the host's mount: only when there is
     * none, and then detached, so that the host sees no new mount. */
    scoped_fd root = path[0] ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
                             : mounts_new("cgroup2", NULL, 0, err);
    if (root < 0) {
        return path[0] ? err_sys(err, "open %s", path) : root;
    }
    controllers_enable(root);
    scoped_fd dir = parent_open(root, groups->parent, err);
    if (dir < 0) {
        return dir;
    }
    controllers_enable(dir);

    char text[STAT_BYTES];
    (void)small_file_read(dir, "cgroup.subtree_control", text, sizeof(text));
    text[strcspn(text, "\n")] = '\0';
    groups->at[0] = (struct hierarchy){
        .v2 = true,
        .controllers = controllers_in(str_of(text), ' '),
        .dir_fd = move_fd(&dir),
    };
    groups->n = 1;
    return 0;
}

static int legacy_open(struct cgroups *groups, const char *path, unsigned found, struct err *err)
{
    scoped_fd root = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (root < 0) {
        return err_sys(err, "open %s", path);
    }
    int dir = parent_open(root, groups->parent, err);
    if (dir < 0) {
        return dir;
    }
    groups->at[groups->n++] = (struct hierarchy){.dir_fd = dir, .controllers = found};
    return 0;
}

static void cgroups_closep(struct cgroups **groups)
{
    cgroups_close(*groups);
}

int cgroups_open(const char *instance, struct cgroups **out, struct err *err)
{
    scoped(cgroups_closep) struct cgroups *groups = xnew(struct cgroups);
    struct cgroup_mounts mounts;

    (void)snprintf(groups->parent, sizeof(groups->parent), "atoll-%s", instance);
    char *text = xcalloc(1, MOUNTINFO_BYTES);
    (void)small_file_read(AT_FDCWD, "/proc/self/mountinfo", text, MOUNTINFO_BYTES);
    cgroup_mounts_find(text, &mounts);
    free(text);

    int r = unified_open(groups, mounts.at[0].path, err);
    for (size_t i = 1; r == 0 && i < mounts.n; i++) {
        unsigned wanted = mounts.at[i].controllers & ~groups->at[0].controllers;
        r = wanted ? legacy_open(groups, mounts.at[i].path, wanted, err) : 0;
    }
    if (r < 0) {
        return r;
    }
    for (size_t i = 0; i < groups->n; i++) {
        if (groups->at[i].controllers & CGROUP_PIDS) {
            host_pids_limit(groups->at[i].dir_fd);
        }
    }
    *out = move_ptr(&groups);
    return 0;
}

void cgroups_close(struct cgroups *groups)
{
    if (!groups) {
        return;
    }
    if (groups->n) {
        cgroups_task_sweep(groups, 0);
    }
    for (size_t i = 0; i < groups->n; i++) {
        scoped_fd above = openat(groups->at[i].dir_fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
        (void)unlinkat(above, groups->parent, AT_REMOVEDIR); /* EBUSY while jails are in it */
        fd_closep(&groups->at[i].dir_fd);
    }
    free(groups);
}

uint32_t cgroups_lacks(const struct cgroups *groups)
{
    unsigned found = 0;
    uint32_t lacks = 0;

    for (size_t i = 0; i < groups->n; i++) {
        found |= groups->at[i].controllers;
    }
    for (size_t i = 0; i < countof(controllers); i++) {
        lacks |= found & controllers[i].controller ? 0 : controllers[i].lack;
    }
    return lacks;
}

/* ---- one jail ---- */

static int limit_cpu(int dir_fd, bool v2, uint32_t millis, struct err *err)
{
    uint64_t quota_us = (uint64_t)millis * CPU_PERIOD_US / 1000;
    char text[48];

    if (!v2) {
        return knob_write_number(dir_fd, "cpu.cfs_quota_us", quota_us, err);
    }
    (void)snprintf(text, sizeof(text), "%" PRIu64 " %d", quota_us, CPU_PERIOD_US);
    return knob_write(dir_fd, "cpu.max", text, err);
}

/* Swap would let a jail past its limit, and slow everybody's disk: none. */
static int limit_memory(int dir_fd, bool v2, uint32_t memory_mb, struct err *err)
{
    uint64_t bytes = (uint64_t)memory_mb << 20;

    if (v2) {
        int r = knob_write_number(dir_fd, "memory.max", bytes, err);
        return r < 0 ? r : knob_write_number_if(dir_fd, "memory.swap.max", 0, err);
    }
    int r = knob_write_number(dir_fd, "memory.limit_in_bytes", bytes, err);
    if (r == 0) {
        r = knob_write_number_if(dir_fd, "memory.memsw.limit_in_bytes", bytes, err);
    }
    /* Else buffers of sockets count for the whole host alone. */
    bytes /= SOCKET_SHARE;
    return r < 0 ? r : knob_write_number_if(dir_fd, "memory.kmem.tcp.limit_in_bytes", bytes, err);
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
        r = knob_write_number(dir_fd, "pids.max", limits->pids, err);
    }
    return r;
}

static int leaf_open(const struct hierarchy *h, const char *id)
{
    return openat(h->dir_fd, id, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
}

static int leaf_create(const struct hierarchy *h, const char *id,
                       const struct cgroup_limits *limits, struct err *err)
{
    /* EEXIST is an error: adopting a stale group would inherit its processes and counters. */
    if (mkdirat(h->dir_fd, id, 0755) < 0) {
        return err_sys(err, "make the control group of jail %s", id);
    }
    scoped_fd fd = leaf_open(h, id);
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
    /* Only the v2 leaf tells whether the jail exists; a stray v1 one is not that. */
    return r == -EEXIST ? err_set(err, EBUSY, "jail %s left a v1 control group behind", id) : r;
}

int cgroups_doors_open(struct cgroups *groups, const char *id, struct cgroup_doors *out,
                       struct err *err)
{
    char knob[ID_ROOM + 16];

    *out = CGROUP_DOORS_NONE;
    (void)snprintf(knob, sizeof(knob), "%s/tasks", id);
    for (size_t i = 1; i < groups->n; i++) {
        out->fds[i] = openat(groups->at[i].dir_fd, knob, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
        if (out->fds[i] < 0) {
            (void)err_sys(err, "open %s", knob);
            cgroups_doors_closep(out);
            return -err->code;
        }
    }
    return 0;
}

void cgroups_doors_closep(struct cgroup_doors *doors)
{
    for (size_t i = 0; i < CGROUP_MOUNTS_MAX; i++) {
        fd_closep(&doors->fds[i]);
    }
}

int cgroups_doors_pass(const struct cgroup_doors *doors, struct err *err)
{
    for (size_t i = 0; i < CGROUP_MOUNTS_MAX; i++) {
        if (doors->fds[i] >= 0 && write(doors->fds[i], "0", 1) < 0) {
            return err_sys(err, "enter a control group");
        }
    }
    return 0;
}

int cgroups_kill(struct cgroups *groups, const char *id, struct err *err)
{
    char knob[ID_ROOM + 16];

    (void)snprintf(knob, sizeof(knob), "%s/cgroup.kill", id);
    int r = knob_write(groups->at[0].dir_fd, knob, "1", err);
    return r == -ENOENT || r == -ENODEV ? 0 : r;
}

/* The kernel says when all have stopped; a process in the middle of a system call that cannot be
 * interrupted, or a parent in vfork(), keeps it waiting. */
static bool frozen_await(int events_fd)
{
    struct pollfd event = {.fd = events_fd, .events = POLLPRI};
    int64_t deadline_ms = clock_mono_ms() + FREEZE_TIMEOUT_MS;
    char text[STAT_BYTES];

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
        /* Not by the event alone: the kernel holds events of one group back for some time. */
        (void)poll(&event, 1, FREEZE_POLL_MS);
    }
}

int cgroups_freeze(struct cgroups *groups, const char *id, struct err *err)
{
    char knob[ID_ROOM + 16];

    (void)snprintf(knob, sizeof(knob), "%s/cgroup.freeze", id);
    scoped_fd events = cgroups_events(groups, id);
    int r = events < 0 ? err_set(err, -events, "jail %s does not run", id)
                       : knob_write(groups->at[0].dir_fd, knob, "1", err);
    if (r == 0 && !frozen_await(events)) {
        cgroups_thaw(groups, id);
        return err_set(err, EBUSY, "processes of jail %s do not stand still", id);
    }
    return r;
}

void cgroups_thaw(struct cgroups *groups, const char *id)
{
    char knob[ID_ROOM + 16];
    struct err ignored;

    (void)snprintf(knob, sizeof(knob), "%s/cgroup.freeze", id);
    (void)!knob_write(groups->at[0].dir_fd, knob, "0", &ignored);
}

/* Last the v2 leaf: while it stands the jail is listed, so an interrupted removal is not lost. */
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
    char knob[ID_ROOM + 16];

    (void)snprintf(knob, sizeof(knob), "%s/cgroup.events", id);
    int fd = openat(groups->at[0].dir_fd, knob, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    return fd < 0 ? -errno : fd;
}

/* On 64-bit machines a group's inode is its number. */
uint64_t cgroups_number(struct cgroups *groups, const char *id)
{
    struct stat st;

    return fstatat(groups->at[0].dir_fd, id, &st, AT_SYMLINK_NOFOLLOW) < 0 ? 0 : st.st_ino;
}

uint64_t cgroups_memory_limit(struct cgroups *groups, const char *id)
{
    for (size_t i = 0; i < groups->n; i++) {
        const struct hierarchy *h = &groups->at[i];
        scoped_fd leaf = h->controllers & CGROUP_MEMORY ? leaf_open(h, id) : -1;
        if (leaf >= 0) {
            return small_file_number(leaf, h->v2 ? "memory.max" : "memory.limit_in_bytes");
        }
    }
    return 0;
}

int cgroups_leaf(struct cgroups *groups, const char *id)
{
    int fd = leaf_open(&groups->at[0], id);

    return fd < 0 ? -errno : fd;
}

/* The last number of NSpid is the one inside. */
static bool is_first(pid_t pid)
{
    char path[32], text[STAT_BYTES];

    (void)snprintf(path, sizeof(path), "/proc/%d/status", pid);
    (void)small_file_read(AT_FDCWD, path, text, sizeof(text));
    const char *line = strstr(text, "\nNSpid:");
    const char *end = line ? strchr(line + 1, '\n') : NULL;
    return end && end - line > 2 && end[-1] == '1' && end[-2] == '\t';
}

pid_t cgroups_first(struct cgroups *groups, const char *id)
{
    char *text = xcalloc(1, PROCS_BYTES);
    scoped_fd leaf = leaf_open(&groups->at[0], id);
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
    char text[STAT_BYTES];
    scoped_fd leaf = leaf_open(&groups->at[0], id);

    if (leaf < 0) {
        return false;
    }
    (void)small_file_read(leaf, "cgroup.events", text, sizeof(text));
    return cgroup_stat_value(text, "populated") == 1;
}

bool cgroups_holds(struct cgroups *groups, const char *id, pid_t pid)
{
    char path[40];
    char want[ID_ROOM + 96];
    char text[STAT_BYTES];

    (void)snprintf(path, sizeof(path), "/proc/%d/cgroup", pid);
    (void)small_file_read(AT_FDCWD, path, text, sizeof(text));
    int n = snprintf(want, sizeof(want), "/%s/%s\n", groups->parent, id);

    /* The line of the v2 tree is "0::" and a path; seen from a namespace it may start earlier. */
    const char *line = strncmp(text, "0::", 3) == 0 ? text : strstr(text, "\n0::");
    const char *end = line ? strchr(line + 1, '\n') : NULL;
    return end && end + 1 - line >= n && strncmp(end + 1 - n, want, (size_t)n) == 0;
}

static uint64_t memory_cache(const char *stat, bool v2)
{
    return cgroup_stat_value(stat, v2 ? "inactive_file" : "total_inactive_file") +
           cgroup_stat_value(stat, v2 ? "active_file" : "total_active_file");
}

static void usage_memory(int leaf, bool v2, struct keeper_usage *out)
{
    char text[STAT_BYTES];

    out->memory_bytes = small_file_number(leaf, v2 ? "memory.current" : "memory.usage_in_bytes");
    (void)small_file_read(leaf, "memory.stat", text, sizeof(text));
    out->memory_cache_bytes = memory_cache(text, v2);
    (void)small_file_read(leaf, v2 ? "memory.events" : "memory.oom_control", text, sizeof(text));
    out->oom_kills = (uint32_t)cgroup_stat_value(text, "oom_kill");
}

int cgroups_usage(struct cgroups *groups, const char *id, struct keeper_usage *out, struct err *err)
{
    char text[STAT_BYTES];

    for (size_t i = 0; i < groups->n; i++) {
        const struct hierarchy *h = &groups->at[i];
        scoped_fd leaf = leaf_open(h, id);
        if (leaf < 0) {
            return err_sys(err, "open the control group of jail %s", id);
        }
        if (h->v2) { /* accounted in every v2 group, also without the cpu controller */
            (void)small_file_read(leaf, "cpu.stat", text, sizeof(text));
            out->cpu_usec = cgroup_stat_value(text, "usage_usec");
        }
        if (h->controllers & CGROUP_MEMORY) {
            usage_memory(leaf, h->v2, out);
        }
        if (h->controllers & CGROUP_PIDS) {
            out->pids = (uint32_t)small_file_number(leaf, "pids.current");
        }
    }
    return 0;
}

/* A knob of a jail in one open and one read: the kernel gives all that fits the buffer at once. */
static ssize_t knob_peek(const struct hierarchy *h, const char *id, const char *knob, char *text,
                         size_t size)
{
    char path[ID_ROOM + 32];

    (void)snprintf(path, sizeof(path), "%s/%s", id, knob);
    scoped_fd fd = openat(h->dir_fd, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    ssize_t n = fd < 0 ? -errno : read(fd, text, size - 1);
    text[n > 0 ? n : 0] = '\0';
    return n;
}

static void sample_memory(const struct hierarchy *h, const char *id, struct keeper_usage *out)
{
    char text[STAT_BYTES];

    (void)knob_peek(h, id, h->v2 ? "memory.current" : "memory.usage_in_bytes", text, sizeof(text));
    out->memory_bytes = strtoull(text, NULL, 10);
    (void)knob_peek(h, id, "memory.stat", text, sizeof(text));
    out->memory_cache_bytes = memory_cache(text, h->v2);
}

int cgroups_sample(struct cgroups *groups, const char *id, struct keeper_usage *out)
{
    char text[STAT_BYTES];
    ssize_t n = knob_peek(&groups->at[0], id, "cpu.stat", text, sizeof(text));

    if (n < 0) {
        return (int)n;
    }
    out->cpu_usec = cgroup_stat_value(text, "usage_usec");
    for (size_t i = 0; i < groups->n; i++) {
        if (groups->at[i].controllers & CGROUP_MEMORY) {
            sample_memory(&groups->at[i], id, out);
        }
    }
    return 0;
}

static void dir_closep(DIR **dir)
{
    if (*dir) {
        (void)closedir(*dir);
    }
}

static bool is_dots(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static int names_each(struct cgroups *groups, bool hidden,
                      void (*each)(void *ctx, const char *name), void *ctx, struct err *err)
{
    int fd = openat(groups->at[0].dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    scoped(dir_closep) DIR *dir = fd < 0 ? NULL : fdopendir(fd);

    if (!dir) {
        fd_closep(&fd);
        return err_sys(err, "list the control groups");
    }
    for (struct dirent *entry; (entry = readdir(dir));) {
        if (entry->d_type == DT_DIR && (entry->d_name[0] == '.') == hidden &&
            !is_dots(entry->d_name)) {
            each(ctx, entry->d_name);
        }
    }
    return 0;
}

int cgroups_each(struct cgroups *groups, void (*each)(void *ctx, const char *id), void *ctx,
                 struct err *err)
{
    return names_each(groups, false, each, ctx, err);
}

/* ---- groups of the keeper's own ---- */

/* Made anew each time. Kernels since 6.14 kill whoever is started in a group in which processes
 * have been killed before: they compare what is counted there with the count of the starter's
 * group. Who was in it last may not be quite gone. */
int cgroups_task_make(struct cgroups *groups, const char *id, char name[CGROUP_TASK_BYTES],
                      struct err *err)
{
    const int dir_fd = groups->at[0].dir_fd;

    for (int i = 0; i < TASKS_MAX; i++) {
        (void)snprintf(name, CGROUP_TASK_BYTES, i ? ".%s~%d" : ".%s", id, i);
        (void)unlinkat(dir_fd, name, AT_REMOVEDIR);
        if (mkdirat(dir_fd, name, 0755) == 0) {
            int fd = leaf_open(&groups->at[0], name);
            return fd < 0 ? err_sys(err, "open the control group %s", name) : fd;
        }
        if (errno != EEXIST) {
            return err_sys(err, "make a control group for work on jail %s", id);
        }
    }
    return err_set(err, EBUSY, "earlier work on jail %s does not end", id);
}

void cgroups_task_alone(struct cgroups *groups, const char *name)
{
    char knob[CGROUP_TASK_BYTES + 16], text[STAT_BYTES];

    (void)snprintf(knob, sizeof(knob), "%s/cgroup.procs", name);
    (void)small_file_read(groups->at[0].dir_fd, knob, text, sizeof(text));
    for (char *at = text; *at; at += *at == '\n') {
        pid_t pid = (pid_t)strtol(at, &at, 10);
        if (pid > 1 && pid != getpid()) {
            (void)kill(pid, SIGKILL);
        }
    }
}

void cgroups_task_kill(struct cgroups *groups, const char *name)
{
    struct err err;

    (void)!cgroups_kill(groups, name, &err);
}

struct sweep {
    struct cgroups *groups;
    int64_t patient_until_ms; /* 0: no look twice */
};

/* True when it is gone. */
static bool sweep_try(const struct sweep *sweep, const char *name)
{
    return unlinkat(sweep->groups->at[0].dir_fd, name, AT_REMOVEDIR) == 0 || errno != EBUSY;
}

static void sweep_one(void *ctx, const char *name)
{
    const struct sweep *sweep = ctx;
    struct err err;

    while (!sweep_try(sweep, name) && clock_mono_ms() < sweep->patient_until_ms) {
        (void)poll(NULL, 0, SWEEP_POLL_MS);
    }
    if (!sweep->patient_until_ms) {
        return;
    }
    for (int i = 0; i < SWEEP_TRIES && !sweep_try(sweep, name); i++) {
        (void)!cgroups_kill(sweep->groups, name, &err);
        (void)poll(NULL, 0, SWEEP_POLL_MS);
    }
}

void cgroups_task_sweep(struct cgroups *groups, int patience_ms)
{
    struct sweep sweep = {groups, patience_ms ? clock_mono_ms() + patience_ms : 0};
    struct err err;

    (void)!names_each(groups, true, sweep_one, &sweep, &err);
}
