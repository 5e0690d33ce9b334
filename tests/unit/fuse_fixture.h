/* fuse_fixture.h - an empty directory on a FUSE file system, served by a thread of the test: a
 * mount that is a network's as far as anybody can tell. Best in a mount namespace of the test's
 * own. */
#ifndef TESTS_FUSE_FIXTURE_H
#define TESTS_FUSE_FIXTURE_H

#include <errno.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include "lib/base/fd.h"

struct fuse_dir {
    int fd;
    pthread_t thread;
    const char *path;
};

static inline void fuse_answer(int fd, uint64_t unique, int error, const void *data, size_t len)
{
    struct fuse_out_header head = {
        .len = (uint32_t)(sizeof(head) + len), .error = error, .unique = unique};
    struct iovec parts[2] = {{&head, sizeof(head)}, {(void *)(uintptr_t)data, len}};

    (void)!writev(fd, parts, len ? 2 : 1); /* a request may be gone by now */
}

static inline void fuse_request(int fd, const struct fuse_in_header *in)
{
    struct fuse_init_out init = {
        .major = FUSE_KERNEL_VERSION, .minor = FUSE_KERNEL_MINOR_VERSION, .max_write = 4096};
    struct fuse_attr_out attr = {.attr = {.ino = FUSE_ROOT_ID, .mode = S_IFDIR | 0755, .nlink = 2}};
    struct fuse_statfs_out statfs = {.st = {.bsize = 4096, .namelen = 255}};
    struct fuse_open_out open = {0};

    switch (in->opcode) {
    case FUSE_INIT:
        fuse_answer(fd, in->unique, 0, &init, sizeof(init));
        break;
    case FUSE_GETATTR:
        fuse_answer(fd, in->unique, 0, &attr, sizeof(attr));
        break;
    case FUSE_STATFS:
        fuse_answer(fd, in->unique, 0, &statfs, sizeof(statfs));
        break;
    case FUSE_OPENDIR:
        fuse_answer(fd, in->unique, 0, &open, sizeof(open));
        break;
    case FUSE_READDIR:
    case FUSE_RELEASEDIR:
        fuse_answer(fd, in->unique, 0, NULL, 0);
        break;
    case FUSE_FORGET:
    case FUSE_BATCH_FORGET:
        break;
    default:
        fuse_answer(fd, in->unique, -ENOSYS, NULL, 0);
    }
}

static inline void *fuse_serve(void *ctx)
{
    const struct fuse_dir *dir = ctx;
    _Alignas(struct fuse_in_header) char request[64 * 1024];

    for (;;) { /* until it is unmounted */
        ssize_t n = read(dir->fd, request, sizeof(request));
        if (n < 0 && errno != EINTR && errno != EAGAIN) {
            return NULL;
        }
        if (n >= (ssize_t)sizeof(struct fuse_in_header)) {
            fuse_request(dir->fd, (const struct fuse_in_header *)request);
        }
    }
}

static inline bool fuse_mount(struct fuse_dir *dir, const char *path)
{
    char options[128];

    *dir = (struct fuse_dir){.fd = open("/dev/fuse", O_RDWR | O_CLOEXEC), .path = path};
    (void)snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0", dir->fd);
    if (dir->fd < 0 || mount("test", path, "fuse", MS_NODEV | MS_NOSUID, options) < 0) {
        fd_closep(&dir->fd);
        return false;
    }
    return pthread_create(&dir->thread, NULL, fuse_serve, dir) == 0;
}

static inline void fuse_unmount(struct fuse_dir *dir)
{
    (void)umount2(dir->path, MNT_FORCE | MNT_DETACH);
    (void)pthread_join(dir->thread, NULL);
    fd_closep(&dir->fd);
}

#endif
