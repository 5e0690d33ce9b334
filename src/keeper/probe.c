#include "keeper/probe.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/magic.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "keeper/checkpoint/criu.h"
#include "keeper/disk/mounts.h"
#include "keeper/jail/cgroup.h"
#include "keeper/jail/filter.h"
#include "keeper/jail/host.h"
#include "keeper/jail/merge.h"
#include "keeper/jail/network.h"
#include "keeper/jail/size_bpf.h"
#include "keeper/jail/userns.h"
#include "lib/base/alloc.h"
#include "lib/base/fd.h"
#include "lib/base/pid_wait.h"
#include "lib/base/small_file.h"
#include "lib/base/str.h"

enum {
    KERNEL_MAJOR = 5,
    KERNEL_MINOR = 19, /* overlayfs on idmapped layers */
    PROC_TEXT_BYTES = 256 * 1024,
    INOTIFY_INSTANCES = 128, /* the default of most kernels */
    DESCRIPTORS = 16384,     /* for the server: fewer limit sandboxes and requests */
};

struct probe {
    const char *data;     /* the data directory as given */
    const char *data_dir; /* the nearest existing parent of it */
    int userns_fd;        /* a temporary user namespace; -1 when none can be made */
};

static enum probe_verdict printf_like(3, 4)
    verdict(struct probe_result *out, enum probe_verdict what, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(out->sentence, sizeof(out->sentence), fmt, ap);
    va_end(ap);
    return what;
}

static char *text_read(const char *path)
{
    char *text = xcalloc(1, PROC_TEXT_BYTES);

    (void)small_file_read(AT_FDCWD, path, text, PROC_TEXT_BYTES);
    return text;
}

/* ---- the checks ---- */

static enum probe_verdict probe_root(const struct probe *probe, struct probe_result *out)
{
    (void)probe;
    if (geteuid() != 0) {
        return verdict(out, PROBE_MISSING, "not root: run this with sudo, as the keeper must be");
    }
    if (prctl(PR_CAPBSET_READ, CAP_SYS_ADMIN, 0, 0, 0) != 1) {
        return verdict(out, PROBE_MISSING,
                       "root without CAP_SYS_ADMIN: run outside the container, or give it that");
    }
    return verdict(out, PROBE_OK, "root with CAP_SYS_ADMIN");
}

static enum probe_verdict probe_kernel(const struct probe *probe, struct probe_result *out)
{
    struct utsname name;
    int major = 0, minor = 0;

    (void)probe;
    (void)uname(&name);
    if (sscanf(name.release, "%d.%d", &major, &minor) != 2 || // NOLINT(cert-err34-c)
        major < KERNEL_MAJOR || (major == KERNEL_MAJOR && minor < KERNEL_MINOR)) {
        return verdict(out, PROBE_MISSING, "kernel %s is older than %d.%d: install a newer one",
                       name.release, KERNEL_MAJOR, KERNEL_MINOR);
    }
    return verdict(out, PROBE_OK, "kernel %s", name.release);
}

static enum probe_verdict probe_userns(const struct probe *probe, struct probe_result *out)
{
    if (probe->userns_fd < 0) {
        return verdict(out, PROBE_MISSING,
                       "no user namespace can be made: raise sysctl user.max_user_namespaces, "
                       "or leave the chroot or container that forbids them");
    }
    return verdict(out, PROBE_OK, "user namespaces can be made and mapped");
}

static enum probe_verdict probe_overlay(const struct probe *probe, struct probe_result *out)
{
    (void)probe;
    scoped_fd fs = fsopen("overlay", FSOPEN_CLOEXEC); /* also loads the module */
    if (fs < 0) {
        return verdict(out, PROBE_MISSING, "no overlayfs (%s): load the module overlay",
                       strerrordesc_np(errno));
    }
    return verdict(out, PROBE_OK, "overlayfs is there");
}

static enum probe_verdict probe_idmap(const struct probe *probe, struct probe_result *out)
{
    struct err err = {0};
    scoped_fd fd = probe->userns_fd < 0 ? -1
                                        : mounts_clone_idmapped(AT_FDCWD, probe->data_dir, 0,
                                                                probe->userns_fd, &err);

    if (fd >= 0) {
        return verdict(out, PROBE_OK, "idmapped mounts work at %s", probe->data_dir);
    }
    return verdict(out, PROBE_DEGRADED,
                   "the filesystem of %s has no idmapped mounts: the pool needs its btrfs image",
                   probe->data_dir);
}

static enum probe_verdict probe_btrfs(const struct probe *probe, struct probe_result *out)
{
    struct statfs fs;

