#include "keeper/jail/jail_mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "keeper/disk/mounts.h"
#include "lib/base/fd.h"
#include "lib/base/id.h"
#include "wire/channel.h"

enum {
    TTY_GROUP = 5,       /* "tty" on every Debian; devpts gives it the terminals */
    TERMINALS_MAX = 256, /* limit of a jail; the host has 3,072, or kernel.pty.max */
};

/* These show the host's keys, memory and timers, its boot parameters, its disks, and device
 * activity. */
const char *const jail_mounts_masked_files[JAIL_MOUNTS_MASKED_FILES] = {
    "kcore",   "keys",      "key-users",  "timer_list", "latency_stats", "sysrq-trigger",
    "cmdline", "diskstats", "interrupts", "partitions", "swaps",
};
/* These show its hardware and its mounted file systems. */
const char *const jail_mounts_masked_dirs[JAIL_MOUNTS_MASKED_DIRS] = {
    "acpi", "asound", "bus", "driver", "fs", "irq", "scsi",
};
static const char *const read_only_dirs[] = {"sys"};

static const unsigned attr_data = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC;

/* ---- before the jail's root is entered ---- */

static int take(int *out, const char *path, struct err *err)
{
    *out = mounts_clone(AT_FDCWD, path, 0, err);
    return *out < 0 ? *out : 0;
}

/* Makes a cover for each file that this kernel has, and no more: closing an unused one would wait
 * as an unmount does. */
static int take_masks(int proc, const char *const *names, int *out, size_t n, const char *cover,
                      struct err *err)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < n; i++) {
        out[i] = -1;
        if (faccessat(proc, names[i], F_OK, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT) {
            r = take(&out[i], cover, err);
        }
    }
    return r;
}

static int take_nodes(struct jail_mounts *f, struct err *err)
{
    for (size_t i = 0; i < KEEPER_ROOT_NODES; i++) {
        char path[32];
        (void)snprintf(path, sizeof(path), "/dev/%s", keeper_root_nodes[i].name);
        int r = take(&f->nodes[i], path, err);
        if (r < 0) {
            return r;
        }
    }
    return 0;
}

int jail_mounts_take(struct jail_mounts *f, struct err *err)
{
    f->proc = mounts_new("proc", NULL, attr_data, err);
    int r = f->proc < 0 ? f->proc : take_nodes(f, err);

    if (r == 0) {
        r = take_masks(f->proc, jail_mounts_masked_files, f->null_masks, JAIL_MOUNTS_MASKED_FILES,
                       "/dev/null", err);
    }
    if (r == 0) {
        r = take_masks(f->proc, jail_mounts_masked_dirs, f->empty_masks, JAIL_MOUNTS_MASKED_DIRS,
                       "/empty", err);
    }
    if (r == 0) {
        r = take(&f->sys, "/sys", err);
    }
    if (r == 0) {
        f->agent = mounts_clone(AT_FDCWD, "/agent",
                                MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, err);
        r = f->agent < 0 ? f->agent : 0;
    }
    return r;
}

/* ---- after it ---- */

static int put(int mount_fd, int at_fd, const char *name, struct err *err)
{
    return mount_fd < 0 ? mount_fd : mounts_attach(mount_fd, at_fd, name, err);
}

/* Mounts on one of the template's directories. */
static int put_in_root(int mount_fd, int root_fd, const char *name, struct err *err)
{
    if (mount_fd < 0) {
        return mount_fd;
    }
    scoped_fd at = mounts_target(root_fd, name, MOUNTS_DIR, err);
    return at < 0 ? at : mounts_attach(mount_fd, at, "", err);
}

static int tmpfs_new(const char *mode, const char *size, unsigned attr, struct err *err)
{
    const struct mount_option options[] = {{"mode", mode}, {"size", size}, {0}};

    return mounts_new("tmpfs", options, attr, err);
}

static const char *const links[][2] = {
    {"ptmx", "pts/ptmx"},          {"fd", "/proc/self/fd"},       {"stdin", "/proc/self/fd/0"},
    {"stdout", "/proc/self/fd/1"}, {"stderr", "/proc/self/fd/2"},
};
static const char *const dev_dirs[] = {"pts", "shm", "mqueue"};

static int links_make(int dev, struct err *err)
{
    for (size_t i = 0; i < countof(links); i++) {
        if (symlinkat(links[i][1], dev, links[i][0]) < 0) {
            return err_sys(err, "make /dev/%s", links[i][0]);
        }
    }
    return 0;
}

