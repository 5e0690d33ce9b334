#include "keeper/jail/kernel_setting.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/fd.h"

enum { NUMBER_BYTES = 24 };

int kernel_setting_write(int dir_fd, const char *name, const char *value, struct err *err)
{
    /* No O_CREAT: a missing file means a missing controller, which must not pass silently. */
    scoped_fd fd = openat(dir_fd, name, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) {
        return err_sys(err, "open %s", name);
    }
    /* The kernel parses each write() as one command, so a short write is a failure, not a retry. */
    size_t len = strlen(value);
    ssize_t n = write(fd, value, len);
    if (n < 0) {
        return err_sys(err, "write '%s' to %s", value, name);
    }
    if ((size_t)n != len) {
        return err_set(err, EIO, "write '%s' to %s: %zd of %zu bytes", value, name, n, len);
    }
    return 0;
}

int kernel_setting_write_number(int dir_fd, const char *name, uint64_t value, struct err *err)
{
    char text[NUMBER_BYTES];

    (void)snprintf(text, sizeof(text), "%" PRIu64, value);
    return kernel_setting_write(dir_fd, name, text, err);
}

int kernel_setting_write_if(int dir_fd, const char *name, const char *value, struct err *err)
{
    int r = kernel_setting_write(dir_fd, name, value, err);

    return r == -ENOENT ? 0 : r;
}

int kernel_setting_write_number_if(int dir_fd, const char *name, uint64_t value, struct err *err)
{
    int r = kernel_setting_write_number(dir_fd, name, value, err);

    return r == -ENOENT ? 0 : r;
}