    if (statfs(probe->data_dir, &fs) == 0 && fs.f_type == BTRFS_SUPER_MAGIC) {
        return verdict(out, PROBE_OK, "%s is on btrfs", probe->data_dir);
    }
    scoped_fd loaded = fsopen("btrfs", FSOPEN_CLOEXEC); /* this loads the module */
    if (loaded < 0 && errno == ENODEV) {
        return verdict(out, PROBE_DEGRADED,
                       "no btrfs in the kernel, and no module of it: sandboxes have no disk limit");
    }
    if (access("/sbin/mkfs.btrfs", X_OK) < 0 && access("/usr/sbin/mkfs.btrfs", X_OK) < 0) {
        return verdict(out, PROBE_DEGRADED,
                       "no mkfs.btrfs: sandboxes have no disk limit; install btrfs-progs");
    }
    return verdict(out, PROBE_OK, "btrfs is there for the pool's image");
}

static enum probe_verdict probe_loop(const struct probe *probe, struct probe_result *out)
{
    (void)probe;
    if (access("/dev/loop-control", R_OK | W_OK) < 0) {
        return verdict(out, PROBE_DEGRADED,
                       "no loop devices: without them the data directory must be on btrfs");
    }
    return verdict(out, PROBE_OK, "loop devices are there");
}

/* Whether any hierarchy has the controller; the keeper finds out which. */
static bool controller_found(const char *name, unsigned controller)
{
    struct cgroup_mounts mounts;
    char path[CGROUP_MOUNT_PATH_BYTES + 32];
    scoped_text text = text_read("/proc/self/mountinfo");
    unsigned found = 0;

    cgroup_mounts_find(text, &mounts);
    for (size_t i = 1; i < mounts.n; i++) {
        found |= mounts.at[i].controllers;
    }
    (void)snprintf(path, sizeof(path), "%s/cgroup.controllers", mounts.at[0].path);
    scoped_text unified = text_read(path);
    struct str rest = {unified, strcspn(unified, "\n")}, word;
    while (str_split(&rest, ' ', &word)) {
        found |= str_eq(word, str_of(name)) ? controller : 0;
    }
    return found & controller;
}

static enum probe_verdict probe_cgroups(const struct probe *probe, struct probe_result *out)
{
    bool cpu = controller_found("cpu", CGROUP_CPU);
    bool memory = controller_found("memory", CGROUP_MEMORY);
    bool pids = controller_found("pids", CGROUP_PIDS);

    (void)probe;
    if (!cpu || !memory || !pids) {
        return verdict(out, PROBE_DEGRADED,
                       "no control of%s%s%s: those limits do not hold; see "
                       "the kernel's cgroup_disable option",
                       cpu ? "" : " cpu", memory ? "" : " memory", pids ? "" : " pids");
    }
    return verdict(out, PROBE_OK, "cpu, memory and pids can be limited");
}

static enum probe_verdict probe_seccomp(const struct probe *probe, struct probe_result *out)
{
    struct filters *filters = NULL;
    struct err err = {0};

    (void)probe;
    if (prctl(PR_GET_SECCOMP, 0, 0, 0, 0) < 0) {
        return verdict(out, PROBE_MISSING, "the kernel has no seccomp: use one that has");
    }
    if (filters_compile(&filters, &err) < 0) {
        return verdict(out, PROBE_MISSING, "%s: update libseccomp", err.msg);
    }
    filters_free(filters);
    return verdict(out, PROBE_OK, "system calls can be filtered");
}

/* 0 when a child in its own namespaces could mount a procfs. */
static int proc_mount_child(void)
{
    struct err err;
    struct clone_args args = {
        .flags = CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS,
        .exit_signal = SIGCHLD,
    };
    long pid = syscall(SYS_clone3, &args, sizeof(args));

    if (pid == 0) {
        _exit(mounts_new("proc", NULL, 0, &err) < 0 ? 1 : 0);
    }
    return pid > 0 && pid_wait_success((pid_t)pid) ? 0 : -1;
}

/* 0 when a child in its own network namespace could be given a jail's network. */
static int network_child(const struct network *network)
{
    struct err err;
    struct clone_args args = {.flags = CLONE_NEWUSER | CLONE_NEWNET, .exit_signal = SIGCHLD};
    long pid = syscall(SYS_clone3, &args, sizeof(args));

    if (pid == 0) {
        _exit(network_loopback(&err) < 0 || network_open(network, &err) < 0 ? 1 : 0);
    }
    return pid > 0 && pid_wait_success((pid_t)pid) ? 0 : -1;
}

