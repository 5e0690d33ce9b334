#include "keeper/jail/jail.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>

#include "keeper/disk/mounts.h"
#include "keeper/disk/tenant_file.h"
#include "keeper/disk/volume.h"
#include "keeper/jail/first_release.h"
#include "keeper/jail/rootfs.h"
#include "keeper/jail/userns.h"
#include "lib/base/fdpass.h"
#include "lib/base/log.h"
#include "lib/base/small_file.h"
#include "wire/channel.h"

enum { SOCKETS_TRIES = 5, SOCKETS_PAUSE_NS = 1000 * 1000 };

/* userns_clone() makes the user namespace; the cgroup namespace is made in the right group. */
static const uint64_t jail_namespaces =
    CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS;

/* ---- the first process ---- */

/* Starts the first process in its namespaces and its v2 group. It enters its other groups first,
 * and then waits for its root filesystem. */
static int first_process_start(struct jail_shared *shared, const char *id,
                               const struct keeper_plan *plan, int group_fd, struct jail *out,
                               int *socket, struct err *err)
{
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
        return err_sys(err, "make a socket pair");
    }
    scoped_fd ours = pair[0];
    scoped_fd theirs = pair[1];
    scoped(cgroups_v1_closep) struct cgroup_v1_files v1_files = CGROUP_V1_FILES_NONE;
    int r = cgroups_v1_open(shared->groups, id, &v1_files, err);
    if (r < 0) {
        return r;
    }
    struct clone_args args = {
        .flags = jail_namespaces | CLONE_PIDFD | CLONE_INTO_CGROUP,
        .pidfd = (uintptr_t)&out->pidfd,
        .exit_signal = SIGCHLD,
        .cgroup = (unsigned)group_fd,
    };

    pid_t pid = userns_clone(&args, userns_base(plan->uid_slot), err);
    if (pid < 0) {
        return pid;
    }
    if (pid == 0) {
        fd_closep(&ours);
        (void)close(shared->lock_fd); /* only the keeper may hold the two locks */
        (void)close(pool_fd(shared->pool));
        jail_inside(&(struct jail_inside){plan, shared->filters, shared->network,
                                          shared->size_files, &v1_files, shared->merges, theirs});
    }
    out->name.pid = pid;
    *socket = move_fd(&ours);
    return 0;
}

/* Sends the root, then the volumes. */
static int mounts_send(int socket, int root_fd, const int *volumes, size_t volumes_n,
                       struct err *err)
{
    int fds[JAIL_MOUNTS_MAX] = {root_fd};

    memcpy(fds + 1, volumes, sizeof(int) * volumes_n);
    ssize_t n = fdpass_send(socket, "", 1, fds, 1 + volumes_n, 0);
    /* A process that has failed already has sent a reason: agent_started() reads it. */
    if (n < 0 && n != -EPIPE) {
        return err_code(err, (int)-n, "send the root filesystem");
    }
    return 0;
}

/* The socket closes at exec(): its end means that the agent has started. Any data is an error. */
static int agent_started(int socket, struct err *err)
{
    struct err said;
    ssize_t got = recv(socket, &said, sizeof(said), MSG_DONTWAIT);

    if (got == 0) {
        return 0;
    }
    if (got < 0 && errno == EAGAIN) {
        return err_set(err, ETIMEDOUT, "the jail's first process did not get to the agent in time");
    }
    if (got != (ssize_t)sizeof(said) || said.code <= 0) {
        return err_set(err, EIO, "the jail's first process ended without a reason");
    }
    said.msg[sizeof(said.msg) - 1] = '\0';
    *err = said;
    return -err->code;
}

/* ---- finding the first process and connecting to it ---- */

/* Reads field 22 of stat, counted from the end of the process's name, which may hold any
 * character. */
