#include "keeper/checkpoint/alone.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/pidfd.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "inside/stow/stow.h"
#include "keeper/checkpoint/task.h"
#include "keeper/disk/saved.h"
#include "keeper/disk/tenant_file.h"
#include "keeper/jail/jail_mounts.h"
#include "lib/base/clock.h"
#include "lib/base/fd.h"
#include "lib/base/log.h"
#include "lib/base/pid_wait.h"
#include "lib/base/small_file.h"

enum {
    PROCS_BYTES = 64, /* room for more than one pid */
    MQUEUE_TYPE = 0x19800202,
    TMPFS_TYPE = 0x01021994,
    STAT_BLOCK_BYTES = 512, /* the unit of st_blocks */
};

/* ---- processes ---- */

/* The group is frozen: it gets no further process. */
static int process_check(struct cgroups *groups, const char *id, pid_t *first, struct err *err)
{
    char text[PROCS_BYTES], expected[PROCS_BYTES];
    scoped_fd group = cgroups_leaf(groups, id);

    *first = group < 0 ? 0 : cgroups_first(groups, id);
    if (*first <= 0) {
        return err_set(err, ESRCH, "it does not run");
    }
    (void)snprintf(expected, sizeof(expected), "%d\n", *first);
    (void)small_file_read(group, "cgroup.procs", text, sizeof(text));
    return strcmp(text, expected) == 0 ? 0 : err_set(err, EBUSY, "it has more than one process");
}

/* ---- objects of the IPC namespace ---- */

static int objects_check(struct err *err)
{
    struct shm_info shm = {0};
    struct seminfo sem = {0};
    struct msginfo msg = {0};
    struct shmid_ds *shm_out = (struct shmid_ds *)(void *)&shm; /* as the kernel wants it */
    struct msqid_ds *msg_out = (struct msqid_ds *)(void *)&msg;

    if (shmctl(0, SHM_INFO, shm_out) < 0 || semctl(0, 0, SEM_INFO, &sem) < 0 ||
        msgctl(0, MSG_INFO, msg_out) < 0) {
        return err_sys(err, "count the System V objects");
    }
    return shm.used_ids == 0 && sem.semusz == 0 && msg.msgpool == 0
               ? 0
               : err_set(err, EBUSY, "it has System V objects");
}

static bool is_of(int fd, long type)
{
    struct statfs fs;

    return fstatfs(fd, &fs) == 0 && (long)fs.f_type == type;
}

static int queues_check(int root, struct err *err)
{
    int fd = tenant_dir_read(root, "dev/mqueue", err);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    size_t n = 0;

    if (!dir) {
        fd_closep(&fd);
        return err_set(err, EBUSY, "its message queues cannot be listed");
    }
    bool known = is_of(fd, MQUEUE_TYPE);
    while (known && readdir(dir)) {
        n++;
    }
    (void)closedir(dir);
    return known && n == 2 ? 0 /* "." and ".." */ : err_set(err, EBUSY, "it has message queues");
}

/* ---- files in memory ---- */

struct choice {
    size_t made;  /* files that each jail has */
    size_t other; /* files of the jail's own */
};

/* Modes of the directories that each jail has (jail_mounts.c). */
static bool is_usual(const char *path, const struct stat *st)
{
    const mode_t mode = strcmp(path, "atoll") == 0 ? 0700 : 01777;

    return S_ISDIR(st->st_mode) && (st->st_mode & 07777) == mode && st->st_uid == 0 &&
           st->st_gid == 0;
}

/* The parents of other files are written even if they are usual. */
static int choose(void *ctx, const char *path, const struct stat *st, struct err *err)
{
    struct choice *choice = ctx;
    const bool parent =
        strcmp(path, "lock") == 0 || strcmp(path, "atoll") == 0 || strcmp(path, "atoll/shm") == 0;

    if (parent) {
        choice->other += !is_usual(path, st);
        return 1;
    }
    if (strncmp(path, "atoll/", strlen("atoll/")) != 0 ||
        strncmp(path, "atoll/shm/", strlen("atoll/shm/")) == 0) {
        choice->other++;
        return 1;
    }
    if (!jail_mounts_has(path + strlen("atoll/"), st->st_mode)) {
        return err_set(err, EBUSY, "it has %.100s", path);
    }
    choice->made++;
    return S_ISDIR(st->st_mode); /* what is below /dev is looked at, too */
}