static int nodes_mount(const struct jail_mounts *f, int dev, struct err *err)
{
    for (size_t i = 0; i < KEEPER_ROOT_NODES; i++) {
        if (mknodat(dev, keeper_root_nodes[i].name, S_IFREG | 0666, 0) < 0) {
            return err_sys(err, "make /dev/%s", keeper_root_nodes[i].name);
        }
        int r = put(f->nodes[i], dev, keeper_root_nodes[i].name, err);
        if (r < 0) {
            return r;
        }
    }
    return 0;
}

static int devpts_new(struct err *err)
{
    char gid[16], max[16];
    const struct mount_option options[] = {
        {"newinstance", NULL}, {"ptmxmode", "0666"}, {"mode", "0620"},
        {"gid", gid},          {"max", max},         {0},
    };

    (void)snprintf(gid, sizeof(gid), "%d", TTY_GROUP);
    (void)snprintf(max, sizeof(max), "%d", TERMINALS_MAX);
    return mounts_new("devpts", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, err);
}

/* A directory that all may write to. chmod() is needed because mkdir() applies the umask. */
static int common_dir(int dir, const char *name, struct err *err)
{
    if (mkdirat(dir, name, 0755) < 0 || fchmodat(dir, name, 01777, 0) < 0) {
        return err_sys(err, "make the directory %s", name);
    }
    return 0;
}

/* `private` is the directory below the jail's /run for files that are mounted elsewhere. */
static int dev_mount(struct jail_mounts *f, int root_fd, int private, struct err *err)
{
    if (mkdirat(private, "dev", 0755) < 0) {
        return err_sys(err, "make the directory of /dev");
    }
    scoped_fd dev = mounts_clone(private, "dev", MOUNT_ATTR_NOEXEC, err);
    int r = put_in_root(dev, root_fd, "dev", err);
    if (r == 0) {
        r = common_dir(private, "shm", err);
    }
    if (r < 0) {
        return r;
    }
    for (size_t i = 0; i < countof(dev_dirs); i++) {
        if (mkdirat(dev, dev_dirs[i], 0755) < 0) {
            return err_sys(err, "make the directories of /dev");
        }
    }
    scoped_fd pts = devpts_new(err);
    r = put(pts, dev, "pts", err);
    if (r == 0) {
        scoped_fd shm = mounts_clone(private, "shm", 0, err);
        r = put(shm, dev, "shm", err);
    }
    if (r == 0) {
        scoped_fd mqueue = mounts_new("mqueue", NULL, attr_data, err);
        r = put(mqueue, dev, "mqueue", err);
    }
    if (r == 0) {
        r = nodes_mount(f, dev, err);
    }
    if (r == 0) {
        r = links_make(dev, err);
    }
    f->dev = move_fd(&dev);
    return r;
}

/* Mounts on a path of the jail's new procfs, and of no other file system. A path that the kernel
 * does not have needs no cover. */
static int proc_cover(int proc, const char *path, int mount_fd, struct err *err)
{
    if (mount_fd < 0) {
        return mount_fd;
    }
    int at = mounts_open_beneath(proc, path, O_PATH | O_NOFOLLOW, 0, 0);
    if (at == -ENOENT) {
        return 0;
    }
    if (at < 0) {
        return err_set(err, -at, "open /proc/%s", path);
    }
    scoped_fd fd = at;
    return mounts_attach(mount_fd, fd, "", err);
}

static int proc_read_only(int proc, const char *path, struct err *err)
{
    struct err why;
    scoped_fd fd = mounts_clone(proc, path, MOUNT_ATTR_RDONLY, &why);

    if (fd == -ENOENT) {
        return 0;
    }
    if (fd < 0) {
        *err = why;
        return fd;
    }
    return proc_cover(proc, path, fd, err);
}

static int proc_mask(int proc, const char *const *names, const int *masks, size_t n,
                     struct err *err)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < n; i++) {
        r = masks[i] < 0 ? 0 : proc_cover(proc, names[i], masks[i], err);
    }
    return r;
}

static int proc_mount(const struct jail_mounts *f, int root_fd, struct err *err)
{
    int r = put_in_root(f->proc, root_fd, "proc", err);

    for (size_t i = 0; r == 0 && i < countof(read_only_dirs); i++) {
        r = proc_read_only(f->proc, read_only_dirs[i], err);
    }
    if (r == 0) {
        r = proc_mask(f->proc, jail_mounts_masked_files, f->null_masks, JAIL_MOUNTS_MASKED_FILES,
                      err);
    }
    return r < 0 ? r
                 : proc_mask(f->proc, jail_mounts_masked_dirs, f->empty_masks,
                             JAIL_MOUNTS_MASKED_DIRS, err);
}

/* Programs read the boot id to see whether this is another machine: every jail is one. The file in
 * `private` stays writable, for the keeper to change it in a restored copy. */
