#include "keeper/jail/userns.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/nsfs.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdalign.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "keeper/jail/caps.h"
#include "lib/base/fd.h"
#include "lib/base/pid_wait.h"
#include "wire/keeper.h"

enum { STACK_BYTES = 16 * 1024 };

uint32_t userns_base(uint32_t uid_slot)
{
    assert(uid_slot < KEEPER_UID_SLOTS);
    return (uint32_t)KEEPER_UID_FIRST + uid_slot * (uint32_t)KEEPER_UID_RANGE;
}

static int map_write(int proc_fd, const char *name, const char *map, struct err *err)
{
    scoped_fd fd = openat(proc_fd, name, O_WRONLY | O_CLOEXEC);

    if (fd < 0 || write(fd, map, strlen(map)) < 0) {
        return err_sys(err, "write %s of the new user namespace", name);
    }
    return 0;
}

int userns_map(pid_t pid, uint32_t base, struct err *err)
{
    char path[32];
    char map[48];

    (void)snprintf(path, sizeof(path), "/proc/%d", pid);
    scoped_fd proc = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (proc < 0) {
        return err_sys(err, "open %s", path);
    }

    (void)snprintf(map, sizeof(map), "0 %" PRIu32 " %d\n", base, KEEPER_UID_RANGE);
    int r = map_write(proc, "uid_map", map, err);
    if (r == 0) {
        r = map_write(proc, "gid_map", map, err);
    }
    if (r < 0) {
        return r;
    }
    int fd = openat(proc, "ns/user", O_RDONLY | O_CLOEXEC);
    return fd < 0 ? err_sys(err, "open the new user namespace") : fd;
}

/* Continuing with another uid would be worse than ending. */
static void owner_leave(void)
{
    struct err ignored;
    int r = caps_own_as(0, &ignored);

    assert(r == 0);
}

pid_t userns_clone(struct clone_args *args, uint32_t base, struct err *err)
{
    int r = caps_own_as(base, err);

    if (r < 0) {
        return r;
    }
    args->flags |= CLONE_NEWUSER;
    pid_t pid = (pid_t)syscall(SYS_clone3, args, sizeof(*args));
    if (pid == 0) {
        return 0;
    }
    r = pid < 0 ? err_sys(err, "start a process in new namespaces") : 0;
    owner_leave();
    return r < 0 ? r : pid;
}

int userns_owner(pid_t pid, uid_t *out, struct err *err)
{
    char path[32];

    (void)snprintf(path, sizeof(path), "/proc/%d/ns/user", pid);
    scoped_fd fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || ioctl(fd, NS_GET_OWNER_UID, out) < 0) {
        return err_sys(err, "find the owner of %s", path);
    }
    return 0;
}

static int wait_for_the_end(void *ctx)
{
    (void)ctx;
    (void)pause();
    return 0;
}

/* Uses a process that does nothing and shares this one's memory: a copy would take longer than all
 * the rest. */
int userns_make(uint32_t base, struct err *err)
{
    alignas(16) char stack[STACK_BYTES];
    int r = caps_own_as(base, err);

    if (r < 0) {
        return r;
    }
    pid_t pid =
        clone(wait_for_the_end, stack + sizeof(stack), CLONE_NEWUSER | CLONE_VM | SIGCHLD, NULL);
    r = pid < 0 ? err_sys(err, "make a user namespace") : 0;
    owner_leave();
    if (r < 0) {
        return r;
    }
    int fd = userns_map(pid, base, err);
    (void)kill(pid, SIGKILL);
    (void)pid_wait_success(pid);
    return fd;
}
