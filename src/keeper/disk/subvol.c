#include "keeper/disk/subvol.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <linux/btrfs.h>
#include <linux/btrfs_tree.h>
#include <string.h>
#include <sys/ioctl.h>

static struct btrfs_ioctl_vol_args args_named(const char *name)
{
    struct btrfs_ioctl_vol_args args = {0};

    assert(strlen(name) < sizeof(args.name));
    memcpy(args.name, name, strlen(name));
    return args;
}

int subvol_create(int dir_fd, const char *name)
{
    struct btrfs_ioctl_vol_args args = args_named(name);

    return ioctl(dir_fd, BTRFS_IOC_SUBVOL_CREATE, &args) < 0 ? -errno : 0;
}

int subvol_snapshot(int source_fd, int dir_fd, const char *name, bool read_only, uint64_t group)
{
    union {
        struct btrfs_qgroup_inherit head;
        char bytes[sizeof(struct btrfs_qgroup_inherit) + sizeof(group)]; /* followed by one group */
    } joins = {.head = {.num_qgroups = 1}};
    struct btrfs_ioctl_vol_args_v2 args = {
        .fd = source_fd,
        .flags = read_only ? BTRFS_SUBVOL_RDONLY : 0,
    };

    if (group) {
        memcpy(joins.bytes + sizeof(joins.head), &group, sizeof(group));
        args.flags |= BTRFS_SUBVOL_QGROUP_INHERIT;
        args.size = sizeof(joins);
        args.qgroup_inherit = &joins.head;
    }
    assert(strlen(name) < sizeof(args.name));
    memcpy(args.name, name, strlen(name));
    return ioctl(dir_fd, BTRFS_IOC_SNAP_CREATE_V2, &args) < 0 ? -errno : 0;
}

int subvol_make_read_only(int fd)
{
    uint64_t flags = BTRFS_SUBVOL_RDONLY;

    return ioctl(fd, BTRFS_IOC_SUBVOL_SETFLAGS, &flags) < 0 ? -errno : 0;
}

int subvol_destroy(int dir_fd, const char *name)
{
    struct btrfs_ioctl_vol_args args = args_named(name);

    return ioctl(dir_fd, BTRFS_IOC_SNAP_DESTROY, &args) < 0 ? -errno : 0;
}

uint64_t subvol_id(int fd)
{
    struct btrfs_ioctl_ino_lookup_args args = {.objectid = BTRFS_FIRST_FREE_OBJECTID};

    return ioctl(fd, BTRFS_IOC_INO_LOOKUP, &args) < 0 ? 0 : args.treeid;
}

int subvol_look(int fd, struct subvol_look *out)
{
    static const uint8_t none[BTRFS_UUID_SIZE];
    struct btrfs_ioctl_get_subvol_info_args args = {0};

    if (ioctl(fd, BTRFS_IOC_GET_SUBVOL_INFO, &args) < 0) {
        return -errno;
    }
    out->is_copy = memcmp(args.parent_uuid, none, sizeof(none)) != 0;
    out->generation = args.generation;
    return 0;
}