static int boot_id_mount(int proc, int run, struct err *err)
{
    char id[ID_UUID_LEN + 2];

    id_uuid(id);
    memcpy(id + ID_UUID_LEN, "\n", 2);
    scoped_fd file = openat(run, "boot_id", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
    if (file < 0 || write(file, id, strlen(id)) < 0) {
        return err_sys(err, "write the jail's boot id");
    }
    scoped_fd fd = mounts_clone(run, "boot_id", MOUNT_ATTR_RDONLY, err);
    return proc_cover(proc, "sys/kernel/random/boot_id", fd, err);
}

static int private_fill(const struct jail_mounts *f, int private, struct err *err)
{
    if (mknodat(private, "agent", S_IFREG | 0555, 0) < 0) {
        return err_sys(err, "make " JAIL_MOUNTS_AGENT);
    }
    int r = put(f->agent, private, "agent", err);
    return r < 0 ? r : boot_id_mount(f->proc, private, err);
}

/* Covers the host's figures with the jail's: read-only at those paths, writable in `private`. */
static int shown_mount(const struct jail_mounts *f, int private, const struct keeper_plan *plan,
                       const struct size_files *size_files, struct err *err)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < SIZE_FILES_N; i++) {
        r = size_files_make(size_files, plan, private, i, err);
        if (r == 0) {
            scoped_fd fd = mounts_clone(private, size_files_files[i].name, MOUNT_ATTR_RDONLY, err);
            r = proc_cover(size_files_files[i].in_sys ? f->sys : f->proc, size_files_files[i].over,
                           fd, err);
        }
    }
    return r;
}

/* A single tmpfs holds everything that a jail keeps in memory, because the end of every memory
 * group walks all file systems of the machine. It is mounted at /run. Returns a directory in it
 * that only root can use, for files that are mounted elsewhere. */
static int run_mount(int root_fd, const char *size, struct err *err)
{
    scoped_fd run = tmpfs_new("0755", size, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, err);
    int r = put_in_root(run, root_fd, "run", err);

    if (r == 0) {
        r = common_dir(run, "lock", err); /* as on Debian */
    }
    if (r < 0) {
        return r;
    }
    int private = mkdirat(run, "atoll", 0700) < 0
                      ? -1
                      : openat(run, "atoll", O_PATH | O_DIRECTORY | O_CLOEXEC);
    return private < 0 ? err_sys(err, "make " CHANNEL_DIR) : private;
}

int jail_mounts_mount(struct jail_mounts *f, int root_fd, const struct keeper_plan *plan,
                      const struct size_files *size_files, struct err *err)
{
    char size[24]; /* files in memory count as the jail's memory: at most half of it */

    (void)snprintf(size, sizeof(size), "%uk", plan->memory_mb * 512);
    scoped_fd private = run_mount(root_fd, size, err);
    int r = private < 0 ? private : dev_mount(f, root_fd, private, err);
    if (r == 0) {
        r = proc_mount(f, root_fd, err);
    }
    if (r == 0) {
        r = put_in_root(f->sys, root_fd, "sys", err);
    }
    if (r == 0) {
        r = private_fill(f, private, err);
    }
    return r < 0 ? r : shown_mount(f, private, plan, size_files, err);
}

/* ---- what each jail has ---- */

/* The type of the file that a jail has under this name in /dev. */
static mode_t dev_type(const char *name)
{
    for (size_t i = 0; i < countof(links); i++) {
        if (strcmp(name, links[i][0]) == 0) {
            return S_IFLNK;
        }
    }
    for (size_t i = 0; i < countof(dev_dirs); i++) {
        if (strcmp(name, dev_dirs[i]) == 0) {
            return S_IFDIR;
        }
    }
    for (size_t i = 0; i < KEEPER_ROOT_NODES; i++) {
        if (strcmp(name, keeper_root_nodes[i].name) == 0) {
            return S_IFREG;
        }
    }
    return 0;
}

static mode_t private_type(const char *name)
{
    if (strcmp(name, "dev") == 0) {
        return S_IFDIR;
    }
    for (size_t i = 0; i < SIZE_FILES_N; i++) {
        if (strcmp(name, size_files_files[i].name) == 0) {
            return S_IFREG;
        }
    }
    return strcmp(name, "agent") == 0 || strcmp(name, "boot_id") == 0 ? S_IFREG : 0;
}

bool jail_mounts_has(const char *path, mode_t mode)
{
    static const char dev[] = "dev/";
    const bool in_dev = strncmp(path, dev, strlen(dev)) == 0;
    const mode_t type = in_dev ? dev_type(path + strlen(dev)) : private_type(path);

    return type && type == (mode & S_IFMT);
}

size_t jail_mounts_has_n(void)
{
    const size_t others = 3; /* dev, agent, boot_id */

    return others + SIZE_FILES_N + countof(links) + countof(dev_dirs) + KEEPER_ROOT_NODES;
}
