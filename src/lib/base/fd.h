/* fd.h - owning file descriptors. */
#ifndef BASE_FD_H
#define BASE_FD_H

#include <errno.h>
#include <stddef.h>
#include <unistd.h>

#include "lib/base/compiler.h"

/* A scoped descriptor closes itself; -1 means none. Keeps errno, so it can sit in an error path. */
static inline void fd_closep(int *fd)
{
    if (*fd >= 0) {
        int saved = errno;
        (void)close(*fd);
        errno = saved;
        *fd = -1;
    }
}
#define scoped_fd scoped(fd_closep) int

/* Lets this process, and those it starts, have as many descriptors as the kernel allows when it may
 * raise its limit, and as its limit allows otherwise. Returns how many. */
size_t fd_allow_most(void);

#endif