static int start_ticks_read(pid_t pid, uint64_t *out, struct err *err)
{
    char path[32], text[1024];

    (void)snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    if (small_file_read(AT_FDCWD, path, text, sizeof(text)) < 0) {
        return err_set(err, ESRCH, "process %d is gone", pid);
    }
    char *at = strrchr(text, ')');
    for (int field = 2; at && field < 22; field++) {
        at = strchr(at + 1, ' ');
    }
    if (!at) {
        return err_set(err, EIO, "%s has no start time", path);
    }
    *out = strtoull(at, NULL, 10);
    return 0;
}

/* Connects to an agent of the first release. The jail's root may have put anything at that path: it
 * is opened without following links, and must be a socket. */
static int channel_connect_path(const struct jail *jail, struct err *err)
{
    const pid_t pid = jail->name.pid;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct stat st;

    scoped_fd root = tenant_root_open(pid, err);
    if (root < 0) {
        return root;
    }
    /* The process is alive after the open: so the path was not resolved in another process with
     * that pid. */
    if (syscall(SYS_pidfd_send_signal, jail->pidfd, 0, NULL, 0) < 0) {
        return err_set(err, ESRCH, "process %d is gone", pid);
    }
    scoped_fd file = mounts_open_beneath(root, &CHANNEL_PATH_BEFORE[1], O_PATH | O_NOFOLLOW, 0, 0);
    if (file < 0 || fstat(file, &st) < 0 || !S_ISSOCK(st.st_mode)) {
        return err_set(err, ENOTSOCK, "the jail has no agent's socket");
    }
    scoped_fd fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return err_sys(err, "make a socket");
    }
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d", file);
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
        return err_sys(err, "connect to the agent");
    }
    return move_fd(&fd);
}

/* The kernel names the process that called listen(). It must be the jail's first process: no one
 * inside can make that one listen for him. A full backlog is an error, not a wait. */
static int channel_connect(const struct jail_shared *shared, const struct jail *jail,
                           struct err *err)
{
    struct ucred peer = {0};
    socklen_t len = sizeof(peer);
    scoped_fd fd = jail->channel_version == CHANNEL_VERSION_FIRST
                       ? channel_connect_path(jail, err)
                       : network_connect(shared->network, jail->pidfd, CHANNEL_NAME, err);

    if (fd < 0) {
        return fd;
    }
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0 || peer.pid != jail->name.pid) {
        return err_set(err, EPERM, "another process of the jail listens in its agent's place");
    }
    return move_fd(&fd);
}

/* Opens the daemon's connections to an agent of that version. */
static int agent_reach(const struct jail_shared *shared, struct jail *jail, uint32_t version,
                       struct err *err)
{
    jail->channel_version = version;
    jail->channel = channel_connect(shared, jail, err);
    if (jail->channel < 0) {
        return jail->channel;
    }
    return network_inward_open(shared->network, jail->pidfd, jail->sockets, KEEPER_JAIL_SOCKETS,
                               err);
}

/* A jail that does not need a way out continues without one. */
static int sockets_open(struct jail_shared *shared, const char *id, bool needed, struct jail *out,
                        struct err *err)
{
    const struct timespec pause = {.tv_nsec = SOCKETS_PAUSE_NS};
    struct err why;
    int r = network_sockets_open(shared->network, out->pidfd, &out->net, &why);

    /* The worker that made the jail has copies of its sockets for a moment after they were sent. */
    for (int i = 0; i < SOCKETS_TRIES && r == -EADDRINUSE; i++) {
        (void)nanosleep(&pause, NULL);
        r = network_sockets_open(shared->network, out->pidfd, &out->net, &why);
    }
    if (r < 0 && needed) {
        *err = why;
        return r;
    }
    if (r < 0) {
        log_warn("jail %s has no network: %s", id, why.msg);
    }
    return 0;
}

/* ---- the order of everything ---- */

static void leave_jail_mounts(const struct jail_shared *shared)
{
    if (setns(shared->keeper_root_ns, CLONE_NEWNS) < 0) {
        log_error("cannot leave a jail's mounts: %s", strerrordesc_np(errno));
        abort(); /* otherwise the next jail would be made inside this one */
    }
}

/* Runs in the first process's copy of the keeper's root, which ends when that process enters its
 * own root. */
