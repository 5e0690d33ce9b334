#include "keeper/disk/disk_repair.h"

#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/xattr.h>

#include "keeper/disk/pool.h"
#include "lib/base/fd.h"

/* The handle: version, magic, length, flags, type, 16 bytes of uuid, then the part of the file
 * system. For btrfs: the inode, the subvolume, the generation. */
enum {
    HANDLE_MAGIC_AT = 1,
    HANDLE_MAGIC = 0xfb,
    HANDLE_TYPE_AT = 4,
    HANDLE_TYPE_BTRFS = 0x4d, /* the two next types include a parent */
    HANDLE_TYPE_BTRFS_LAST = 0x4f,
    HANDLE_SUBVOL_AT = 29,
    HANDLE_BYTES_MIN = 41,
    HANDLE_BYTES_MAX = 128,
};

#define HANDLE_ATTRIBUTE "trusted.overlay.upper"
#define VOLATILE_MARK POOL_WORK "/work/incompat/volatile"
#define VOLATILE_DIRTY VOLATILE_MARK "/dirty"

int handle_repair(unsigned char *handle, size_t len, uint64_t subvol)
{
    uint64_t now, want = htole64(subvol);

    if (len < HANDLE_BYTES_MIN || handle[HANDLE_MAGIC_AT] != HANDLE_MAGIC ||
        handle[HANDLE_TYPE_AT] < HANDLE_TYPE_BTRFS ||
        handle[HANDLE_TYPE_AT] > HANDLE_TYPE_BTRFS_LAST) {
        return -EINVAL;
    }
    memcpy(&now, handle + HANDLE_SUBVOL_AT, sizeof(now));
    memcpy(handle + HANDLE_SUBVOL_AT, &want, sizeof(want));
    return now != want;
}

/* A file without the attribute is not the entry of a directory. overlayfs itself checks other kinds
 * of handles. */
static int entry_repair(int fd, uint64_t subvol, struct err *err)
{
    unsigned char handle[HANDLE_BYTES_MAX];
    ssize_t n = fgetxattr(fd, HANDLE_ATTRIBUTE, handle, sizeof(handle));

    if (n > 0 && handle_repair(handle, (size_t)n, subvol) == 1 &&
        fsetxattr(fd, HANDLE_ATTRIBUTE, handle, (size_t)n, 0) < 0) {
        return err_sys(err, "mend the disk's index");
    }
    return 0;
}

static void dir_closep(DIR **dir)
{
    if (*dir) {
        (void)closedir(*dir);
    }
}

static int index_repair(int disk_fd, uint64_t subvol, struct err *err)
{
    int fd = openat(disk_fd, POOL_WORK "/index", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    scoped(dir_closep) DIR *dir = fd < 0 ? NULL : fdopendir(fd);

    if (!dir) {
        return fd < 0 && errno == ENOENT ? 0 : err_sys(err, "open the disk's index");
    }
    int r = entry_repair(fd, subvol, err);
    for (struct dirent *entry; r == 0 && (entry = readdir(dir));) {
        if (entry->d_type != DT_DIR || entry->d_name[0] == '.') {
            continue;
        }
        scoped_fd one = openat(fd, entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        r = one < 0 ? err_sys(err, "open an entry of the disk's index")
                    : entry_repair(one, subvol, err);
    }
    return r;
}

int disk_repair(int disk_fd, uint64_t subvol, struct err *err)
{
    if ((unlinkat(disk_fd, VOLATILE_DIRTY, 0) < 0 && errno != ENOENT) ||
        (unlinkat(disk_fd, VOLATILE_MARK, AT_REMOVEDIR) < 0 && errno != ENOENT)) {
        return err_sys(err, "remove the disk's mark of use");
    }
    return subvol ? index_repair(disk_fd, subvol, err) : 0;
}