static enum probe_verdict probe_network(const struct probe *probe, struct probe_result *out)
{
    struct network *network = NULL;
    struct err err;

    (void)probe;
    int r = network_new(&network, &err);
    if (r == 0) {
        r = network_child(network);
    }
    network_free(network);
    if (r != 0) {
        return verdict(out, PROBE_DEGRADED,
                       "sandboxes can have no way out: load the modules nf_tables, nft_chain_nat, "
                       "nft_ct and nft_reject_inet");
    }
    return verdict(out, PROBE_OK, "sandboxes can have a way out");
}

static enum probe_verdict probe_proc(const struct probe *probe, struct probe_result *out)
{
    (void)probe;
    if (proc_mount_child() != 0) {
        return verdict(out, PROBE_DEGRADED,
                       "a user namespace cannot mount /proc here: parts of the host's are covered; "
                       "the keeper mounts one of its own for that");
    }
    return verdict(out, PROBE_OK, "/proc can be mounted in a user namespace");
}

/* The kernel counts inotify instances for the owner of the user namespace, which is the jail. */
static enum probe_verdict probe_inotify(const struct probe *probe, struct probe_result *out)
{
    static const char setting[] = "/proc/sys/fs/inotify/max_user_instances";
    scoped_text text = text_read(setting);
    long most = strtol(text, NULL, 10);

    (void)probe;
    if (most < INOTIFY_INSTANCES) {
        return verdict(out, PROBE_DEGRADED,
                       "a sandbox may watch files with %ld inotify instances: "
                       "sysctl fs.inotify.max_user_instances=%d gives more",
                       most, INOTIFY_INSTANCES);
    }
    return verdict(out, PROBE_OK, "each sandbox may have %ld inotify instances", most);
}

/* Limits of the whole machine: the keeper raises them when it starts. */
static enum probe_verdict probe_shared(const struct probe *probe, struct probe_result *out)
{
    (void)probe;
    for (size_t i = 0; i < HOST_LIMITS; i++) {
        const struct host_limit *limit = &host_limits[i];
        if (!host_limit_is_raisable(limit)) {
            return verdict(out, PROBE_DEGRADED,
                           "the whole machine may have %" PRIu64 " %s, which all sandboxes share, "
                           "and %s cannot be raised",
                           host_limit_read(limit), limit->what, limit->name);
        }
    }
    return verdict(out, PROBE_OK,
                   "the machine may have %" PRIu64 " processes and threads; the keeper raises the "
                   "limits of what all sandboxes share when it starts",
                   host_limit_read(&host_limits[0]));
}

static enum probe_verdict probe_descriptors(const struct probe *probe, struct probe_result *out)
{
    size_t most = fd_allow_most();

    (void)probe;
    if (most < DESCRIPTORS) {
        return verdict(out, PROBE_DEGRADED,
                       "a process may have %zu descriptors, which is enough for %zu sandboxes: "
                       "start it with a higher limit (ulimit -n)",
                       most, most / KEEPER_FDS_HELD);
    }
    return verdict(out, PROBE_OK,
                   "a process may have %zu descriptors, which is enough for %zu sandboxes", most,
                   most / KEEPER_FDS_HELD);
}

/* The keeper that runs for this data directory, found by its lock; 0 when there is none. */
static pid_t keeper_running(const struct probe *probe)
{
    char path[PATH_MAX];
    struct stat file;
    scoped_text locks = text_read("/proc/locks");

    (void)snprintf(path, sizeof(path), "%s/run/keeper.lock", probe->data);
    if (stat(path, &file) < 0) {
        return 0;
    }
    for (char *at = locks; at; at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL) {
        int pid = 0;
        unsigned long inode = 0;
        if (sscanf(at, "%*d: FLOCK ADVISORY WRITE %d %*x:%*x:%lu", // NOLINT(cert-err34-c)
                   &pid, &inode) == 2 &&
            inode == file.st_ino) {
            return pid;
        }
    }
    return 0;
}

static enum probe_verdict probe_memory(const struct probe *probe, struct probe_result *out)
{
    struct criu_program criu;
    struct err err;

    pid_t keeper = keeper_running(probe);
    if (criu_is_hindered(0) || (keeper > 0 && criu_is_hindered(keeper))) {
        return verdict(out, PROBE_DEGRADED,
                       "sandboxes are paused without their memory: a seccomp filter holds for the "
                       "keeper: take settings such as RestrictAddressFamilies= out of its unit, or "
                       "start it outside the container that sets it");
    }
    if (criu_find(&criu, &err) < 0) {
        return verdict(
            out, PROBE_DEGRADED,
            "sandboxes are paused without their memory: %s (`make deps-criu` fetches it)", err.msg);
    }
    return verdict(out, PROBE_OK, "CRIU %d.%d.%d saves sandboxes with their memory",
                   criu.version / 10000, criu.version / 100 % 100, criu.version % 100);
}

