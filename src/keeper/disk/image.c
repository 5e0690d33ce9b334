#include "keeper/disk/image.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/loop.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <time.h>

#include "lib/base/fd.h"
#include "lib/base/pid_wait.h"

enum {
    SHARE_PERCENT = 80, /* of the free space: a sparse image must never outgrow its disk */
    UNMOUNT_TRIES = 20,
    UNMOUNT_POLL_MS = 50,
    LOOP_TRIES = 16, /* another process may take the device between asking and configuring */
};
static const uint64_t image_bytes_min = UINT64_C(512) << 20;

extern char **environ;

static int mkfs_run(char *path, struct err *err)
{
    char *argv[] = {(char[]){"mkfs.btrfs"}, (char[]){"-q"}, (char[]){"-f"}, path, NULL};
    posix_spawn_file_actions_t quiet; /* mkfs prints notes about configuration */
    pid_t pid;

    (void)posix_spawn_file_actions_init(&quiet);
    (void)posix_spawn_file_actions_addopen(&quiet, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    (void)posix_spawn_file_actions_addopen(&quiet, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    int r = posix_spawnp(&pid, argv[0], &quiet, NULL, argv, environ);
    (void)posix_spawn_file_actions_destroy(&quiet);
    if (r != 0) {
        return err_set(err, r, "no mkfs.btrfs to make the pool's image with: install btrfs-progs");
    }
    return pid_wait_success(pid) ? 0 : err_set(err, EIO, "mkfs.btrfs could not make %s", path);
}

static int image_make(const char *image, uint64_t wanted, struct err *err)
{
    char part[PATH_MAX];
    struct statvfs fs;

    (void)snprintf(part, sizeof(part), "%s.part", image);
    scoped_fd fd = open(part, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 || fstatvfs(fd, &fs) < 0) {
        return err_sys(err, "make %s", part);
    }
    uint64_t bytes = (uint64_t)fs.f_bavail * fs.f_frsize / 100 * SHARE_PERCENT;
    bytes = wanted && wanted < bytes ? wanted : bytes;
    bytes -= bytes % (1 << 20);
    int r = bytes < image_bytes_min
                ? err_set(err, ENOSPC, "too little room for a pool in %s: it needs 512 MB", image)
                : 0;
    if (r == 0 && ftruncate(fd, (off_t)bytes) < 0) {
        r = err_sys(err, "size %s", part);
    }
    if (r == 0) {
        r = mkfs_run(part, err);
    }
    if (r == 0 && rename(part, image) < 0) {
        r = err_sys(err, "rename %s", part);
    }
    if (r < 0) {
        (void)unlink(part);
    }
    return r;
}

static bool loop_holds(int loop, const struct stat *image)
{
    struct loop_info64 info;

    return ioctl(loop, LOOP_GET_STATUS64, &info) == 0 && info.lo_device == image->st_dev &&
           info.lo_inode == image->st_ino;
}

static void dirp_close(DIR **dir)
{
    if (*dir) {
        (void)closedir(*dir);
    }
}

/* Finds the loop device that has the image already, or -1. The last unmount of the pool is complete
 * only when every namespace that saw it is gone, possibly after the end of the keeper. Until then
 * the file system is alive, and a second loop device on the image would be a second file system on
 * it. */
static int loop_find(int image_fd, char *path, size_t size)
{
    struct stat image;
    const struct dirent *entry;
    scoped(dirp_close) DIR *dir = opendir("/sys/block");

    if (!dir || fstat(image_fd, &image) < 0) {
        return -1;
    }
    while ((entry = readdir(dir))) {
        if (strncmp(entry->d_name, "loop", 4) != 0) {
            continue;
        }
        (void)snprintf(path, size, "/dev/%.24s", entry->d_name);
        scoped_fd loop = open(path, O_RDWR | O_CLOEXEC);
        if (loop >= 0 && loop_holds(loop, &image)) {
            return move_fd(&loop);
        }
    }
    return -1;
}

/* Returns the open loop device, and its path in `path`. */
static int loop_attach(int image_fd, char *path, size_t size, struct err *err)
{
    struct loop_config config = {
        .fd = (uint32_t)image_fd,
        .info = {.lo_flags = LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO},
    };
    scoped_fd control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);

    if (control < 0) {
        return err_sys(err, "open /dev/loop-control");
    }
    for (int i = 0; i < LOOP_TRIES; i++) {
        int number = ioctl(control, LOOP_CTL_GET_FREE);
        (void)snprintf(path, size, "/dev/loop%d", number);
        scoped_fd loop = number < 0 ? -1 : open(path, O_RDWR | O_CLOEXEC);
        if (loop < 0) {
            return err_sys(err, "find a free loop device");
        }
        if (ioctl(loop, LOOP_CONFIGURE, &config) == 0) {
            return move_fd(&loop);
        }
        if (errno != EBUSY) {
            return err_sys(err, "attach the pool's image to %s", path);
        }
    }
    return err_set(err, EBUSY, "every loop device offered was taken by others");
}

int image_mount(const char *path, uint64_t bytes, struct err *err)
{
    char image[PATH_MAX - sizeof(".part")];
    char device[32];

    if ((size_t)snprintf(image, sizeof(image), "%s.img", path) >= sizeof(image)) {
        return err_set(err, ENAMETOOLONG, "the pool's path is too long");
    }
    if (access(image, F_OK) < 0) {
        int r = image_make(image, bytes, err);
        if (r < 0) {
            return r;
        }
    }
    scoped_fd fd = open(image, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) {
        return err_sys(err, "open %s", image);
    }
    scoped_fd loop = loop_find(fd, device, sizeof(device));
    if (loop < 0) {
        loop = loop_attach(fd, device, sizeof(device), err);
    }
    if (loop < 0) {
        return loop;
    }
    /* Files of a jail's root belong to root on this disk: a setuid program of a jail or a template
     * must never work on the host. Overlays have their own flags, so sudo works inside. */
    if (mount(device, path, "btrfs", MS_NOATIME | MS_NODEV | MS_NOSUID, NULL) < 0) {
        return err_sys(err, "mount the pool's image at %s", path);
    }
    return 0;
}

void image_unmount(const char *path)
{
    const struct timespec pause = {.tv_nsec = UNMOUNT_POLL_MS * 1000000L};
    char image[PATH_MAX];

    if ((size_t)snprintf(image, sizeof(image), "%s.img", path) >= sizeof(image) ||
        access(image, F_OK) < 0) {
        return;
    }
    for (int i = 0; i < UNMOUNT_TRIES; i++) {
        if (umount2(path, UMOUNT_NOFOLLOW) == 0 || errno != EBUSY) {
            return;
        }
        (void)nanosleep(&pause, NULL);
    }
}