static int root_make(struct jail_shared *shared, const char *id, const struct keeper_plan *plan,
                     int pidfd, int userns, struct err *err)
{
    if (setns(pidfd, CLONE_NEWNS) < 0) {
        return err_sys(err, "enter the jail's mounts");
    }
    int root = rootfs_build(id, plan, userns, userns_base(plan->uid_slot), err);
    leave_jail_mounts(shared);
    return root;
}

/* Makes the root filesystem and opens the volumes, mapped to the jail's ids, and sends them. */
static int mounts_give(struct jail_shared *shared, const char *id, const struct keeper_plan *plan,
                       int pidfd, int userns, int socket, struct err *err)
{
    int volumes[KEEPER_VOLUMES_MAX];
    int r = volumes_open(plan, userns, volumes, err);

    if (r < 0) {
        return r;
    }
    scoped_fd root = root_make(shared, id, plan, pidfd, userns, err);
    r = root < 0 ? root : 0;
    if (r == 0 &&
        (plan->from[0] || plan->keeps_disk)) { /* all other disks have their limit already */
        r = pool_disk_bound(shared->pool, id, plan->disk_mb, err);
    }
    r = r < 0 ? r : mounts_send(socket, root, volumes, plan->volumes_n, err);
    volumes_close(volumes);
    return r;
}

static int first_process_ready(struct jail_shared *shared, const char *id,
                               const struct keeper_plan *plan, int group_fd, struct jail *out,
                               int *socket, struct err *err)
{
    scoped_fd userns = -1;

    /* 1. A process in its own namespaces and groups; it waits for step 3. */
    int r = first_process_start(shared, id, plan, group_fd, out, socket, err);
    if (r < 0) {
        return r;
    }
    /* 2. Its id maps: from here on it is root inside, and an unprivileged user outside. */
    userns = userns_map(out->name.pid, userns_base(plan->uid_slot), err);
    if (userns < 0) {
        return userns;
    }
    /* 3. Its root filesystem and volumes. */
    return mounts_give(shared, id, plan, out->pidfd, userns, *socket, err);
}

static int agent_take(struct jail_shared *shared, const char *id, const struct keeper_plan *plan,
                      int socket, struct jail *out, struct err *err)
{
    /* 4. It has entered its root, dropped its privileges, and become the agent. */
    int r = agent_started(socket, err);
    if (r < 0) {
        return r;
    }
    /* 5. Its pid with its start time, which together are unique, and connections. */
    r = start_ticks_read(out->name.pid, &out->name.start_ticks, err);
    if (r < 0) {
        return r;
    }
    r = agent_reach(shared, out, CHANNEL_VERSION, err);
    if (r < 0) {
        return r;
    }
    /* 6. The daemon's sockets in its network. */
    return sockets_open(shared, id, plan->network, out, err);
}

/* A disk that is kept or copied is ready already; a kept disk is never removed by this jail. */
static int disk_ready(struct jail_shared *shared, const char *id, const struct keeper_plan *plan,
                      unsigned *made, struct err *err)
{
    if (plan->from[0] || plan->keeps_disk) {
        return 0;
    }
    int r = pool_disk_create(shared->pool, id, plan->disk_mb, err);
    *made |= r == 0 ? JAIL_DISK : 0;
    return r;
}

int jail_begin(struct jail_shared *shared, const char *id, const struct keeper_plan *plan,
               struct jail *out, int *socket, unsigned *made, struct err *err)
{
    const struct cgroup_limits limits = {plan->cpu_millis, plan->memory_mb, plan->pids};

    *out = JAIL_NONE;
    *made = plan->from[0] ? JAIL_DISK : 0;

    /* The v2 group reserves the id: it is made first and removed last. */
    scoped_fd group = cgroups_create(shared->groups, id, &limits, err);
    if (group < 0) {
        return group == -EEXIST ? err_set(err, EEXIST, "jail %s exists already", id) : group;
    }
    *made |= JAIL_GROUPS;

