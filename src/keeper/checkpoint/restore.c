#include "keeper/checkpoint/restore.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "keeper/checkpoint/criu.h"
#include "keeper/checkpoint/criu_mounts.h"
#include "keeper/checkpoint/criu_uid.h"
#include "keeper/checkpoint/fill.h"
#include "keeper/checkpoint/images.h"
#include "keeper/checkpoint/manifest.h"
#include "keeper/checkpoint/reason.h"
#include "keeper/checkpoint/task.h"
#include "keeper/checkpoint/zygote.h"
#include "keeper/disk/mounts.h"
#include "keeper/disk/saved.h"
#include "keeper/disk/subvol.h"
#include "keeper/disk/tenant_file.h"
#include "keeper/disk/volume.h"
#include "keeper/jail/first_release.h"
#include "keeper/jail/rootfs.h"
#include "keeper/jail/userns.h"
#include "lib/base/id.h"
#include "lib/base/log.h"
#include "wire/channel.h"

#define BOOT_ID &(CHANNEL_DIR "/boot_id")[1] /* below the jail's root */

enum {
    BOOT_ID_BYTES_MAX = ID_UUID_LEN + 1, /* with a newline */
};

struct restore {
    struct jail_shared *shared;
    const char *id;
    const struct keeper_plan *plan;
    bool tcp_close;
    int zygote; /* its socket, or -1 */
    bool lazy;
    struct fill fill;
    struct jail *out;
    struct manifest manifest;
    struct volume_mounts had; /* where the images expect volumes */
    pid_t first;              /* the first restored process, once it exists */
    int saved_fd;             /* saved/<name> */
    int memory_fd;            /* saved/<name>/memory */
    int images_fd;            /* the images, changed for this jail */
    struct criu_mounts mounts;
    struct criu criu;
    struct err step_err; /* why a step failed */
};

/* ---- what CRIU asks back ---- */

static int network_make(struct restore *restore, pid_t pid)
{
    struct err *err = &restore->step_err;
    int r = network_restore(restore->shared->network, pid, &restore->out->net, err);

    if (r < 0 && !restore->plan->network) {
        log_warn("jail %s has no network: %s", restore->id, err->msg);
        err->code = 0;
        return 0;
    }
    return r;
}

static int boot_id_open(pid_t pid, struct err *err)
{
    const struct tenant_want want = {.access = O_WRONLY, .bytes_max = BOOT_ID_BYTES_MAX};
    scoped_fd root = tenant_root_open(pid, err);

    return root < 0 ? root : tenant_file_open(root, BOOT_ID, &want, err);
}

/* A copy is another machine that has just booted: it gets a new boot id. A jail that replaced its
 * boot id by another file keeps the old one. */
static void boot_id_write(const struct restore *restore, pid_t pid)
{
    char id[ID_UUID_LEN + 2];
    struct err err;

    if (strcmp(restore->manifest.id, restore->id) == 0) {
        return;
    }
    id_uuid(id);
    memcpy(id + ID_UUID_LEN, "\n", 2);
    scoped_fd fd = boot_id_open(pid, &err);
    if (fd >= 0 && pwrite(fd, id, strlen(id), 0) < 0) {
        (void)err_sys(&err, "write it");
        fd_closep(&fd);
    }
    if (fd < 0) {
        log_info("jail %s keeps the boot id of its source: %s", restore->id, err.msg);
    }
}

/* Ends connections whose peer was the daemon, in the network that the jail was saved in. If that
 * fails, a connection ends when the jail writes to it. */
static void orphans_end(const struct restore *restore)
{
    struct err err;

    if (network_orphans_reset(restore->shared->network, restore->first, &err) < 0) {
        log_warn("jail %s: %s", restore->id, err.msg);
    }
}