/* Runs in the jail's user namespace: owners are written as they are inside. */
static int run_write(int run, int out, struct err *err)
{
    struct choice choice = {0};
    const struct stow_filter filter = {.file = choose, .ctx = &choice};
    struct stat st;
    int r = stow_write_chosen(run, out, &filter, err);

    if (r == -EPERM) { /* of the sealed file */
        return err_set(err, EBUSY, "its files in memory have more than %d bytes",
                       ALONE_FILES_BYTES_MAX);
    }
    if (r < 0) {
        return err_wrap(err, "copy its files in memory");
    }
    if (choice.made != jail_mounts_has_n() || fstat(run, &st) < 0) {
        return err_set(err, EBUSY, "it lacks files of its /dev");
    }
    choice.other += (st.st_mode & 07777) != 0755 || st.st_uid != 0 || st.st_gid != 0;
    return choice.other > 0;
}

struct written {
    int status; /* 1: there is something to copy */
    struct err err;
};

static _Noreturn void writer_run(pid_t task, int pidfd, int run, int out, int socket)
{
    struct written written = {0};

    if (setns(pidfd, CLONE_NEWUSER) < 0) {
        written.status = err_sys(&written.err, "enter its user namespace");
    } else {
        task_child_die_with_parent(task);
        written.status = run_write(run, out, &written.err);
    }
    (void)send(socket, &written, sizeof(written), MSG_NOSIGNAL);
    _exit(0);
}

/* A file of the largest size to begin with: a seal keeps it from growing. */
static int image_new(off_t bytes_max, struct err *err)
{
    scoped_fd fd = memfd_create("files", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd < 0 || ftruncate(fd, bytes_max) < 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_GROW) < 0) {
        return err_sys(err, "make a file for copies of its files");
    }
    return move_fd(&fd);
}

/* Nobody can change it any more: several jails read it. */
static int image_seal(int fd, struct err *err)
{
    off_t size = lseek(fd, 0, SEEK_CUR);

    if (size < 0 || ftruncate(fd, size) < 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_SEAL) < 0) {
        return err_sys(err, "seal the copies of its files");
    }
    return 0;
}

static int writer_wait(pid_t pid, int socket, struct err *err)
{
    struct written written;
    ssize_t n = recv(socket, &written, sizeof(written), 0);

    (void)pid_wait_success(pid);
    if (n != (ssize_t)sizeof(written)) {
        return err_set(err, EIO, "the process that copies its files in memory ended early");
    }
    *err = written.err;
    return written.status;
}

/* 1: the jail has files of its own in memory; 0: it has those of any jail. */
static int files_write(int pidfd, int root, int *files_fd, struct err *err)
{
    scoped_fd run = tenant_dir_open(root, "run", false, err);
    scoped_fd image = run < 0 ? run : image_new(ALONE_FILES_BYTES_MAX, err);
    scoped_fd socket = -1, child = -1;
    const pid_t task = getpid();

    if (image < 0) {
        return image;
    }
    if (!is_of(run, TMPFS_TYPE)) {
        return err_set(err, EBUSY, "its /run is not in memory");
    }
    pid_t pid = task_fork("a process", -1, &socket, &child, err);
    if (pid == 0) {
        writer_run(task, pidfd, run, image, socket);
    }
    int own = pid < 0 ? pid : writer_wait(pid, socket, err);
    int r = own < 0 ? own : image_seal(image, err);
    if (r < 0) {
        return r;
    }
    *files_fd = move_fd(&image);
    return own;
}

/* ---- files on the disk ---- */

struct disk_choice {
    size_t files_n;
    uint64_t
        bytes; /* with blocks that are reserved and not written, which an image does not have */
    nlink_t names_n; /* of the file that was chosen last */
};

/* The directories that are covered by mounts are left out. A whiteout is a device, and needs the
 * snapshot. */
static int disk_choose(void *ctx, const char *path, const struct stat *st, struct err *err)
{
    static const char *const covered[] = {"dev", "proc", "run", "sys"};
    const mode_t type = st->st_mode & S_IFMT;
    struct disk_choice *choice = ctx;

    for (size_t i = 0; i < countof(covered); i++) {
        if (strcmp(path, covered[i]) == 0) {
            return 0;
        }
    }
    if (type != S_IFDIR && type != S_IFREG && type != S_IFLNK) {
        return err_set(err, ENOTSUP, "/%.100s is neither a file nor a link", path);
    }
    choice->names_n = st->st_nlink;
    choice->bytes += (uint64_t)st->st_blocks * STAT_BLOCK_BYTES;
    if (choice->bytes > ALONE_DISK_BYTES_MAX) {
        return err_set(err, ENOTSUP, "its files take more than %d bytes", ALONE_DISK_BYTES_MAX);
    }
    return ++choice->files_n <= ALONE_DISK_FILES_MAX
               ? 1
               : err_set(err, ENOTSUP, "it has more than %d files", ALONE_DISK_FILES_MAX);
}

