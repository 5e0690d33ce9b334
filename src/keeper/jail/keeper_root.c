#include "keeper/jail/keeper_root.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

#include "keeper/disk/mounts.h"
#include "lib/base/fd.h"
#include "lib/base/small_file.h"
#include "wire/keeper.h"

const struct keeper_root_node keeper_root_nodes[KEEPER_ROOT_NODES] = {
    {"null", 1, 3},   {"zero", 1, 5},    {"full", 1, 7},
    {"random", 1, 8}, {"urandom", 1, 9}, {"tty", 5, 0},
};

static const unsigned attr_sealed =
    MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC;

static int keeper_root_dir(int root, const char *name, struct err *err)
{
    if (mkdirat(root, name, 0755) < 0) {
        return err_sys(err, "make /%s of the keeper's root", name);
    }
    return 0;
}

/* Attaches a detached mount at a new directory or file of the keeper's root, and closes the
 * descriptor. */
static int stage_put(int root, const char *name, enum mounts_kind kind, int mount_fd,
                     struct err *err)
{
    scoped_fd mount = mount_fd;

    if (mount < 0) {
        return mount; /* err has the reason */
    }
    scoped_fd at = mounts_target(root, name, kind, err);
    return at < 0 ? at : mounts_attach(mount, at, "", err);
}

static int node_clone(const struct keeper_root_node *node, struct err *err)
{
    char path[32];
    struct stat st;

    (void)snprintf(path, sizeof(path), "/dev/%s", node->name);
    scoped_fd fd = mounts_clone(AT_FDCWD, path, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, err);
    if (fd < 0) {
        return fd;
    }
    if (fstat(fd, &st) < 0 || !S_ISCHR(st.st_mode) ||
        st.st_rdev != makedev(node->major, node->minor)) {
        return err_set(err, ENODEV, "%s of the host is not the device %u:%u", path, node->major,
                       node->minor);
    }
    return move_fd(&fd);
}

static int nodes_put(int root, struct err *err)
{
    int r = keeper_root_dir(root, "dev", err);

    for (size_t i = 0; r == 0 && i < KEEPER_ROOT_NODES; i++) {
        char name[32];
        (void)snprintf(name, sizeof(name), "dev/%s", keeper_root_nodes[i].name);
        r = stage_put(root, name, MOUNTS_FILE, node_clone(&keeper_root_nodes[i], err), err);
    }
    return r;
}

/* A copy in memory that all jails share: no jail can reach the program on the host's disk, and
 * mount tables in jails do not show its path. */
static int agent_copy(int root, const char *path, struct err *err)
{
    struct stat st;
    scoped_fd in = open(path, O_RDONLY | O_CLOEXEC);

    if (in < 0 || fstat(in, &st) < 0) {
        return err_sys(err, "open the agent %s", path);
    }
    if (!S_ISREG(st.st_mode) || st.st_size == 0 || st.st_size > KEEPER_ROOT_AGENT_BYTES_MAX) {
        return err_set(err, EINVAL, "the agent %s is not a program of at most %d bytes", path,
                       KEEPER_ROOT_AGENT_BYTES_MAX);
    }
    scoped_fd out = openat(root, "agent", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0555);
    if (out < 0) {
        return err_sys(err, "make the jails' copy of the agent");
    }
    for (off_t left = st.st_size; left > 0;) {
        ssize_t n = sendfile(out, in, NULL, (size_t)left);
        if (n <= 0) {
            return err_sys(err, "copy the agent %s", path);
        }
        left -= n;
    }
    return 0;
}

static int file_copy(int dir_fd, const char *name, const char *from, struct err *err)
{
    char text[256];
    ssize_t n = small_file_read(AT_FDCWD, from, text, sizeof(text));

    if (n < 0) {
        return err_sys(err, "read %s", from);
    }
    scoped_fd out = openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
    if (out < 0 || write(out, text, (size_t)n) != n) {
        return err_sys(err, "write the jails' copy of %s", from);
    }
    return 0;
}