struct probe_result probe_sharing(bool wanted)
{
    struct probe_result out = {.name = "shared memory"};
    struct criu_program criu;
    struct err err;

    if (!wanted) {
        out.verdict = verdict(&out, PROBE_OK,
                              "CRIU as it is restores every sandbox, with a copy of its save's "
                              "memory, unless the daemon was started with share_memory");
    } else if (criu_find_zygote(&criu, &err) < 0) {
        out.verdict =
            verdict(&out, PROBE_OK,
                    "CRIU as it is restores every sandbox, with a copy of its save's "
                    "memory, until `tools/deps criu-zygote` has built one with our patch");
    } else {
        out.verdict = verdict(&out, PROBE_OK,
                              "CRIU %d.%d.%d with our patch clones sandboxes that start from one "
                              "save, so that they share its memory",
                              criu.version / 10000, criu.version / 100 % 100, criu.version % 100);
    }
    return out;
}

struct probe_result probe_merging(bool wanted)
{
    struct probe_result out = {.name = "merged pages"};
    struct err err;

    if (merge_check(&err) < 0) {
        out.verdict = verdict(&out, wanted ? PROBE_DEGRADED : PROBE_OK,
                              "every sandbox holds its own pages of memory: %s", err.msg);
    } else {
        out.verdict = verdict(&out, PROBE_OK, "%s",
                              wanted ? "sandboxes hold equal pages of memory once (merge_pages)"
                                     : "every sandbox holds its own pages of memory, unless the "
                                       "daemon was started with merge_pages");
    }
    return out;
}

struct probe_result probe_size_bpf(bool wanted)
{
    struct probe_result out = {.name = "figures"};
    struct size_bpf *size_bpf = NULL;
    struct err err;

    if (!wanted) {
        out.verdict = verdict(&out, PROBE_OK,
                              "df and sysinfo() in a sandbox tell the host's figures, since "
                              "bpf_figures is off; its limits hold");
    } else if (size_bpf_open(&size_bpf, &err) < 0) {
        out.verdict = verdict(&out, PROBE_DEGRADED,
                              "df and sysinfo() in a sandbox tell the host's figures, and its "
                              "limits hold: %s",
                              err.msg);
    } else {
        out.verdict = verdict(&out, PROBE_OK, "df and sysinfo() in a sandbox tell its own limits");
    }
    size_bpf_close(size_bpf);
    return out;
}

/* ---- all of them ---- */

/* The nearest existing directory: the data directory will be made on the same file system. */
static void nearest_dir(const char *path, char out[PATH_MAX])
{
    (void)snprintf(out, PATH_MAX, "%s", path);
    while (access(out, F_OK) < 0 && strcmp(out, "/") != 0) {
        char *slash = strrchr(out, '/');
        if (!slash || slash == out) {
            (void)snprintf(out, PATH_MAX, "/");
        } else {
            *slash = '\0';
        }
    }
}

size_t probe_machine(const char *data_dir, struct probe_result out[PROBE_RESULTS_MAX])
{
    static const struct {
        const char *name;
        enum probe_verdict (*run)(const struct probe *probe, struct probe_result *out);
    } points[] = {
        {"root", probe_root},
        {"kernel", probe_kernel},
        {"user namespaces", probe_userns},
        {"overlayfs", probe_overlay},
        {"idmapped mounts", probe_idmap},
        {"btrfs", probe_btrfs},
        {"loop devices", probe_loop},
        {"control groups", probe_cgroups},
        {"seccomp", probe_seccomp},
        {"proc", probe_proc},
        {"network", probe_network},
        {"inotify", probe_inotify},
        {"shared limits", probe_shared},
        {"descriptors", probe_descriptors},
        {"memory", probe_memory},
    };
    static_assert(countof(points) <= PROBE_RESULTS_MAX, "room for every point");
    struct err err;
    scoped_fd userns = userns_make(userns_base(0), &err);
    char where[PATH_MAX];

    nearest_dir(data_dir, where);
    const struct probe probe = {data_dir, where, userns};
    for (size_t i = 0; i < countof(points); i++) {
        out[i].name = points[i].name;
        out[i].verdict = points[i].run(&probe, &out[i]);
    }
    return countof(points);
}
