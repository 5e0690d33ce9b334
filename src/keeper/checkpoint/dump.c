#include "keeper/checkpoint/dump.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "keeper/checkpoint/criu.h"
#include "keeper/checkpoint/criu_mounts.h"
#include "keeper/checkpoint/images.h"
#include "keeper/checkpoint/manifest.h"
#include "keeper/checkpoint/ptrace_proxy.h"
#include "keeper/checkpoint/reason.h"
#include "keeper/checkpoint/task.h"
#include "keeper/disk/saved.h"
#include "keeper/disk/subvol.h"
#include "keeper/disk/tenant_file.h"
#include "keeper/jail/first_release.h"
#include "keeper/jail/jail_mounts.h"
#include "keeper/jail/keeper_root.h"
#include "lib/base/clock.h"
#include "lib/base/fd.h"
#include "lib/base/log.h"
#include "wire/channel.h"

enum {
    TRIES = 3,
    STILL_TRIES = 50,
    STILL_PAUSE_MS = 2,
    IMAGES_SHARES =
        8, /* the images may take at most this many times the memory that the jail uses */
};
static const uint64_t images_bytes_least = UINT64_C(1) << 30; /* and always this much */

struct dump {
    struct jail_shared *shared;
    const char *id;
    bool stop;
    int begun_fd;
    int memory_fd;
    int freezer_fd;
    pid_t first;
    struct criu criu;
    struct ptrace_proxy *proxy;
    struct criu_mounts mounts;
    bool agent_is_own;            /* it is the agent of this keeper */
    struct volume_mounts mounted; /* where its volumes are */
    struct err step_err;          /* why a step failed */
};

/* ---- standing still ---- */

static void pause_ms(long ms)
{
    (void)nanosleep(&(struct timespec){.tv_nsec = ms * 1000 * 1000}, NULL);
}

/* A parent in vfork() counts as frozen but cannot be traced. A moment later its child has called
 * exec(). */
static int still_make(struct dump *dump, struct err *err)
{
    for (int i = 0; i < STILL_TRIES; i++) {
        int r = cgroups_freeze(dump->shared->groups, dump->id, err);
        if (r == 0) {
            r = reason_frozen(dump->freezer_fd, err);
        }
        if (r != -EAGAIN) {
            return r;
        }
        cgroups_thaw(dump->shared->groups, dump->id);
        pause_ms(STILL_PAUSE_MS);
    }
    return -err->code;
}

/* The jail is frozen: its processes end only when they are killed. Check that the pid still is the
 * jail's: otherwise CRIU would save another process. */
static int first_check(const struct dump *dump, struct err *err)
{
    return cgroups_holds(dump->shared->groups, dump->id, dump->first)
               ? 0
               : err_set(err, ESRCH, "it has ended meanwhile");
}

/* ---- the agent ---- */

/* Opens the mount at that name, not a file that the jail put there. The pid is checked again
 * afterwards: it could belong to a later process with another root. */
static int agent_open(const struct dump *dump, struct err *err)
{
    const struct tenant_want want = {.bytes_max = KEEPER_ROOT_AGENT_BYTES_MAX, .mounted = true};
    scoped_fd root = tenant_root_open(dump->first, err);

    if (root < 0) {
        return root;
    }
    int r = first_check(dump, err);
    return r < 0 ? r : tenant_file_open(root, &JAIL_MOUNTS_AGENT[1], &want, err);
}

/* Keeps the program of the jail's first process, because a later keeper may bring another one. The
 * pool has one copy, and all images share its blocks. */
static int agent_keep(struct dump *dump, struct err *err)
{
    struct stat st;
    scoped_fd in = agent_open(dump, err);

    if (in < 0) {
        return in;
    }
    scoped_fd out =
        openat(dump->memory_fd, MANIFEST_AGENT, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0555);
    if (out < 0 || fstat(in, &st) < 0) {
        return err_sys(err, "keep the jail's agent");
    }
    dump->agent_is_own =
        manifest_agent_same(dump->shared->pool, dump->mounts.keeper_root_fd, in, out);
    if (dump->agent_is_own) {
        return 0;
    }
    for (off_t left = st.st_size; left > 0;) {
        ssize_t n = sendfile(out, in, NULL, (size_t)left);
        if (n <= 0) {
            return err_sys(err, "keep the jail's agent");
        }
        left -= n;
    }
    return 0;
}

