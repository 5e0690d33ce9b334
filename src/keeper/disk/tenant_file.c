#include "keeper/disk/tenant_file.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/base/fd.h"

enum { ACCESS_ALLOWED = O_ACCMODE | O_APPEND };

static int beneath(int dir_fd, const char *path, int flags, unsigned long more)
{
    struct open_how how = {
        .flags = (unsigned)(flags | O_CLOEXEC | O_NOFOLLOW),
        .resolve = more | RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
    };
    long fd = syscall(SYS_openat2, dir_fd, path, &how, sizeof(how));

    return fd < 0 ? -errno : (int)fd;
}

int tenant_root_open(pid_t pid, struct err *err)
{
    char path[32];

    (void)snprintf(path, sizeof(path), "/proc/%d/root", pid);
    int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? err_sys(err, "open the root of process %d", pid) : fd;
}

static bool is_mount(int fd)
{
    struct statx stx;

    return statx(fd, "", AT_EMPTY_PATH, STATX_TYPE, &stx) == 0 &&
           stx.stx_attributes & STATX_ATTR_MOUNT_ROOT;
}

static int kind_check(int fd, const char *path, const struct tenant_want *want, struct err *err)
{
    struct stat st;

    if (fstat(fd, &st) < 0) {
        return err_sys(err, "look at /%s of the jail", path);
    }
    if (!S_ISREG(st.st_mode)) {
        return err_set(err, ENOTSUP, "/%s of the jail is not a plain file", path);
    }
    if (st.st_size > want->bytes_max) {
        return err_set(err, ENOTSUP, "/%s of the jail is longer than %jd bytes", path,
                       (intmax_t)want->bytes_max);
    }
    if (want->mounted && !is_mount(fd)) {
        return err_set(err, ENOTSUP, "/%s of the jail was replaced by another file", path);
    }
    return 0;
}

/* Several errnos mean "something else is there": they become one. ENXIO comes from a FIFO or a
 * socket. */
static int open_refused(int r, const char *path, struct err *err)
{
    if (r == -ELOOP || r == -ENXIO || r == -EISDIR || r == -ENOTDIR || r == -EXDEV) {
        return err_set(err, ENOTSUP, "/%s of the jail is, or lies behind, something else: %s", path,
                       strerrordesc_np(-r));
    }
    return err_code(err, -r, "open /%s of the jail", path);
}

int tenant_file_open(int dir_fd, const char *path, const struct tenant_want *want, struct err *err)
{
    assert((want->access & ~ACCESS_ALLOWED) == 0);

    /* Find it with O_PATH first, then open it: an overlay copies a file of the template up,
     * whatever its size, when it is opened for writing; and opening a device may have effects. */
    scoped_fd found = beneath(dir_fd, path, O_PATH, 0);
    int r = found < 0 ? open_refused(found, path, err) : kind_check(found, path, want, err);
    if (r < 0) {
        return r;
    }
    scoped_fd fd = beneath(dir_fd, path, want->access | O_NONBLOCK | O_NOCTTY, 0);
    if (fd < 0) {
        return open_refused(fd, path, err);
    }
    r = kind_check(fd, path, want, err);
    return r < 0 ? r : move_fd(&fd);
}

int tenant_dir_open(int dir_fd, const char *path, bool same_mount, struct err *err)
{
    int fd = beneath(dir_fd, path, O_PATH | O_DIRECTORY, same_mount ? RESOLVE_NO_XDEV : 0);

    return fd < 0 ? open_refused(fd, path, err) : fd;
}

int tenant_dir_read(int dir_fd, const char *path, struct err *err)
{
    int fd = beneath(dir_fd, path, O_RDONLY | O_DIRECTORY | O_NONBLOCK, 0);

    return fd < 0 ? open_refused(fd, path, err) : fd;
}

ssize_t tenant_file_read(int fd, char *text, size_t size)
{
    size_t len = 0;

    while (len < size - 1) {
        ssize_t n = pread(fd, text + len, size - 1 - len, (off_t)len);
        if (n < 0) {
            return -errno;
        }
        if (n == 0) {
            break;
        }
        len += (size_t)n;
    }
    text[len] = '\0';
    return (ssize_t)len;
}

int tenant_file_replace(int dir_fd, const char *name, const char *text, mode_t mode,
                        struct err *err)
{
    assert(!strchr(name, '/'));

    if (unlinkat(dir_fd, name, 0) < 0 && errno != ENOENT) {
        return err_sys(err, "remove %s of the jail", name);
    }
    scoped_fd fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
    size_t len = strlen(text);
    if (fd < 0 || write(fd, text, len) != (ssize_t)len) {
        return err_sys(err, "write %s of the jail", name);
    }
    return 0;
}
