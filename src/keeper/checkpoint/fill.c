#include "keeper/checkpoint/fill.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "keeper/checkpoint/pager.h"
#include "keeper/checkpoint/task.h"
#include "lib/base/fd.h"
#include "lib/base/log.h"
#include "lib/base/pid_wait.h"
#include "lib/base/small_file.h"

#define DIRECTORY "filling"

enum {
    MB = 1024 * 1024,
    NICENESS = 5, /* behind commands, and not starved by them: somebody may wait for a page */
};

static int dir_open(const struct jail_shared *shared)
{
    (void)mkdirat(pool_fd(shared->pool), DIRECTORY, 0700);
    return openat(pool_fd(shared->pool), DIRECTORY, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static void dir_closep(DIR **dir)
{
    if (*dir) {
        (void)closedir(*dir);
    }
}

static uint64_t pages_bytes(int memory_fd)
{
    int fd = openat(memory_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    scoped(dir_closep) DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    uint64_t sum = 0;
    struct stat st;

    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        if (strncmp(entry->d_name, "pages-", 6) == 0 &&
            fstatat(memory_fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
            sum += (uint64_t)st.st_size;
        }
    }
    return sum;
}

bool fill_wanted(const struct jail_shared *shared, int memory_fd)
{
    return shared->criu_lazy && shared->lazy_mb && shared->userfault_fd >= 0 &&
           pages_bytes(memory_fd) >= (uint64_t)shared->lazy_mb * MB;
}

/* ---- the pager's two processes ---- */

struct pair {
    const char *id;
    int dir_fd;
    int socket;
    int group_fd;
    int kill_fd;
    int lock_fd;
};

/* Everything else that was inherited from the task closes: nobody must wait for this process by
 * one of its descriptors. */
static void descriptors_keep(struct pair *pair)
{
    int *const kept[] = {&pair->dir_fd, &pair->socket, &pair->group_fd, &pair->kill_fd,
                         &pair->lock_fd};
    const int base = STDERR_FILENO + 1, n = (int)countof(kept);

    for (int i = 0; i < n; i++) { /* first out of the way of each other */
        *kept[i] = fcntl(*kept[i], F_DUPFD_CLOEXEC, base + n);
    }
    for (int i = 0; i < n; i++) {
        *kept[i] = dup3(*kept[i], base + i, O_CLOEXEC);
    }
    (void)close_range((unsigned)(base + n), ~0U, 0);
}

static void jail_end(const struct pair *pair, const char *why)
{
    log_error("jail %s is ended, since memory of it is lost: %s", pair->id, why);
    (void)!write(pair->kill_fd, "1", 1);
    (void)unlinkat(pair->dir_fd, pair->id, 0);
}

static _Noreturn void worker_run(const struct pair *pair, pid_t guard)
{
    struct err err = {0};
    scoped_fd watch = (int)syscall(SYS_pidfd_open, guard, 0);
    const struct pager_use use = {pair->socket, watch, pair->group_fd};

    if (watch < 0 || getppid() != guard) {
        _exit(1);
    }
    if (pager_run(&use, &err) < 0) {
        jail_end(pair, err.msg);
        _exit(1);
    }
    (void)unlinkat(pair->dir_fd, pair->id, 0);
    _exit(0);
}

/* The table of descriptors is shared: when one of the two is killed, the other still has every
 * userfaultfd, and who waits for a page waits until the jail has ended. */
static _Noreturn void guard_run(struct pair *pair)
{
    const struct clone_args args = {.flags = CLONE_FILES, .exit_signal = SIGCHLD};
    const pid_t self = getpid();

    (void)signal(TASK_LEAVE_SIGNAL, SIG_IGN);
    (void)signal(SIGALRM, SIG_IGN);
    (void)setpriority(PRIO_PROCESS, 0, NICENESS);
    descriptors_keep(pair);
    pid_t worker = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
    if (worker == 0) {
        worker_run(pair, self);
    }
    if (worker < 0 || !pid_wait_success(worker)) {
        jail_end(pair, "its pager was killed");
        _exit(1);
    }
    _exit(0);
}

/* ---- starting ---- */

static int lock_make(int dir_fd, const char *id, const char *save, struct err *err)
{
    scoped_fd fd = openat(dir_fd, id, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0 || ftruncate(fd, 0) < 0 ||
        write(fd, save, strlen(save)) != (ssize_t)strlen(save)) {
        return err_sys(err, "note that jail %s is being filled", id);
    }
    return move_fd(&fd);
}

static int pair_start(struct pair *pair, int own_group, struct err *err)
{
    int socket = -1;
    scoped_fd pidfd = -1;
    pid_t pid = task_fork("a pager", own_group, &socket, &pidfd, err);

    if (pid == 0) {
        pair->socket = socket;
        guard_run(pair);
    }
    return pid < 0 ? pid : socket;
}

int fill_start(struct jail_shared *shared, const char *id, const char *save, int group_fd,
               struct fill *out, struct err *err)
{
    scoped_fd dir = dir_open(shared);
    scoped_fd jail_kill = openat(group_fd, "cgroup.kill", O_WRONLY | O_CLOEXEC);
    scoped_fd group = cgroups_fill_make(shared->groups, id, err);
    scoped_fd own_kill = group < 0 ? -1 : openat(group, "cgroup.kill", O_WRONLY | O_CLOEXEC);

    if (dir < 0 || jail_kill < 0 || own_kill < 0) {
        return err_sys(err, "start a pager");
    }
    scoped_fd lock = lock_make(dir, id, save, err);
    if (lock < 0) {
        return lock;
    }
    struct pair pair = {id, dir, -1, group_fd, jail_kill, lock};
    int socket = pair_start(&pair, group, err);
    if (socket < 0) {
        (void)unlinkat(dir, id, 0);
        return socket;
    }
    *out = (struct fill){socket, move_fd(&jail_kill), move_fd(&own_kill)};
    return 0;
}

void fill_leave(struct fill *fill)
{
    fd_closep(&fill->socket);
    fd_closep(&fill->jail_fd);
    fd_closep(&fill->own_fd);
}

void fill_stop(struct fill *fill)
{
    if (fill->jail_fd >= 0) {
        (void)!write(fill->jail_fd, "1", 1);
        (void)!write(fill->own_fd, "1", 1);
    }
    fill_leave(fill);
}

/* ---- waiting ---- */

/* False when the file is gone: then nothing is missing. */
static bool lock_wait(int fd)
{
    struct stat st;

    while (flock(fd, LOCK_SH) < 0 && errno == EINTR) {
    }
    return fstat(fd, &st) == 0 && st.st_nlink > 0;
}

int fill_wait(struct jail_shared *shared, const char *id, struct err *err)
{
    scoped_fd dir = dir_open(shared);
    scoped_fd fd = dir < 0 ? -1 : openat(dir, id, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

    if (fd < 0 || !lock_wait(fd)) {
        return 0;
    }
    struct err ignored;
    if (jail_kill(shared, id, &ignored) == 0) {
        (void)unlinkat(dir, id, 0);
    }
    return err_set(err, EIO, "memory of jail %s is lost, since its pager was killed", id);
}

/* Calls each with a descriptor for every jail that is being filled from that save. */
static bool each_of(struct jail_shared *shared, const char *save, bool (*each)(int fd))
{
    int fd = dir_open(shared);
    scoped(dir_closep) DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    char name[KEEPER_SAVED_BYTES + 1];
    bool any = false;

    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        scoped_fd file = entry->d_name[0] == '.'
                             ? -1
                             : openat(dirfd(dir), entry->d_name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        if (file >= 0 && small_file_read_fd(file, name, sizeof(name)) >= 0 &&
            strcmp(name, save) == 0) {
            any |= each(file);
        }
    }
    return any;
}

static bool lock_is_held(int fd)
{
    return flock(fd, LOCK_SH | LOCK_NB) < 0;
}

bool fill_uses(struct jail_shared *shared, const char *save)
{
    return each_of(shared, save, lock_is_held);
}

void fill_wait_save(struct jail_shared *shared, const char *save)
{
    (void)each_of(shared, save, lock_wait);
}

static void sweep_one(void *ctx, const char *id)
{
    struct jail_shared *shared = ctx;
    scoped_fd dir = dir_open(shared);
    scoped_fd fd = dir < 0 ? -1 : openat(dir, id, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    struct err err;

    if (fd < 0 || lock_is_held(fd) || strlen(id) >= KEEPER_ID_BYTES) {
        return;
    }
    if (jail_kill(shared, id, &err) == 0) {
        log_info("jail %s was being filled when its pager ended: ended", id);
        (void)unlinkat(dir, id, 0);
    }
}

void fill_sweep(struct jail_shared *shared)
{
    scoped_fd dir = dir_open(shared);
    struct err err;

    if (dir >= 0 && pool_names_each(dir, POOL_SHOWN, sweep_one, shared, &err) < 0) {
        log_warn("%s", err.msg);
    }
}