/* ---- CRIU ---- */

/* Starts CRIU, which waits for its job. The ptrace proxy is set up before. */
static int criu_ready(struct dump *dump, struct err *err)
{
    ptrace_proxy_closep(&dump->proxy);
    int r = ptrace_proxy_open(&dump->proxy, err);
    if (r == 0) {
        r = criu_start(dump->shared->criu, -1, ptrace_proxy_enter, dump->proxy, &dump->criu, err);
    }
    if (r == 0) {
        r = ptrace_proxy_hold(dump->proxy, dump->criu.pid, err);
    }
    if (r == 0) {
        dump->criu.proxy = dump->proxy;
    }
    return r;
}

static void thaw(void *ctx)
{
    struct dump *dump = ctx;

    cgroups_thaw(dump->shared->groups, dump->id);
}

/* The memory is written and no process runs yet: only now do disk and memory match. */
static int on_step(void *ctx, const char *step, pid_t pid)
{
    struct dump *dump = ctx;

    (void)pid;
    if (strcmp(step, "post-dump") != 0) {
        return 0;
    }
    return saved_disk_take(dump->shared->pool, dump->begun_fd, dump->id, dump->stop,
                           &dump->step_err);
}

static int criu_dump(struct dump *dump, struct err *err)
{
    char *externals[CRIU_MOUNTS_EXTERNALS_MAX];
    char freezer[32];
    struct criu_job job = {
        .pid = dump->first,
        .images_fd = dump->memory_fd,
        .work_fd = dump->mounts.work_fd,
        .freezer = freezer,
        .externals = externals,
        .externals_n = criu_mounts_externals_dumped(&dump->mounted, externals),
        .step = on_step,
        .ctx = dump,
    };

    (void)snprintf(freezer, sizeof(freezer), "/proc/%d/fd/%d", getpid(), dump->freezer_fd);
    int r = criu_run(&dump->criu, &job, err);
    criu_stop(&dump->criu);
    for (size_t i = 0; i < job.externals_n; i++) {
        free(externals[i]);
    }
    if (r < 0) {
        cgroups_task_alone(dump->shared->groups,
                           dump->shared->task); /* a killed CRIU leaves helpers behind */
    }
    if (r < 0 && dump->step_err.code) {
        *err = dump->step_err;
        return -err->code;
    }
    return r < 0 ? reason_dump(dump->mounts.work_fd, dump->shared, dump->id, err) : 0;
}

/* Limits the size of the images. Pages that processes share are written once for each of them, so a
 * jail with many processes could fill the pool with little memory. Open files without a name are in
 * the images as well. */
static int images_limit(struct dump *dump, struct err *err)
{
    struct keeper_usage usage = {0};

    if (!pool_limits_disk(dump->shared->pool)) {
        return 0;
    }
    int r = cgroups_usage(dump->shared->groups, dump->id, &usage, err);
    if (r < 0) {
        return r;
    }
    r = subvol_limit(dump->memory_fd, 0,
                     images_bytes_least + usage.memory_bytes * IMAGES_SHARES +
                         pool_disk_bytes(dump->shared->pool, dump->id));
    return r < 0 ? err_code(err, -r, "limit the images") : 0;
}

