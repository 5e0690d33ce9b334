#include "keeper/checkpoint/zygote.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "keeper/checkpoint/criu_mounts.h"
#include "keeper/checkpoint/task.h"
#include "keeper/checkpoint/zygote_wire.h"
#include "keeper/disk/saved.h"
#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/fd.h"
#include "lib/base/fdpass.h"
#include "lib/base/log.h"
#include "lib/base/small_file.h"

#define GROUP ".zygote-"

enum {
    GROUPS_MAX = 64, /* numbers of groups, of those that live and those that are ending */
    GROUP_BYTES = sizeof(GROUP) + 12,
    MEMINFO_BYTES = 8192,
    MEMORY_FACTOR = 2, /* its limit: pages, page tables, and the page cache of the images */
    MEMORY_SLACK_MB = 256,
    PIDS = 1024, /* restores that have just been cloned */
    NUMBER_BYTES = 16,
    END_TRIES = 500, /* when the keeper starts and ends: the memory of a zygote is given back */
    END_POLL_MS = 4,
    MB = 1024 * 1024,
};

enum state {
    ABSENT,
    FILLING,
    READY,
};

struct zygote {
    char name[KEEPER_SAVED_BYTES]; /* "": free */
    enum state state;
    unsigned uses;
    unsigned failures;
    int64_t failed_ms; /* the last of them */
    int64_t used_ms;
    int64_t started_ms;
    uint64_t bytes; /* of the pages in its images */
    int socket;
    char group[GROUP_BYTES];
};

struct zygotes {
    const struct criu_program *program;
    int64_t idle_ms;
    int meminfo_fd;
    int64_t looked_ms;
    int64_t absent_until_ms; /* no program was found: not before that, again */
    uint64_t shared_bytes;   /* by all clones together, when they were counted, and since */
    int64_t counted_ms;      /* 0: never */
    unsigned next;           /* number of a group */
    struct zygote at[ZYGOTE_NAMES_MAX];
    char ending[GROUPS_MAX][GROUP_BYTES];
    size_t ending_n;
};

/* ---- memory ---- */

bool zygote_fits(const struct zygote_memory *memory, uint64_t others_bytes, uint64_t bytes)
{
    return memory->total_bytes > 0 &&
           others_bytes + bytes <= memory->total_bytes / ZYGOTE_TOTAL_SHARE &&
           memory->available_bytes >=
               memory->reserved_bytes + bytes + memory->total_bytes / ZYGOTE_FILL_SHARE;
}

bool zygote_start_fits(const struct zygote_memory *memory, uint64_t bytes)
{
    return memory->total_bytes == 0 || /* unknown */
           memory->available_bytes >=
               memory->reserved_bytes + bytes + memory->total_bytes / ZYGOTE_START_SHARE;
}

bool zygote_presses(const struct zygote_memory *memory)
{
    return memory->available_bytes <
           memory->reserved_bytes + memory->total_bytes / ZYGOTE_PRESSURE_SHARE;
}

static struct zygote_memory memory_now(const struct zygotes *zygotes)
{
    char text[MEMINFO_BYTES];
    ssize_t n = pread(zygotes->meminfo_fd, text, sizeof(text) - 1, 0);

    text[n > 0 ? n : 0] = '\0';
    return (struct zygote_memory){
        .total_bytes = cgroup_stat_value(text, "MemTotal:") * 1024,
        .available_bytes = cgroup_stat_value(text, "MemAvailable:") * 1024,
        .reserved_bytes = zygotes->shared_bytes / ZYGOTE_WRITE_SHARE,
    };
}

struct count {
    struct cgroups *groups;
    uint64_t bytes;
};

static void clone_count(void *ctx, const char *id)
{
    struct count *count = ctx;

    count->bytes += cgroups_shared(count->groups, id);
}

/* The groups of the jails know: also of clones that an earlier keeper made. Those that were made
 * since the last count have been added. */