/* The first of the overlay's own marks say nothing about what a directory shows. A file of the
 * template that was changed has a second name in the overlay's index; if it had others in the
 * template, these show the changed file as well, and only the index knows. All other marks need the
 * snapshot, and so do access lists and capabilities, which name ids. */
static int disk_attribute(void *ctx, const char *path, const char *name, struct str value,
                          struct err *err)
{
    static const char *const ignored[] = {"trusted.overlay.impure", "trusted.overlay.origin",
                                          "trusted.overlay.uuid", "btrfs.compression"};
    const struct disk_choice *choice = ctx;

    for (size_t i = 0; i < countof(ignored); i++) {
        if (strcmp(name, ignored[i]) == 0) {
            return 0;
        }
    }
    if (strcmp(name, STOW_OPAQUE) == 0 && str_eq(value, STR("y"))) {
        return 1;
    }
    if (strcmp(name, "trusted.overlay.nlink") == 0 && str_eq(value, STR("U-1")) &&
        choice->names_n == 2) {
        return 0;
    }
    return strncmp(name, "user.", strlen("user.")) == 0
               ? 1
               : err_set(err, ENOTSUP, "/%.100s has the attribute %s=%.*s", path, name,
                         value.len < 32 ? (int)value.len : 32, value.at);
}

/* Owners on the disk are those inside the jail: it is mounted through an id map. */
static int disk_write(struct jail_shared *shared, const char *id, int *disk_fd, struct err *err)
{
    struct disk_choice choice = {0};
    const struct stow_filter filter = {
        .file = disk_choose, .attribute = disk_attribute, .ctx = &choice};
    scoped_fd disk = pool_disk_open(shared->pool, id);
    scoped_fd upper = disk < 0 ? disk : tenant_dir_open(disk, POOL_UPPER, true, err);
    scoped_fd image = upper < 0 ? upper : image_new(ALONE_DISK_BYTES_MAX, err);

    if (image < 0) {
        return image;
    }
    int r = stow_write_chosen(upper, image, &filter, err);
    if (r == 0) {
        r = image_seal(image, err);
    }
    *disk_fd = r < 0 ? -1 : move_fd(&image);
    return r;
}

/* ---- the order ---- */

static int state_take(struct jail_shared *shared, const char *id, int *files_fd, struct err *err)
{
    pid_t first = 0;
    int r = process_check(shared->groups, id, &first, err);

    if (r < 0) {
        return r;
    }
    /* Frozen, it can only be killed: the process with that pid is still the jail's after this. */
    scoped_fd pidfd = pidfd_open(first, 0);
    scoped_fd root = tenant_root_open(first, err);
    if (pidfd < 0 || root < 0 || !cgroups_holds(shared->groups, id, first)) {
        return err_set(err, ESRCH, "it has ended meanwhile");
    }
    if (setns(pidfd, CLONE_NEWIPC) < 0) {
        return err_sys(err, "enter its IPC namespace");
    }
    r = objects_check(err);
    if (r == 0) {
        r = queues_check(root, err);
    }
    return r < 0 ? r : files_write(pidfd, root, files_fd, err);
}

/* A few files are copied; of all other disks a snapshot is taken. */
static int disk_take(struct jail_shared *shared, const char *id, int begun_fd, bool own_files,
                     int fds[KEEPER_FDS_MAX], struct err *err)
{
    struct err why;

    if (disk_write(shared, id, &fds[KEEPER_FD_DISK], &why) == 0) {
        return 0;
    }
    log_debug("jail %s: a snapshot is taken of its disk: %s", id, why.msg);
    if (!own_files) {
        fd_closep(&fds[KEEPER_FD_FILES]);
    }
    return saved_disk_take(shared->pool, begun_fd, id, false, err);
}

int alone_save(struct jail_shared *shared, const char *id, int begun_fd, int fds[KEEPER_FDS_MAX],
               struct keeper_saved *out, struct err *err)
{
    const int64_t from_us = clock_mono_us();
    int r = cgroups_freeze(shared->groups, id, err);

    if (r < 0) {
        return r;
    }
    r = state_take(shared, id, &fds[KEEPER_FD_FILES], err);
    if (r >= 0) {
        r = disk_take(shared, id, begun_fd, r > 0, fds, err);
    }
    cgroups_thaw(shared->groups, id);
    out->frozen_usec = (uint64_t)(clock_mono_us() - from_us);
    return r;
}
