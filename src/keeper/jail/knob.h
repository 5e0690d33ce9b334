/* knob.h - settings below /proc. */
#ifndef JAIL_KNOB_H
#define JAIL_KNOB_H

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/compiler.h"
#include "lib/base/err.h"
#include "lib/base/fd.h"

/* `path` is below proc_fd. Fine when there is none: a kernel without that feature needs no setting
 * of it. */
must_check static inline int knob_set(int proc_fd, const char *path, const char *value,
                                      struct err *err)
{
    scoped_fd fd = openat(proc_fd, path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);

    if (fd < 0 && errno == ENOENT) {
        return 0;
    }
    if (fd < 0 || write(fd, value, strlen(value)) < 0) {
        return err_sys(err, "write /proc/%s", path);
    }
    return 0;
}

#endif
