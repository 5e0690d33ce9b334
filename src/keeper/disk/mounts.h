/* mounts.h - the kernel's mount API by descriptor: nothing here resolves a path that a tenant
 * named.
 *
 * Owns:    nothing; every descriptor returned is the caller's and close-on-exec.
 * Needs:   CAP_SYS_ADMIN in the user namespace of the caller's mount namespace.
 * Blocks:  for the kernel's mount lock only.
 * Threads: no globals. Safe between clone3() and exec().
 */
#ifndef DISK_MOUNTS_H
#define DISK_MOUNTS_H

#include <stdint.h>
#include <sys/mount.h>

#include "lib/base/compiler.h"
#include "lib/base/err.h"

struct mount_option {
    const char *key;
    const char *value; /* NULL: a flag */
};

/* Makes a new filesystem instance as a detached mount; attr is of MOUNT_ATTR_*. `options` ends with
 * a NULL key. The caller's fsuid and user namespace own the instance. */
must_check int mounts_new(const char *type, const struct mount_option *options, unsigned attr,
                          struct err *err);

/* Makes a detached copy of the one mount on which dir_fd/path lies, rooted there, with attr_set
 * added. The last part of the path is not followed. */
must_check int mounts_clone(int dir_fd, const char *path, uint64_t attr_set, struct err *err);

/* The same with only attr_set and relatime, whatever attributes the source mount has. */
must_check int mounts_clone_bare(int dir_fd, const char *path, uint64_t attr_set, struct err *err);

/* The same as mounts_clone() with its owners shifted through the user namespace `userns_fd`. */
must_check int mounts_clone_idmapped(int dir_fd, const char *path, uint64_t attr_set, int userns_fd,
                                     struct err *err);

/* Attaches a detached mount. `name` is one entry of at_fd (or "" for at_fd itself), and is not
 * followed if it is a link. */
must_check int mounts_attach(int mount_fd, int at_fd, const char *name, struct err *err);

enum mounts_kind { MOUNTS_DIR, MOUNTS_FILE };

/* Opens root_fd/path as a place to mount on (O_PATH). Every part of the path must lie on the same
 * mount as root_fd and none may be a link: -ELOOP says so. A missing last part is made. */
must_check int mounts_target(int root_fd, const char *path, enum mounts_kind kind, struct err *err);

/* openat2() below root_fd without links or magic links, and with O_PATH only: the file is found,
 * not opened (tenant_file.h opens). Returns the descriptor or -errno. */
must_check int mounts_open_beneath(int root_fd, const char *path, uint64_t flags, uint64_t mode,
                                   uint64_t resolve);

#endif