/* Removes the files of a failed attempt, so that they are not mistaken for new ones. */
static int memory_begin(struct dump *dump, struct err *err)
{
    fd_closep(&dump->memory_fd);
    (void)!subvol_destroy(dump->begun_fd, SAVED_MEMORY);
    (void)!subvol_destroy(dump->begun_fd, SAVED_DISK);
    (void)unlinkat(dump->mounts.work_fd, CRIU_LOG, 0);
    dump->step_err.code = 0;
    int r = subvol_create(dump->begun_fd, SAVED_MEMORY);
    if (r < 0) {
        return err_code(err, -r, "make a place for the memory");
    }
    dump->memory_fd =
        openat(dump->begun_fd, SAVED_MEMORY, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (dump->memory_fd < 0) {
        return err_sys(err, "open the place of the memory");
    }
    r = images_limit(dump, err);
    return r < 0 ? r : agent_keep(dump, err);
}

static int dump_try(struct dump *dump, struct keeper_saved *out, struct err *err)
{
    int r = memory_begin(dump, err);
    if (r == 0) {
        r = criu_ready(dump, err);
    }
    if (r == 0 && task_leaving()) { /* from here on, a request to leave kills CRIU */
        r = err_set(err, ECANCELED, "it was given up");
    }
    if (r < 0) {
        criu_stop(&dump->criu);
        return r;
    }
    int64_t from_us = clock_mono_us();
    r = still_make(dump, err);
    if (r == 0) {
        r = first_check(dump, err);
    }
    if (r == 0) {
        r = volume_mounts_find(dump->first, &dump->mounted, err);
    }
    if (r == 0) {
        r = ptrace_proxy_threads(dump->proxy, dump->freezer_fd, thaw, dump, err);
    }
    if (r == 0) {
        r = criu_dump(dump, err);
    }
    if (r < 0 || !dump->stop) {
        cgroups_thaw(dump->shared->groups, dump->id);
        out->frozen_usec = (uint64_t)(clock_mono_us() - from_us);
    }
    criu_stop(&dump->criu);
    criu_mounts_remember(&dump->mounts);
    return r;
}

static int first_find(struct dump *dump, struct err *err)
{
    dump->first = cgroups_first(dump->shared->groups, dump->id);
    if (dump->first <= 0) {
        return err_set(err, ESRCH, "jail %s does not run", dump->id);
    }
    dump->freezer_fd = cgroups_leaf(dump->shared->groups, dump->id);
    return dump->freezer_fd < 0 ? err_set(err, ESRCH, "jail %s does not run", dump->id) : 0;
}

static int dump_all(struct dump *dump, struct keeper_saved *out, struct err *err)
{
    int r = first_find(dump, err);

    if (r == 0) {
        r = criu_mounts_enter(dump->shared->pool, &dump->mounts, err);
    }
    if (r < 0) {
        return r;
    }
    /* A snapshot of the disk waits until all data is written: sync before the jail is frozen. */
    if (!dump->stop && syncfs(dump->begun_fd) < 0) {
        return err_sys(err, "write the jail's files to the disk");
    }
    for (int i = 0; i < TRIES; i++) {
        r = dump_try(dump, out, err);
        if (r < 0 && !cgroups_populated(dump->shared->groups, dump->id)) {
            return err_set(err, ESRCH, "it has ended meanwhile");
        }
        if ((r != -EAGAIN && r != -EIO) || task_leaving()) {
            break;
        }
        pause_ms(STILL_PAUSE_MS);
    }
    if (r == 0) {
        r = images_correct(dump->memory_fd, err);
    }
    if (r == 0) {
        r = manifest_write(dump->memory_fd, dump->id, dump->shared->criu,
                           dump->agent_is_own ? dump->shared->agent_hash : "",
                           first_release_is(dump->shared->pool, dump->id) ? CHANNEL_VERSION_FIRST
                                                                          : CHANNEL_VERSION,
                           err);
    }
    if (r == 0) {
        r = volume_mounts_keep(&dump->mounted, dump->memory_fd, err);
    }
    if (r == 0) {
        r = images_bytes(dump->memory_fd, &out->memory_bytes, err);
    }
    if (r == 0 &&
        pool_limits_disk(dump->shared->pool)) { /* compressing needs room for both copies */
        (void)!subvol_limit(dump->memory_fd, 0, SUBVOL_UNLIMITED);
    }
    return r;
}

/* The jail survives when CRIU dies: the ptrace proxy puts back what CRIU changed. */
static void leave(void *ctx)
{
    const struct dump *dump = ctx;

    criu_kill(&dump->criu);
}

int dump_jail(struct jail_shared *shared, const char *id, const struct keeper_save *save,
              int begun_fd, struct keeper_saved *out, struct err *err)
{
    struct dump dump = {
        .shared = shared,
        .id = id,
        .stop = save->flags & KEEPER_SAVE_STOP,
        .begun_fd = begun_fd,
        .memory_fd = -1,
        .freezer_fd = -1,
        .criu = CRIU_NONE,
    };

    if (!shared->criu) {
        *err = shared->criu_why;
        return -err->code;
    }
    if (!pool_on_btrfs(shared->pool)) {
        return err_set(err, EOPNOTSUPP, "memory can be saved only where the pool is on btrfs");
    }
    task_orderly(leave, &dump);
    int r = dump_all(&dump, out, err);
    task_orderly(NULL, NULL);
    ptrace_proxy_closep(&dump.proxy);
    fd_closep(&dump.memory_fd);
    fd_closep(&dump.freezer_fd);
    return r;
}