static int on_step(void *ctx, const char *step, pid_t pid)
{
    struct restore *restore = ctx;

    /* CRIU makes the user namespace between these two steps; it must belong to the jail's first
     * id. */
    if (strcmp(step, "pre-restore") == 0) {
        return criu_uid_set(restore->criu.pid, userns_base(restore->plan->uid_slot),
                            !restore->criu.cloned, &restore->step_err);
    }
    if (strcmp(step, "setup-namespaces") == 0) {
        int r = criu_uid_set(restore->criu.pid, 0, !restore->criu.cloned, &restore->step_err);
        return r < 0 ? r : network_make(restore, pid);
    }
    if (strcmp(step, "post-restore") == 0) {
        restore->first = pid;
        boot_id_write(restore, pid);
        size_files_restored(restore->shared->size_files, restore->shared->groups, restore->id,
                            restore->plan, pid);
        int r = volume_mounts_settle(&restore->had, restore->plan, pid, &restore->step_err);
        return r < 0 ? r
                     : pool_disk_bound(restore->shared->pool, restore->id, restore->plan->disk_mb,
                                       &restore->step_err);
    }
    if (strcmp(step, "pre-resume") == 0) { /* it comes without a pid */
        orphans_end(restore);
    }
    return 0;
}

/* Runs in CRIU's process: all that it makes is charged to the jail from the start. */
static int groups_enter(void *ctx)
{
    struct restore *restore = ctx;
    scoped(cgroups_v1_closep) struct cgroup_v1_files v1_files = CGROUP_V1_FILES_NONE;
    struct err err;

    if (cgroups_v1_open(restore->shared->groups, restore->id, &v1_files, &err) < 0 ||
        cgroups_v1_enter(&v1_files, &err) < 0 ||
        size_files_bind(restore->shared->size_files, restore->plan, &err) < 0) {
        log_warn("%s", err.msg);
        return -1;
    }
    if (restore->shared->merges) {
        merge_join(); /* the restored processes are forked from CRIU */
    }
    return unshare(CLONE_NEWCGROUP);
}

/* ---- the parts ---- */

static int disk_make(struct restore *restore, unsigned *made, struct err *err)
{
    const struct keeper_plan *plan = restore->plan;

    if (plan->keeps_disk) {
        return pool_disk_reuse(restore->shared->pool, restore->id, err);
    }
    int r = saved_disk_copy(restore->shared->pool, plan->from, restore->id, err);
    *made |= r == 0 ? JAIL_DISK : 0;
    return r;
}

static int parts_take(struct restore *restore, struct criu_mounts_parts *out, struct err *err)
{
    const uint32_t base = userns_base(restore->plan->uid_slot);
    char path[MANIFEST_PATH_BYTES];

    /* Each root filesystem is built in its own copy of the keeper's root. The copy ends with this
     * process and not earlier: unmounting takes the kernel milliseconds. */
    if (unshare(CLONE_NEWNS) < 0 || open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC) < 0) {
        return err_sys(err, "enter a mount namespace");
    }
    scoped_fd userns = userns_make(base, err);
    if (userns < 0) {
        return userns;
    }
    int r = volumes_open(restore->plan, userns, out->volumes, err);
    if (r < 0) {
        return r;
    }
    out->none = mounts_clone(AT_FDCWD, "/pool/layers/" KEEPER_LAYER_EMPTY,
                             MOUNT_ATTR_NODEV | MOUNT_ATTR_NOSUID, err);
    if (out->none < 0) {
        return out->none;
    }
    out->root = rootfs_build(restore->id, restore->plan, userns, base, err);
    task_die_with_parent(); /* it has acted with the jail's uid */
    if (out->root < 0) {
        return out->root;
    }
    r = manifest_agent_place(restore->shared->pool, &restore->manifest, restore->shared->agent_hash,
                             restore->memory_fd, path, err);
    if (r < 0) {
        return r;
    }
    /* The same mount attributes as the jail had: CRIU sets them again, and must not lack any. */
    out->agent = mounts_clone_bare(AT_FDCWD, path,
                                   MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, err);
    if (out->agent < 0) {
        return out->agent;
    }
    /* By path: a mount can be cloned only in the namespace in which it was found. */
    (void)snprintf(path, sizeof(path), "/pool/saved/%s/" SAVED_MEMORY, restore->plan->from);
    out->saved = mounts_clone(AT_FDCWD, path, MOUNT_ATTR_RDONLY, err);
    return out->saved < 0 ? out->saved : 0;
}

