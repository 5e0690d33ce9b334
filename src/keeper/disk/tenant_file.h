/* tenant_file.h - the only way in which root opens a name in a tree that a jail may have prepared.
 *
 * The root of a jail can put anything at any name of its own tree, even while that name is being
 * opened: a link to a path of the host, a FIFO that no one writes to, a sparse file of terabytes,
 * a file with a lease. So every open here stays beneath the directory where it begins, follows no
 * link, never waits, and succeeds only when the open file has the wanted kind and size. No other
 * file of the keeper opens such names (tools/check-root-files.py, docs/internals/keeper-files.md).
 *
 * Owns:    nothing; the caller owns descriptors.
 * Needs:   only the rights to open.
 * Blocks:  never on the jail; reads and writes of an open file may wait for the disk.
 * Threads: any. No memory is allocated: a jail's first process uses it before exec().
 */
#ifndef DISK_TENANT_FILE_H
#define DISK_TENANT_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "lib/base/compiler.h"
#include "lib/base/err.h"

struct tenant_want {
    int access;      /* O_RDONLY, O_WRONLY or O_RDWR, and O_APPEND; nothing else */
    off_t bytes_max; /* a longer file is refused */
    bool mounted;    /* it must be a mount of its own. Jails cannot mount, so such a file is the one
                        that the keeper put there, even if its name was moved */
};

/* Opens the root directory of a process with O_PATH. The caller must know that the pid still is the
 * process it means: it has not waited for it, or finds it in the jail's group afterwards. */
must_check int tenant_root_open(pid_t pid, struct err *err);

/* Opens a plain file; `path` is below dir_fd. -ENOTSUP when something else is there, or the file is
 * longer than wanted; -EAGAIN when a process of the jail has a lease on it. */
must_check int tenant_file_open(int dir_fd, const char *path, const struct tenant_want *want,
                                struct err *err);

/* Opens a directory with O_PATH. With same_mount, no part of the path may be a mount point. */
must_check int tenant_dir_open(int dir_fd, const char *path, bool same_mount, struct err *err);

/* Opens a directory to list it. -ENOTSUP when something else is there. */
must_check int tenant_dir_read(int dir_fd, const char *path, struct err *err);

/* Reads the file from its beginning, at most size - 1 bytes, and adds a NUL. Returns the number of
 * bytes. */
must_check ssize_t tenant_file_read(int fd, char *text, size_t size);

/* Makes a new plain file in place of whatever has that name in the directory; that must not be a
 * directory. `name` is one name, not a path. */
must_check int tenant_file_replace(int dir_fd, const char *name, const char *text, mode_t mode,
                                   struct err *err);

#endif
