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

/* The item of that type that the quota tree has for the subvolume. */
static bool quota_read(int fd, uint32_t type, void *item, size_t size)
{
    uint64_t id = subvol_id(fd);
    struct btrfs_ioctl_search_args args = {.key = {.tree_id = BTRFS_QUOTA_TREE_OBJECTID,
                                                   .min_type = type,
                                                   .max_type = type,
                                                   .min_offset = id,
                                                   .max_offset = id,
                                                   .max_transid = UINT64_MAX,
                                                   .nr_items = 1}};
    struct btrfs_ioctl_search_header header;

    if (!id || ioctl(fd, BTRFS_IOC_TREE_SEARCH, &args) < 0 || args.key.nr_items != 1) {
        return false;
    }
    memcpy(&header, args.buf, sizeof(header));
    if (header.len < size) {
        return false;
    }
    memcpy(item, args.buf + sizeof(header), size);
    return true;
}

uint64_t subvol_limit_bytes(int fd)
{
    struct btrfs_qgroup_limit_item item;

    return quota_read(fd, BTRFS_QGROUP_LIMIT_KEY, &item, sizeof(item)) &&
                   le64toh(item.flags) & BTRFS_QGROUP_LIMIT_MAX_RFER
               ? le64toh(item.max_rfer)
               : 0;
}

uint64_t subvol_bytes(int fd)
{
    struct btrfs_qgroup_info_item item;

    return quota_read(fd, BTRFS_QGROUP_INFO_KEY, &item, sizeof(item)) ? le64toh(item.rfer) : 0;
}