static int images_make(struct restore *restore, struct err *err)
{
    scoped_fd disk = pool_disk_open(restore->shared->pool, restore->id);
    const struct images_change change = {
        .uid_base = userns_base(restore->plan->uid_slot),
        .hostname = restore->plan->hostname,
        .subvol = disk < 0 ? 0 : subvol_id(disk),
    };

    int r = images_change(restore->memory_fd, restore->mounts.changed_fd, &change, err);
    return r < 0 ? r : criu_mounts_images(err);
}

/* ---- CRIU ---- */

static int why_not(struct restore *restore, struct err *err)
{
    int r = reason_restore(restore->mounts.work_fd, restore->shared, err);
    const char *vacant = volume_mounts_vacant(&restore->had, restore->plan);

    return vacant
               ? err_set(
                     err, ENODEV,
                     "it was saved with a volume at %s, which its processes use: mount one there",
                     vacant)
               : r;
}

static int criu_restore(struct restore *restore, struct err *err)
{
    char *externals[CRIU_MOUNTS_EXTERNALS_MAX];
    struct criu_job job = {
        .images_fd = restore->images_fd,
        .work_fd = restore->mounts.work_fd,
        .terse = !restore->tcp_close, /* a failure is followed by a second try */
        .root = CRIU_MOUNTS_ROOT,
        .tcp_close = restore->tcp_close,
        .externals = externals,
        .externals_n = criu_mounts_externals_restored(restore->plan, &restore->had, externals),
        .step = on_step,
        .ctx = restore,
    };

    int r = criu_run(&restore->criu, &job, err);
    for (size_t i = 0; i < job.externals_n; i++) {
        free(externals[i]);
    }
    if (r < 0 && restore->step_err.code) {
        *err = restore->step_err;
        return -err->code;
    }
    return r <= 0 ? why_not(restore, err) : r;
}

/* Makes everything that CRIU will look for. Ends in CRIU's mount namespace. */
static int parts_make(struct restore *restore, unsigned *made, struct err *err)
{
    struct criu_mounts_parts parts = CRIU_MOUNTS_PARTS_NONE;
    int r = criu_mounts_leave(&restore->mounts, err);

    if (r == 0) {
        r = disk_make(restore, made, err);
    }
    if (r == 0) {
        r = volumes_mark(restore->shared->pool, restore->id, restore->plan, err);
    }
    if (r == 0) {
        r = parts_take(restore, &parts, err);
    }
    if (r == 0) {
        r = criu_mounts_add_parts(&restore->mounts, &parts, err);
    }
    if (r == 0) {
        r = restore->images_fd = images_make(restore, err);
    }
    return r < 0 ? r : 0;
}

/* An agent still has the version that it was saved with. */
static int channel_note(const struct restore *restore, struct err *err)
{
    if (restore->manifest.channel == CHANNEL_VERSION_FIRST) {
        return first_release_mark(restore->shared->pool, restore->id, err);
    }
    first_release_unmark(restore->shared->pool, restore->id);
    return 0;
}

static int jail_take(struct restore *restore, pid_t first, struct err *err)
{
    const struct network_sockets net = restore->out->net;
    int r = channel_note(restore, err);

    if (r < 0) {
        return r;
    }
    r = jail_adopt(restore->shared, restore->id, first, restore->out, err);

    restore->out->net = net;
    return r;
}

/* ---- a CRIU of its own, or a clone of a zygote ---- */