    int r = disk_ready(shared, id, plan, made, err);
    if (r < 0) {
        return r;
    }
    size_bpf_add(shared->size_bpf, shared->groups, shared->pool, id, plan);
    /* A new disk has no marks of volumes to remove. */
    if (plan->volumes_n || plan->from[0] || plan->keeps_disk) {
        r = volumes_mark(shared->pool, id, plan, err);
    }
    if (r < 0) {
        return r;
    }
    r = first_process_ready(shared, id, plan, group, out, socket, err);
    if (r < 0) {
        jail_closep(out);
        return err_wrap(err, "start jail %s", id);
    }
    return 0;
}

int jail_finish(struct jail_shared *shared, const char *id, const struct keeper_plan *plan,
                int socket, struct jail *out, struct err *err)
{
    int r = agent_take(shared, id, plan, socket, out, err);

    if (r < 0) {
        jail_closep(out);
        return err_wrap(err, "start jail %s", id);
    }
    return 0;
}

/* Opens a pidfd of the jail's first process. */
static int jail_open(const struct jail_shared *shared, const char *id,
                     const struct keeper_jail *name, struct err *err)
{
    uint64_t start_ticks = 0;
    scoped_fd pidfd = (int)syscall(SYS_pidfd_open, name->pid, 0);

    if (pidfd < 0) {
        return err_set(err, ESRCH, "process %" PRId32 " of jail %s is gone", name->pid, id);
    }
    /* The pidfd refers to the process that has the pid now; the checks after it say whether that is
     * the right one. */
    int r = start_ticks_read(name->pid, &start_ticks, err);
    if (r == 0 &&
        (start_ticks != name->start_ticks || !cgroups_holds(shared->groups, id, name->pid))) {
        r = err_set(err, ESRCH, "process %" PRId32 " is not of jail %s", name->pid, id);
    }
    return r < 0 ? r : move_fd(&pidfd);
}

int jail_sockets_open(struct jail_shared *shared, const char *id, const struct keeper_jail *name,
                      int *out, size_t n, struct err *err)
{
    scoped_fd pidfd = jail_open(shared, id, name, err);

    return pidfd < 0 ? pidfd : network_inward_open(shared->network, pidfd, out, n, err);
}

int jail_attach(struct jail_shared *shared, const char *id, const struct keeper_jail *name,
                bool network, struct jail *out, struct err *err)
{
    *out = JAIL_NONE;
    out->name = *name;
    out->pidfd = jail_open(shared, id, name, err);
    const uint32_t version =
        first_release_is(shared->pool, id) ? CHANNEL_VERSION_FIRST : CHANNEL_VERSION;
    int r = out->pidfd < 0 ? out->pidfd : agent_reach(shared, out, version, err);
    if (r == 0 && network) {
        r = sockets_open(shared, id, false, out, err);
    }
    if (r < 0) {
        jail_closep(out);
    }
    return r;
}

int jail_adopt(struct jail_shared *shared, const char *id, pid_t pid, struct jail *out,
               struct err *err)
{
    struct keeper_jail name = {.pid = pid};
    int r = start_ticks_read(pid, &name.start_ticks, err);

    return r < 0 ? r : jail_attach(shared, id, &name, false, out, err);
}

int jail_kill(struct jail_shared *shared, const char *id, struct err *err)
{
    return cgroups_kill(shared->groups, id, err);
}

/* The groups show whether processes are left. The v2 group is removed after the disk, so that the
 * jail is listed until nothing of it is left. */
int jail_remove(struct jail_shared *shared, const char *id, unsigned parts, struct err *err)
{
    if (parts & JAIL_GROUPS && cgroups_populated(shared->groups, id)) {
        return -EBUSY;
    }
    int r = parts & JAIL_DISK ? pool_disk_remove(shared->pool, id, err) : 0;
    if (r == 0 && parts & JAIL_GROUPS) {
        first_release_unmark(shared->pool, id);
        size_bpf_remove(shared->size_bpf, shared->groups, id);
        r = cgroups_remove(shared->groups, id, err);
    }
    return r;
}