static void clones_count(struct jail_shared *shared)
{
    struct zygotes *zygotes = shared->zygotes;
    struct count count = {.groups = shared->groups};
    const int64_t now_ms = clock_mono_ms();
    struct err err;

    if (zygotes->counted_ms && now_ms - zygotes->counted_ms < ZYGOTE_COUNT_MS) {
        return;
    }
    zygotes->counted_ms = now_ms;
    if (cgroups_each(shared->groups, clone_count, &count, &err) == 0) {
        zygotes->shared_bytes = count.bytes;
    }
}

static void dir_closep(DIR **dir)
{
    if (*dir) {
        (void)closedir(*dir);
    }
}

/* The pages in the images; an empty save has none. */
static uint64_t pages_bytes(int images_fd)
{
    int fd = openat(images_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    scoped(dir_closep) DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    uint64_t sum = 0;
    struct stat st;

    if (!dir) {
        fd_closep(&fd);
        return 0;
    }
    for (struct dirent *entry; (entry = readdir(dir));) {
        if (strncmp(entry->d_name, "pages-", 6) == 0 &&
            fstatat(images_fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
            sum += (uint64_t)st.st_size;
        }
    }
    return sum;
}

/* ---- ending ---- */

static void endings_step(struct zygotes *zygotes, struct cgroups *groups)
{
    struct err err;

    for (size_t i = zygotes->ending_n; i-- > 0;) {
        if (cgroups_remove(groups, zygotes->ending[i], &err) != -EBUSY) {
            memcpy(zygotes->ending[i], zygotes->ending[--zygotes->ending_n], GROUP_BYTES);
        }
    }
}

static void zygote_end(struct jail_shared *shared, struct zygote *zygote, const char *why)
{
    struct zygotes *zygotes = shared->zygotes;
    struct err err;

    if (zygote->state == ABSENT) {
        return;
    }
    log_info("zygote of %s ended: %s", zygote->name, why);
    if (cgroups_kill(shared->groups, zygote->group, &err) < 0) {
        log_warn("end the zygote of %s: %s", zygote->name, err.msg);
    }
    fd_closep(&zygote->socket);
    zygote->state = ABSENT;
    if (zygotes->ending_n < GROUPS_MAX) {
        memcpy(zygotes->ending[zygotes->ending_n++], zygote->group, GROUP_BYTES);
    }
    endings_step(zygotes, shared->groups);
}

static struct zygote *zygote_oldest(struct zygotes *zygotes)
{
    struct zygote *oldest = NULL;

    for (size_t i = 0; i < ZYGOTE_NAMES_MAX; i++) {
        struct zygote *zygote = &zygotes->at[i];
        if (zygote->state != ABSENT && (!oldest || zygote->used_ms < oldest->used_ms)) {
            oldest = zygote;
        }
    }
    return oldest;
}

void zygotes_sweep(struct cgroups *groups)
{
    char name[GROUP_BYTES];
    struct err err;

    for (int i = 0; i < GROUPS_MAX; i++) {
        (void)snprintf(name, sizeof(name), GROUP "%d", i);
        (void)!cgroups_kill(groups, name, &err);
        for (int k = 0; k < END_TRIES && cgroups_remove(groups, name, &err) == -EBUSY; k++) {
            (void)poll(NULL, 0, END_POLL_MS);
        }
    }
}

/* ---- making ---- */

static int group_make(struct jail_shared *shared, struct zygote *zygote, struct err *err)
{
    const struct cgroup_limits limits = {
        .cpu_millis = KEEPER_CPU_MILLIS_MAX,
        .memory_mb = (uint32_t)(zygote->bytes / MB) * MEMORY_FACTOR + MEMORY_SLACK_MB,
        .pids = PIDS,
    };
    int fd = -EBUSY;

    for (int i = 0; i < GROUPS_MAX && fd < 0; i++) {
        (void)snprintf(zygote->group, GROUP_BYTES, GROUP "%u",
                       shared->zygotes->next++ % GROUPS_MAX);
        fd = cgroups_create(shared->groups, zygote->group, &limits, err);
        if (fd < 0 && fd != -EEXIST && fd != -EBUSY) {
            break;
        }
    }
    return fd;
}

static int groups_enter(struct jail_shared *shared, const char *group, struct err *err)
{
    scoped(cgroups_v1_closep) struct cgroup_v1_files v1_files = CGROUP_V1_FILES_NONE;
    int r = cgroups_v1_open(shared->groups, group, &v1_files, err);

    return r < 0 ? r : cgroups_v1_enter(&v1_files, err);
}

/* In the new process, which becomes CRIU. It leaves its mount namespace when it is filled. */
static _Noreturn void zygote_become(struct jail_shared *shared, const struct zygote *zygote,
                                    int images_fd, int socket, pid_t parent)
{
    struct criu_mounts mounts;
    struct criu_program program = *shared->zygotes->program;
    const struct zygote_hello absent = {.version = ZYGOTE_VERSION, .status = -ENOENT};
    char numbers[3][NUMBER_BYTES];
    struct err err;

    task_child_die_with_parent(parent);
    const int host_ns = fcntl(pool_host_ns(shared->pool), F_DUPFD, 0);
    if (groups_enter(shared, zygote->group, &err) < 0 ||
        criu_mounts_enter(shared->pool, &mounts, &err) < 0 || fcntl(images_fd, F_SETFD, 0) < 0 ||
        fcntl(socket, F_SETFD, 0) < 0 || host_ns < 0) {
        _exit(126);
    }
    (void)signal(SIGCHLD, SIG_DFL);
    if (!program.path[0] && criu_find_zygote(&program, &err) < 0) {
        (void)send(socket, &absent, sizeof(absent), MSG_NOSIGNAL);
        _exit(0);
    }
    (void)snprintf(numbers[0], NUMBER_BYTES, "%d", socket);
    (void)snprintf(numbers[1], NUMBER_BYTES, "%d", images_fd);
    (void)snprintf(numbers[2], NUMBER_BYTES, "%d", host_ns);
    char *words[] = {(char[]){"zygote"}, numbers[0], numbers[1], numbers[2], NULL};
    criu_exec_clean(&program, words);
}

static int images_open(struct jail_shared *shared, const char *name, struct err *err)
{
    scoped_fd saved = saved_open(shared->pool, name, err);

    if (saved < 0) {
        return saved;
    }
    int fd = openat(saved, SAVED_MEMORY, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    return fd < 0 ? err_sys(err, "open the images of %s", name) : fd;
}

/* Ends others until this one fits. False when it cannot. */
static bool room_make(struct jail_shared *shared, const struct zygote *wanted)
{
    struct zygotes *zygotes = shared->zygotes;

    for (;;) {
        const struct zygote_memory memory = memory_now(zygotes);
        uint64_t others_bytes = 0;
        size_t n = 0;
        for (size_t i = 0; i < ZYGOTE_NAMES_MAX; i++) {
            n += zygotes->at[i].state != ABSENT;
            others_bytes += zygotes->at[i].state != ABSENT ? zygotes->at[i].bytes : 0;
        }
        if (n < ZYGOTES_MAX && zygote_fits(&memory, others_bytes, wanted->bytes)) {
            return true;
        }
        if (!n || !zygote_fits(&memory, 0, wanted->bytes)) {
            return false;
        }
        zygote_end(shared, zygote_oldest(zygotes), "another one needs its place");
    }
}

static int zygote_start(struct jail_shared *shared, struct zygote *zygote, struct err *err)
{
    const pid_t parent = getpid();
    int socket = -1;
    scoped_fd images = images_open(shared, zygote->name, err);
    scoped_fd pidfd = -1;

    if (images < 0) {
        return images;
    }
    zygote->bytes = pages_bytes(images);
    if (!room_make(shared, zygote)) {
        return err_set(err, ENOMEM, "%" PRIu64 " MB of pages are too many for this host now",
                       zygote->bytes / MB);
    }
    scoped_fd group = group_make(shared, zygote, err);
    if (group < 0) {
        return group;
    }
    pid_t pid = task_fork("a zygote", group, &socket, &pidfd, err);
    if (pid == 0) {
        zygote_become(shared, zygote, images, socket, parent);
    }
    if (pid < 0) {
        struct err ignored;
        (void)!cgroups_remove(shared->groups, zygote->group, &ignored);
        return pid;
    }
    zygote->socket = socket;
    zygote->state = FILLING;
    zygote->started_ms = clock_mono_ms();
    return 0;
}

/* ---- the table ---- */

static struct zygote *zygote_find(struct zygotes *zygotes, const char *name)
{
    for (size_t i = 0; i < ZYGOTE_NAMES_MAX; i++) {
        if (zygotes->at[i].name[0] && strcmp(zygotes->at[i].name, name) == 0) {
            return &zygotes->at[i];
        }
    }
    return NULL;
}

/* A new name takes the place of the one that was used longest ago and has no zygote. */
static struct zygote *zygote_add(struct zygotes *zygotes, const char *name)
{
    struct zygote *place = NULL;

    for (size_t i = 0; i < ZYGOTE_NAMES_MAX; i++) {
        struct zygote *zygote = &zygotes->at[i];
        if (zygote->state == ABSENT && (!place || zygote->used_ms < place->used_ms)) {
            place = zygote;
        }
    }
    *place = (struct zygote){.socket = -1}; /* ZYGOTES_MAX of them at most are not ABSENT */
    (void)snprintf(place->name, sizeof(place->name), "%s", name);
    return place;
}

static bool begins(const char *name, const char *prefix)
{
    return strncmp(name, prefix, strlen(prefix)) == 0;
}

/* From other saves a single jail is started, or a few. */
static bool is_for_many(const char *name)
{
    return begins(name, KEEPER_SAVED_BUILT) || begins(name, KEEPER_SAVED_KEPT) ||
           begins(name, KEEPER_SAVED_FORKS);
}

static struct zygote *zygote_used(struct zygotes *zygotes, const char *name)
{
    struct zygote *zygote = zygote_find(zygotes, name);

    if (!zygote) {
        zygote = zygote_add(zygotes, name);
    }
    zygote->used_ms = clock_mono_ms();
    return zygote;
}

static void failure_note(struct zygote *zygote)
{
    zygote->failures++;
    zygote->failed_ms = clock_mono_ms();
}

static void zygote_try(struct jail_shared *shared, struct zygote *zygote)
{
    struct err err;

    if (clock_mono_ms() - zygote->failed_ms > ZYGOTE_FORGIVE_MS) {
        zygote->failures = 0;
    }
    if (zygote->state == ABSENT && zygote->failures < ZYGOTE_FAILURES_MAX &&
        clock_mono_ms() >= shared->zygotes->absent_until_ms &&
        zygote_start(shared, zygote, &err) < 0) {
        log_info("no zygote for %s: %s", zygote->name, err.msg);
    }
}

void zygote_prepare(struct jail_shared *shared, const char *name)
{
    if (shared->zygotes && !shared->merges && is_for_many(name)) {
        clones_count(shared);
        zygote_try(shared, zygote_used(shared->zygotes, name));
    }
}

/* Only where there are clones: all other sandboxes have the memory that they take from the host. */
static int start_admit(struct zygotes *zygotes, const struct zygote *zygote, bool clones,
                       struct err *err)
{
    const struct zygote_memory memory = memory_now(zygotes);
    const uint64_t bytes = clones ? zygote->bytes / ZYGOTE_WRITE_SHARE : zygote->bytes;

    if ((!clones && !zygotes->shared_bytes) || zygote_start_fits(&memory, bytes)) {
        zygotes->shared_bytes += clones ? zygote->bytes : 0;
        return 0;
    }
    return err_set(err, ENOMEM,
                   "this machine has %" PRIu64 " MB of memory left, and keeps %" PRIu64
                   " MB for sandboxes that share memory and may write it; try again later",
                   memory.available_bytes / MB, memory.reserved_bytes / MB);
}

int zygote_use(struct jail_shared *shared, const char *name, bool at_once,
               struct zygote_ticket *out, struct err *err)
{
    struct zygotes *zygotes = shared->zygotes;

    *out = ZYGOTE_TICKET_NONE;
    if (!zygotes || shared->merges) {
        return 0;
    }
    clones_count(shared);
    struct zygote *zygote = zygote_used(zygotes, name);
    if (zygote->uses++ == 0) {
        scoped_fd images = images_open(shared, name, err); /* the restore says why it cannot */
        zygote->bytes = images < 0 ? 0 : pages_bytes(images);
    }
    if (is_for_many(name) || zygote->uses > 1) {
        zygote_try(shared, zygote);
    }
    const bool waits = at_once || begins(name, KEEPER_SAVED_FORKS);
    const bool clones = zygote->state == READY || (zygote->state == FILLING && waits);
    int r = start_admit(zygotes, zygote, clones, err);
    if (r == 0 && clones) {
        *out = (struct zygote_ticket){
            .socket = zygote->socket, .bytes = zygote->bytes, .fills = zygote->state == FILLING};
    }
    return r;
}

void zygote_failed(struct jail_shared *shared, const char *name)
{
    struct zygote *zygote = shared->zygotes ? zygote_find(shared->zygotes, name) : NULL;

    if (zygote) {
        failure_note(zygote);
        zygote_end(shared, zygote, "a restore from it failed");
    }
}

void zygote_lost(struct jail_shared *shared, const char *name)
{
    struct zygote *zygote = shared->zygotes ? zygote_find(shared->zygotes, name) : NULL;

    if (zygote && zygote->state == READY) {
        zygote_end(shared, zygote, "it did not answer");
    }
}

void zygote_forget(struct jail_shared *shared, const char *name)
{
    struct zygote *zygote = shared->zygotes ? zygote_find(shared->zygotes, name) : NULL;

    if (zygote) {
        zygote_end(shared, zygote, "the save is removed");
        *zygote = (struct zygote){.socket = -1};
    }
}

/* ---- the loop ---- */

/* It says once that it is filled, and after that nothing: what can be read then is its end. */
static void zygote_listen(struct jail_shared *shared, struct zygote *zygote)
{
    struct zygote_hello hello = {0};
    struct iovec iov = {&hello, sizeof(hello)};
    int fd = -1;
    ssize_t n = fdpass_receive(zygote->socket, &iov, 1, &fd, 1, MSG_DONTWAIT);

    fd_closep(&fd);
    if (n == -EAGAIN || n == -EINTR) {
        return;
    }
    if (n == (ssize_t)sizeof(hello) && hello.status == -ENOENT && zygote->state == FILLING) {
        shared->zygotes->absent_until_ms = clock_mono_ms() + ZYGOTE_ABSENT_MS;
        zygote_end(shared, zygote, "there is no CRIU with the patch for clones");
        return;
    }
    if (n != (ssize_t)sizeof(hello) || zygote->state != FILLING || hello.status < 0 ||
        hello.version != ZYGOTE_VERSION) {
        if (zygote->state == FILLING) {
            failure_note(zygote);
        }
        zygote_end(shared, zygote, zygote->state == FILLING ? "it was not filled" : "it died");
        return;
    }
    zygote->state = READY;
    log_info("zygote of %s has %" PRIu64
             " MB of %u processes, in %u of %u huge pages, after %" PRId64 " ms",
             zygote->name, hello.bytes / MB, hello.tasks, hello.huge_made, hello.huge_tried,
             clock_mono_ms() - zygote->started_ms);
}

static void zygotes_look(struct jail_shared *shared)
{
    struct zygotes *zygotes = shared->zygotes;
    const int64_t now_ms = clock_mono_ms();

    if (now_ms - zygotes->looked_ms < ZYGOTE_LOOK_MS) {
        return;
    }
    zygotes->looked_ms = now_ms;
    for (size_t i = 0; i < ZYGOTE_NAMES_MAX; i++) {
        struct zygote *zygote = &zygotes->at[i];
        if (zygote->state == FILLING && now_ms - zygote->started_ms > ZYGOTE_FILL_MS) {
            failure_note(zygote);
            zygote_end(shared, zygote, "it took too long to fill");
        }
    }
    if (zygotes->shared_bytes) {
        clones_count(shared);
    }
    struct zygote *oldest = zygote_oldest(zygotes);
    const struct zygote_memory memory = memory_now(zygotes);
    if (oldest && zygote_presses(&memory)) {
        zygote_end(shared, oldest, "the host has little memory left");
    } else if (oldest && now_ms - oldest->used_ms > zygotes->idle_ms) {
        zygote_end(shared, oldest, "it was not used for long");
    }
}

void zygotes_step(struct jail_shared *shared)
{
    struct zygotes *zygotes = shared->zygotes;

    if (!zygotes) {
        return;
    }
    for (size_t i = 0; i < ZYGOTE_NAMES_MAX; i++) {
        if (zygotes->at[i].state != ABSENT) {
            zygote_listen(shared, &zygotes->at[i]);
        }
    }
    if (zygotes->ending_n) {
        endings_step(zygotes, shared->groups);
    }
    zygotes_look(shared);
}

size_t zygotes_poll_n(const struct zygotes *zygotes)
{
    return zygotes_poll(zygotes, NULL);
}

/* A place without a descriptor for each that is ending: the loop then looks again soon. */
size_t zygotes_poll(const struct zygotes *zygotes, struct pollfd *out)
{
    size_t n = 0;

    for (size_t i = 0; zygotes && i < ZYGOTE_NAMES_MAX; i++) {
        if (zygotes->at[i].state == ABSENT) {
            continue;
        }
        if (out) {
            out[n] = (struct pollfd){.fd = zygotes->at[i].socket, .events = POLLIN};
        }
        n++;
    }
    for (size_t i = 0; zygotes && i < zygotes->ending_n; i++) {
        if (out) {
            out[n] = (struct pollfd){.fd = -1};
        }
        n++;
    }
    return n;
}

struct zygotes *zygotes_new(const struct criu_program *program, uint32_t idle_s)
{
    struct zygotes *zygotes = xnew(struct zygotes);

    zygotes->program = program;
    zygotes->idle_ms = (int64_t)idle_s * 1000;
    zygotes->meminfo_fd = open("/proc/meminfo", O_RDONLY | O_CLOEXEC);
    for (size_t i = 0; i < ZYGOTE_NAMES_MAX; i++) {
        zygotes->at[i].socket = -1;
    }
    return zygotes;
}

void zygotes_leave(struct jail_shared *shared)
{
    struct zygotes *zygotes = shared->zygotes;

    if (!zygotes) {
        return;
    }
    for (size_t i = 0; i < ZYGOTE_NAMES_MAX; i++) {
        fd_closep(&zygotes->at[i].socket);
    }
    fd_closep(&zygotes->meminfo_fd);
    free(zygotes);
    shared->zygotes = NULL;
}

void zygotes_free(struct jail_shared *shared)
{
    if (!shared->zygotes) {
        return;
    }
    for (size_t i = 0; i < ZYGOTE_NAMES_MAX; i++) {
        zygote_end(shared, &shared->zygotes->at[i], "the keeper ends");
    }
    for (int i = 0; i < END_TRIES && shared->zygotes->ending_n; i++) {
        (void)poll(NULL, 0, END_POLL_MS);
        endings_step(shared->zygotes, shared->groups);
    }
    zygotes_leave(shared);
}