/* A sysfs would show the host's devices, and a jail with one cannot be saved. */
static int sys_make(struct err *err)
{
    static const char *const dirs[] = {"devices", "devices/system", "devices/system/cpu", "fs",
                                       "fs/cgroup"};
    static const char *const files[] = {"online", "possible", "present"};
    struct mount_attr seal = {.attr_set = attr_sealed};
    const struct mount_option options[] = {{"size", "64k"}, {"mode", "0555"}, {0}};
    scoped_fd fd = mounts_new("tmpfs", options, 0, err);
    int r = fd < 0 ? fd : 0;

    for (size_t i = 0; r == 0 && i < countof(dirs); i++) {
        r = keeper_root_dir(fd, dirs[i], err);
    }
    for (size_t i = 0; r == 0 && i < countof(files); i++) {
        char name[64], from[80];
        (void)snprintf(name, sizeof(name), "devices/system/cpu/%s", files[i]);
        (void)snprintf(from, sizeof(from), "/sys/%s", name);
        r = file_copy(fd, name, from, err);
    }
    if (r == 0 && mount_setattr(fd, "", AT_EMPTY_PATH, &seal, sizeof(seal)) < 0) {
        r = err_sys(err, "seal the jails' /sys");
    }
    return r < 0 ? r : move_fd(&fd);
}

static int empty_make(struct err *err)
{
    const struct mount_option options[] = {{"size", "4k"}, {"mode", "0555"}, {0}};

    return mounts_new("tmpfs", options, attr_sealed, err);
}

static int scratch_make(int root, struct err *err)
{
    int r = keeper_root_dir(root, "upper", err);

    if (r == 0) {
        r = keeper_root_dir(root, "root", err);
    }
    for (unsigned i = 0; r == 0 && i < KEEPER_LAYERS_MAX; i++) {
        char name[8];
        (void)snprintf(name, sizeof(name), "l%u", i);
        r = keeper_root_dir(root, name, err);
    }
    return r;
}

/* Older kernels cannot mount on a detached mount: so the keeper's root is first mounted over /proc
 * of this namespace, filled there, and then made the root. Everything from the host's /proc, /dev
 * and paths must be opened before. */
static int keeper_root_fill(int root, int pool_fd, const char *agent_path, struct err *err)
{
    scoped_fd pool = pool_fd;
    int r = agent_copy(root, agent_path, err);

    if (r == 0 && move_mount(root, "", AT_FDCWD, "/proc", MOVE_MOUNT_F_EMPTY_PATH) < 0) {
        r = err_sys(err, "attach the keeper's root");
    }
    if (r == 0) {
        r = stage_put(root, "proc", MOUNTS_DIR, mounts_new("proc", NULL, 0, err), err);
    }
    if (r == 0) {
        r = stage_put(root, "pool", MOUNTS_DIR, move_fd(&pool), err);
    }
    if (r == 0) {
        r = nodes_put(root, err);
    }
    if (r == 0) {
        r = stage_put(root, "sys", MOUNTS_DIR, sys_make(err), err);
    }
    if (r == 0) {
        r = stage_put(root, "empty", MOUNTS_DIR, empty_make(err), err);
    }
    return r < 0 ? r : scratch_make(root, err);
}

int keeper_root_enter(int pool_fd, const char *agent_path, int *ns, struct err *err)
{
    const struct mount_option options[] = {{"size", "32m"}, {"mode", "0755"}, {0}};

    /* A mount can be cloned only in the namespace in which its descriptor was opened. */
    scoped_fd pool = mounts_clone(pool_fd, "", 0, err);
    if (pool < 0) {
        return pool;
    }
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) {
        return err_sys(err, "enter a mount namespace");
    }
    scoped_fd root = mounts_new("tmpfs", options, MOUNT_ATTR_NOSUID, err);
    if (root < 0) {
        return root;
    }
    int r = keeper_root_fill(root, move_fd(&pool), agent_path, err);
    if (r < 0) {
        return r;
    }
    if (fchdir(root) < 0 || syscall(SYS_pivot_root, ".", ".") < 0 || umount2(".", MNT_DETACH) < 0 ||
        chdir("/") < 0) {
        return err_sys(err, "enter the keeper's root");
    }
    *ns = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
    return *ns < 0 ? err_sys(err, "open the mount namespace") : 0;
}