/* Sets what a CRIU of its own sets in groups_enter(). */
static int clone_bind(const struct restore *restore, struct err *err)
{
    cpu_set_t own, bound;

    if (sched_getaffinity(0, sizeof(own), &own) < 0) {
        return err_sys(err, "read the processors of the task");
    }
    int r = size_files_bind(restore->shared->size_files, restore->plan, err);
    if (r == 0 && (sched_getaffinity(0, sizeof(bound), &bound) < 0 ||
                   sched_setaffinity(0, sizeof(own), &own) < 0 ||
                   sched_setaffinity(restore->criu.pid, sizeof(bound), &bound) < 0)) {
        r = err_sys(err, "bind the jail to its processors");
    }
    return r;
}

static int clone_ask(struct restore *restore, int group_fd, struct err *err)
{
    scoped(cgroups_v1_closep) struct cgroup_v1_files v1_files = CGROUP_V1_FILES_NONE;
    int r = cgroups_v1_open(restore->shared->groups, restore->id, &v1_files, err);

    return r < 0 ? r
                 : zygote_ask(restore->zygote, group_fd, &v1_files, restore->mounts.own_ns,
                              &restore->criu, err);
}

static int clone_take(struct restore *restore, struct err *err)
{
    int r = zygote_await(&restore->criu, err);

    if (r == 0) {
        r = clone_bind(restore, err);
    }
    if (r < 0) {
        criu_stop(&restore->criu);
    }
    return r;
}

/* Whether the memory is left to a pager. */
static bool lazy_start(struct restore *restore, int group_fd, struct err *err)
{
    if (!restore->lazy || !fill_wanted(restore->shared, restore->memory_fd)) {
        return false;
    }
    int r = fill_start(restore->shared, restore->id, restore->plan->from, group_fd, &restore->fill,
                       err);
    if (r < 0) {
        log_info("jail %s is restored with its memory at once: %s", restore->id, err->msg);
    }
    return r == 0;
}

/* A zygote that does not answer costs time and nothing else. */
static int criu_begin(struct restore *restore, int group_fd, struct err *err)
{
    if (restore->zygote >= 0) {
        if (clone_ask(restore, group_fd, err) == 0) {
            return 0;
        }
        log_info("jail %s is restored without a zygote: %s", restore->id, err->msg);
    }
    if (lazy_start(restore, group_fd, err)) {
        const int fds[] = {restore->fill.socket, restore->shared->userfault_fd};
        return criu_start_lazy(restore->shared->criu_lazy, group_fd, groups_enter, restore, fds,
                               &restore->criu, err);
    }
    return criu_start(restore->shared->criu, group_fd, groups_enter, restore, &restore->criu, err);
}

static int criu_ready(struct restore *restore, int group_fd, struct err *err)
{
    if (!restore->criu.cloned) {
        return 0;
    }
    if (clone_take(restore, err) == 0) {
        return 0;
    }
    log_info("jail %s is restored without a zygote: %s", restore->id, err->msg);
    return criu_start(restore->shared->criu, group_fd, groups_enter, restore, &restore->criu, err);
}

/* CRIU starts while its input is being prepared. */
static int restore_steps(struct restore *restore, int group_fd, unsigned *made, struct err *err)
{
    int r = criu_mounts_enter(restore->shared->pool, &restore->mounts, err);

    if (r == 0) {
        r = criu_begin(restore, group_fd, err);
    }
    if (r == 0) {
        r = parts_make(restore, made, err);
    }
    if (r == 0) {
        r = criu_ready(restore, group_fd, err);
    }
    if (r == 0) {
        size_bpf_add(restore->shared->size_bpf, restore->shared->groups, restore->shared->pool,
                     restore->id, restore->plan);
    }
    if (r == 0) {
        r = criu_restore(restore, err);
    }
    if (r >= 0) {
        r = jail_take(restore, r, err);
    }
    criu_stop(&restore->criu);
    if (r == 0) {
        fill_leave(&restore->fill);
    } else {
        fill_stop(&restore->fill);
    }
    if (r == 0) {
        criu_mounts_remember(&restore->mounts);
    }
    return r;
}

