#include "serve/daemon/lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#include "lib/base/clock.h"
#include "lib/base/fd.h"
#include "serve/daemon/stop.h"

enum { POLL_MS = 10 };

/* Does not wait for the other end of a FIFO. */
static int lock_open(const char *path, int flags)
{
    struct stat st;
    scoped_fd fd = open(path, flags | O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0640);

    if (fd >= 0 && (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))) {
        errno = EINVAL;
        return -1;
    }
    return fd < 0 ? -1 : move_fd(&fd);
}

int lock_take(const char *path, int wait_ms, struct err *err)
{
    int64_t deadline_ms = clock_mono_ms() + wait_ms;
    struct timespec pause = {.tv_nsec = POLL_MS * 1000000L};

    scoped_fd fd = lock_open(path, O_CREAT);
    if (fd < 0) {
        return err_sys(err, "open the lock file %s", path);
    }
    while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        if (errno != EWOULDBLOCK && errno != EINTR) {
            return err_sys(err, "lock %s", path);
        }
        if (clock_mono_ms() >= deadline_ms) {
            return err_set(err, EBUSY, "another process holds %s", path);
        }
        if (stop_asked()) {
            return err_set(err, EINTR, "stopped while waiting for %s", path);
        }
        (void)nanosleep(&pause, NULL);
    }
    return move_fd(&fd);
}

bool lock_is_held(const char *path)
{
    scoped_fd fd = lock_open(path, 0);

    return fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK;
}
