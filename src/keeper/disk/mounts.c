#include "keeper/disk/mounts.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "lib/base/fd.h"

/* The kernel explains a refused option in the mount context: that says more than EINVAL. */
static int context_error(int fs_fd, const char *what, struct err *err)
{
    int saved = errno;
    char why[160];
    ssize_t n = read(fs_fd, why, sizeof(why) - 1);

    errno = saved;
    if (n <= 2) {
        return err_sys(err, "%s", what);
    }
    why[n] = '\0';
    why[strcspn(why, "\n")] = '\0';
    return err_sys(err, "%s (%s)", what, why + 2); /* after "e " */
}

int mounts_new(const char *type, const struct mount_option *options, unsigned attr, struct err *err)
{
    scoped_fd fs = fsopen(type, FSOPEN_CLOEXEC);
    if (fs < 0) {
        return err_sys(err, "open filesystem type %s", type);
    }
    for (const struct mount_option *o = options; o && o->key; o++) {
        unsigned cmd = o->value ? FSCONFIG_SET_STRING : FSCONFIG_SET_FLAG;
        if (fsconfig(fs, cmd, o->key, o->value, 0) < 0) {
            (void)context_error(fs, o->key, err);
            return err_wrap(err, "set an option of %s", type);
        }
    }
    if (fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0) {
        (void)context_error(fs, "create", err);
        return err_wrap(err, "mount %s", type);
    }
    int fd = fsmount(fs, FSMOUNT_CLOEXEC, attr);
    return fd < 0 ? context_error(fs, "fsmount", err) : fd;
}

static int clone_with(int dir_fd, const char *path, const struct mount_attr *attr, struct err *err)
{
    unsigned flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH;
    scoped_fd fd = open_tree(dir_fd, path, flags);

    if (fd < 0) {
        return err_sys(err, "clone the mount of '%s'", path);
    }
    /* mount_setattr() takes only a whole struct, and glibc declares its argument writable. */
    struct mount_attr copy = *attr;
    if ((copy.attr_set || copy.attr_clr) &&
        mount_setattr(fd, "", AT_EMPTY_PATH, &copy, sizeof(copy)) < 0) {
        return err_sys(err, "set attributes of the mount of '%s'", path);
    }
    return move_fd(&fd);
}

int mounts_clone(int dir_fd, const char *path, uint64_t attr_set, struct err *err)
{
    struct mount_attr attr = {.attr_set = attr_set};

    return clone_with(dir_fd, path, &attr, err);
}

int mounts_clone_bare(int dir_fd, const char *path, uint64_t attr_set, struct err *err)
{
    struct mount_attr attr = {
        .attr_set = attr_set | MOUNT_ATTR_RELATIME,
        .attr_clr = MOUNT_ATTR__ATIME | (MOUNT_ATTR_NOEXEC & ~attr_set),
    };

    return clone_with(dir_fd, path, &attr, err);
}

int mounts_clone_idmapped(int dir_fd, const char *path, uint64_t attr_set, int userns_fd,
                          struct err *err)
{
    struct mount_attr attr = {
        .attr_set = attr_set | MOUNT_ATTR_IDMAP,
        .userns_fd = (unsigned)userns_fd,
    };

    return clone_with(dir_fd, path, &attr, err);
}

int mounts_attach(int mount_fd, int at_fd, const char *name, struct err *err)
{
    unsigned flags = MOVE_MOUNT_F_EMPTY_PATH | (name[0] ? 0 : MOVE_MOUNT_T_EMPTY_PATH);

    if (move_mount(mount_fd, "", at_fd, name, flags) < 0) {
        return err_sys(err, "attach a mount at '%s'", name);
    }
    return 0;
}

int mounts_open_beneath(int root_fd, const char *path, uint64_t flags, uint64_t mode,
                        uint64_t resolve)
{
    assert(flags & O_PATH); /* only tenant_file.h opens such files */

    struct open_how how = {
        .flags = flags | O_CLOEXEC,
        .mode = mode,
        .resolve = resolve | RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
    };
    long fd = syscall(SYS_openat2, root_fd, path, &how, sizeof(how));

    return fd < 0 ? -errno : (int)fd;
}

static int target_make(int root_fd, const char *path, enum mounts_kind kind)
{
    if (kind == MOUNTS_DIR) {
        return mkdirat(root_fd, path, 0755);
    }
    return mknodat(root_fd, path, S_IFREG | 0444, 0);
}

int mounts_target(int root_fd, const char *path, enum mounts_kind kind, struct err *err)
{
    /* No O_NOFOLLOW: it would find a link and report "not a directory", instead of refusing the
     * link. */
    uint64_t flags = O_PATH | (kind == MOUNTS_DIR ? O_DIRECTORY : 0);
    int fd = mounts_open_beneath(root_fd, path, flags, 0, RESOLVE_NO_XDEV);

    if (fd == -ENOENT && target_make(root_fd, path, kind) == 0) {
        fd = mounts_open_beneath(root_fd, path, flags, 0, RESOLVE_NO_XDEV);
    }
    switch (fd) {
    case -ELOOP:
        return err_set(err, ELOOP, "/%s of the template is, or lies behind, a symbolic link", path);
    case -ENOTDIR:
        return err_set(err, ENOTDIR, "/%s of the template is not a directory", path);
    default:
        if (fd < 0) {
            errno = -fd;
            return err_sys(err, "open /%s of the template", path);
        }
        return fd;
    }
}