static int memory_open(struct restore *restore, struct err *err)
{
    restore->saved_fd = saved_open(restore->shared->pool, restore->plan->from, err);
    if (restore->saved_fd < 0) {
        return restore->saved_fd;
    }
    restore->memory_fd =
        openat(restore->saved_fd, SAVED_MEMORY, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (restore->memory_fd < 0) {
        return err_set(err, ENOENT, "%s was saved without its memory", restore->plan->from);
    }
    int r = manifest_read(restore->memory_fd, restore->shared->criu, &restore->manifest, err);
    if (r == 0 && restore->manifest.channel < (int)restore->plan->channel_min) {
        r = err_set(err, ENOTSUP, "%s was saved by an earlier release", restore->plan->from);
    }
    return r < 0 ? r : volume_mounts_load(restore->memory_fd, &restore->had, err);
}

int restore_jail(struct jail_shared *shared, const char *id, const struct keeper_plan *plan,
                 bool tcp_close, int zygote, bool lazy, struct jail *out, unsigned *made,
                 struct err *err)
{
    const struct cgroup_limits limits = {plan->cpu_millis, plan->memory_mb, plan->pids};
    struct restore restore = {
        .shared = shared,
        .id = id,
        .plan = plan,
        .tcp_close = tcp_close,
        .zygote = zygote,
        .lazy = lazy,
        .fill = FILL_NONE,
        .out = out,
        .saved_fd = -1,
        .memory_fd = -1,
        .criu = CRIU_NONE,
    };

    *out = JAIL_NONE;
    *made = 0;
    if (!shared->criu) {
        *err = shared->criu_why;
        return -err->code;
    }
    int r = memory_open(&restore, err);
    if (r < 0) {
        return r;
    }
    scoped_fd group = cgroups_create(shared->groups, id, &limits, err);
    if (group < 0) {
        return group == -EEXIST ? err_set(err, EEXIST, "jail %s exists already", id) : group;
    }
    *made |= JAIL_GROUPS;
    r = task_takes_along(group, err);
    if (r < 0) {
        return r;
    }
    r = restore_steps(&restore, group, made, err);
    if (r < 0) {
        jail_closep(out);
        return err_wrap(err, "restore jail %s", id);
    }
    return 0;
}

/* ---- marks ---- */

#define MARKS "restoring"

int restore_mark(struct jail_shared *shared, const char *id, struct err *err)
{
    char path[KEEPER_ID_BYTES + sizeof(MARKS)];

    (void)snprintf(path, sizeof(path), MARKS "/%s", id);
    (void)mkdirat(pool_fd(shared->pool), MARKS, 0700);
    scoped_fd fd = openat(pool_fd(shared->pool), path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    return fd < 0 ? err_sys(err, "mark jail %s as one that is being restored", id) : 0;
}

void restore_unmark(struct jail_shared *shared, const char *id)
{
    char path[KEEPER_ID_BYTES + sizeof(MARKS)];

    (void)snprintf(path, sizeof(path), MARKS "/%s", id);
    (void)unlinkat(pool_fd(shared->pool), path, 0);
}

static void sweep_one(void *ctx, const char *id)
{
    struct jail_shared *shared = ctx;
    struct err err;

    if (strlen(id) < KEEPER_ID_BYTES && jail_kill(shared, id, &err) == 0) {
        log_info("jail %s was being restored when the keeper ended: ended", id);
        restore_unmark(shared, id);
    }
}

void restore_sweep(struct jail_shared *shared)
{
    struct err err;
    scoped_fd dir = openat(pool_fd(shared->pool), MARKS, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (dir >= 0 && pool_names_each(dir, POOL_SHOWN, sweep_one, shared, &err) < 0) {
        log_warn("%s", err.msg);
    }
}
