#include "keeper/subvol.h"

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

int subvol_snapshot(int source_fd, int dir_fd, const char *name, bool read_only)
{
    struct btrfs_ioctl_vol_args_v2 args = {
        .fd = source_fd,
        .flags = read_only ? BTRFS_SUBVOL_RDONLY : 0,
    };

    assert(strlen(name) < sizeof(args.name));
    memcpy(args.name, name, strlen(name));
    return ioctl(dir_fd, BTRFS_IOC_SNAP_CREATE_V2, &args) < 0 ? -errno : 0;
}

int subvol_destroy(int dir_fd, const char *name)
{
    struct btrfs_ioctl_vol_args args = args_named(name);

    return ioctl(dir_fd, BTRFS_IOC_SNAP_DESTROY, &args) < 0 ? -errno : 0;
}

int subvol_limit(int fd, uint64_t bytes)
{
    struct btrfs_ioctl_qgroup_limit_args args = {
        .qgroupid = 0, /* that of the subvolume `fd` lies in */
        .lim = {.flags = BTRFS_QGROUP_LIMIT_MAX_RFER, .max_rfer = bytes},
    };

    return ioctl(fd, BTRFS_IOC_QGROUP_LIMIT, &args) < 0 ? -errno : 0;
}

uint64_t subvol_id(int fd)
{
    struct btrfs_ioctl_ino_lookup_args args = {.objectid = BTRFS_FIRST_FREE_OBJECTID};

    return ioctl(fd, BTRFS_IOC_INO_LOOKUP, &args) < 0 ? 0 : args.treeid;
}

uint64_t subvol_bytes(int fd)
{
    uint64_t id = subvol_id(fd);
    struct btrfs_ioctl_search_args args = {.key = {.tree_id = BTRFS_QUOTA_TREE_OBJECTID,
                                                   .min_type = BTRFS_QGROUP_INFO_KEY,
                                                   .max_type = BTRFS_QGROUP_INFO_KEY,
                                                   .min_offset = id,
                                                   .max_offset = id,
                                                   .max_transid = UINT64_MAX,
                                                   .nr_items = 1}};
    struct btrfs_ioctl_search_header header;
    struct btrfs_qgroup_info_item item;

    if (!id || ioctl(fd, BTRFS_IOC_TREE_SEARCH, &args) < 0 || args.key.nr_items != 1) {
        return 0;
    }
    memcpy(&header, args.buf, sizeof(header));
    if (header.len < sizeof(item)) {
        return 0;
    }
    memcpy(&item, args.buf + sizeof(header), sizeof(item));
    return le64toh(item.rfer);
}
