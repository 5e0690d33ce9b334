/* watch_scan.c - directories opened, marked and looked through.
 *
 * A directory is marked through the descriptor it is read by, so a mark and what is found belong to
 * the same directory whatever is renamed meanwhile. Its path is the tree's, which may be behind: a
 * path that leads elsewhere is tried again when more events have been handled. A name found in a
 * directory is told only if the path still leads there after the name was read: the directory may
 * have been renamed before the file was made.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/vfs.h>

#include "inside/agent/atomic_file.h"
#include "inside/agent/filesystem_ops.h"
#include "inside/agent/watch_tree.h"
#include "lib/base/fd.h"
#include "lib/base/small_file.h"

/* Not in the kernel's header. */
#define CIFS_MAGIC 0xff534d42U
#define SMB2_MAGIC 0xfe534d42U
#define LUSTRE_MAGIC 0x0bd00bd0U
#define GPFS_MAGIC 0x47504653U

static const uint32_t mark_mask = IN_CREATE | IN_DELETE | IN_MODIFY | IN_ATTRIB | IN_MOVED_FROM |
                                  IN_MOVED_TO | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR |
                                  IN_EXCL_UNLINK;

uint64_t position_now(const struct watches *all)
{
    int queued = 0;

    (void)ioctl(all->fd, FIONREAD, &queued);
    return all->read_bytes + (uint64_t)queued;
}

/* ---- file systems ---- */

/* inotify sees only what this kernel does, not the other clients of a server. */
static bool is_network(uint32_t magic)
{
    static const uint32_t magics[] = {
        NFS_SUPER_MAGIC, CIFS_MAGIC,        SMB_SUPER_MAGIC, SMB2_MAGIC,   FUSE_SUPER_MAGIC,
        V9FS_MAGIC,      CEPH_SUPER_MAGIC,  AFS_SUPER_MAGIC, AFS_FS_MAGIC, CODA_SUPER_MAGIC,
        NCP_SUPER_MAGIC, OCFS2_SUPER_MAGIC, LUSTRE_MAGIC,    GPFS_MAGIC,
    };

    for (size_t i = 0; i < countof(magics); i++) {
        if (magic == magics[i]) {
            return true;
        }
    }
    return false;
}

/* Made up by the kernel as it is read: no event ever tells of it, and it has no end. */
static bool is_pseudo(uint32_t magic)
{
    return magic == PROC_SUPER_MAGIC || magic == SYSFS_MAGIC || magic == CGROUP_SUPER_MAGIC ||
           magic == CGROUP2_SUPER_MAGIC || magic == DEBUGFS_MAGIC || magic == TRACEFS_MAGIC;
}

/* Whether a recursive watch goes on into a mount below it. */
static bool mount_entered(const struct watch *watch, int fd)
{
    struct statfs fs;

    if (fstatfs(fd, &fs) < 0) {
        return false;
    }
    uint32_t magic = (uint32_t)fs.f_type;
    return !is_pseudo(magic) && (watch->plan.allow_network_mounts || !is_network(magic));
}

/* ---- marks ---- */

static void limit_read(const char *name, char *out, size_t size)
{
    char path[64];

    (void)snprintf(path, sizeof(path), "/proc/sys/fs/inotify/%s", name);
    (void)small_file_read(AT_FDCWD, path, out, size);
    out[strcspn(out, "\n")] = '\0';
}

/* Marks an open directory and gives its watch descriptor. */
static int directory_mark(const struct watches *all, int fd, struct err *err)
{
    char path[32];
    char limit[24];

    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    int wd = inotify_add_watch(all->fd, path, mark_mask);
    if (wd < 0 && errno == ENOSPC) {
        limit_read("max_user_watches", limit, sizeof(limit));
        return err_set(err, ENOSPC,
                       "the kernel has no room for another watched directory: "
                       "fs.inotify.max_user_watches is %s",
                       limit);
    }
    return wd < 0 ? err_sys(err, "inotify_add_watch") : wd;
}

static int instance_open(struct watches *all, struct err *err)
{
    char limit[24];

    if (all->fd >= 0) {
        return 0;
    }
    all->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (all->fd < 0 && errno == EMFILE) {
        limit_read("max_user_instances", limit, sizeof(limit));
        return err_set(err, EMFILE,
                       "the kernel has no inotify instance left: fs.inotify.max_user_instances "
                       "is %s",
                       limit);
    }
    return all->fd < 0 ? err_sys(err, "inotify_init1") : 0;
}

/* ---- directories ---- */

/* Not there, or not there any more: events tell the rest. */
static bool is_missing(int error)
{
    return error == ENOENT || error == ENOTDIR || error == ELOOP || error == ESTALE;
}

/* Directories that even root may not read are left out, as in a listing. */
static bool is_closed(int error)
{
    return error == EACCES || error == EPERM;
}

/* The directory of the node, if it is where the tree has it; else -ESTALE. */
static int node_open(const struct watch_node *node)
{
    char below[AGENT_PATH_BYTES];
    char path[AGENT_PATH_BYTES];
    struct stat st;
    int r = node_path(node, NULL, below);

    if (r == 0) {
        r = path_join(node->watch->real, below, path);
    }
    if (r < 0) {
        return r;
    }
    scoped_fd fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        return is_missing(errno) ? -ESTALE : -errno;
    }
    if (fstat(fd, &st) < 0 || st.st_dev != node->dev || st.st_ino != node->ino) {
        return -ESTALE;
    }
    return move_fd(&fd);
}

static bool is_in_place(const struct watch_node *node)
{
    scoped_fd fd = node_open(node);

    return fd >= 0;
}

/* A directory on which this watch has a node already: it was moved, or is mounted twice. */
static void known_put(struct watch_node *node, struct watch_node *parent, const char *name)
{
    bool here = node->parent == parent && strcmp(node->place ? node->place->name : "", name) == 0;

    if (!here && node->parent && (node->moving || !is_in_place(node)) &&
        node_put(node, parent, name) && node->scan == SCAN_NONE) {
        node_unsettle(node, SCAN_SUBDIRS);
    }
}

/* A directory that the watch has not known, at a place that is free. */
static void new_put(struct watch_node *node, struct watch_node *parent, const char *name,
                    enum watch_scan scan)
{
    struct watch *watch = parent->watch;

    node->seen_until = scan == SCAN_TELL ? UINT64_MAX : 0;
    if (!node_put(node, parent, name)) {
        abort(); /* a new node is above nothing */
    }
    node_unsettle(node, scan);
    if (watch->dirs_n > WATCH_DIRS_MAX) {
        watch_end(watch, RPC_RESOURCE_EXHAUSTED,
                  "there are more than %d directories below '%.160s'", WATCH_DIRS_MAX,
                  watch->plan.path);
    }
}

static bool is_named(int parent_fd, const char *name, const struct stat *dir)
{
    struct stat st;

    return fstatat(parent_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_dev == dir->st_dev &&
           st.st_ino == dir->st_ino;
}

/* Watches the open directory, which is `name` in the parent. It is new only if the name still leads
 * to it when it is marked: a move before the mark has no IN_MOVE_SELF, so one that left the tree
 * would never be forgotten. Otherwise events to come tell where it went. */
static void directory_enter(struct watch_node *parent, int parent_fd, const char *name, int fd,
                            enum watch_scan scan)
{
    struct watch *watch = parent->watch;
    uint64_t since = position_now(watch->all);
    struct stat st;
    struct err err;

    if (fstat(fd, &st) < 0 || (st.st_dev != parent->dev && !mount_entered(watch, fd))) {
        return;
    }
    int wd = directory_mark(watch->all, fd, &err);
    if (wd < 0) {
        watch_end(watch, wd == -ENOSPC ? RPC_RESOURCE_EXHAUSTED : RPC_INTERNAL, "%s", err.msg);
        return;
    }
    struct watch_mark *mark = mark_find(watch->all, wd);
    struct watch_node *node = mark ? mark_node(mark, watch) : NULL;
    if (node) {
        known_put(node, parent, name);
    } else if (!node_find(parent, name) && is_named(parent_fd, name, &st)) {
        node = node_new(watch, wd, &st);
        node->since = since;
        new_put(node, parent, name, scan);
    } else if (!mark) { /* events to come first move or remove what is there, then tell of it */
        (void)inotify_rm_watch(watch->all->fd, wd);
    }
}

static void directory_find(struct watch_node *parent, int parent_fd, const char *name,
                           enum watch_scan scan)
{
    scoped_fd fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd >= 0) {
        directory_enter(parent, parent_fd, name, fd, scan);
    } else if (!is_missing(errno) && !is_closed(errno)) {
        watch_end(parent->watch, RPC_INTERNAL, "error opening the directory '%.160s': %s", name,
                  strerror(errno));
    }
}

/* A node that is not where the tree has it waits for the events that tell where it went. None tell
 * of the watched directory's own parents: when it is not there any more, the watch is over. */
static void open_failed(struct watch_node *node, int r)
{
    struct watch *watch = node->watch;

    if (is_closed(-r)) {
        node->scan = SCAN_NONE;
        node->seen_until = 0;
    } else if (r != -ESTALE) {
        watch_end(watch, RPC_INTERNAL, "error opening a directory below '%.160s': %s",
                  watch->plan.path, strerror(-r));
    } else if (is_in_place(watch->root)) {
        node_unsettle(node, SCAN_SUBDIRS);
    } else {
        watch_gone(watch, FILESYSTEM__EVENT_TYPE__EVENT_TYPE_RENAME);
    }
}

void scan_arrival(struct watch_node *parent, const char *name)
{
    scoped_fd fd = node_open(parent);

    if (fd >= 0) {
        directory_find(parent, fd, name, SCAN_TELL);
    } else {
        open_failed(parent, fd);
    }
}

/* ---- scans ---- */

static void dir_closep(DIR **dir)
{
    if (*dir) {
        (void)closedir(*dir);
    }
}

static bool is_skipped(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || atomic_file_is_temporary(name);
}

static mode_t type_of(int dir_fd, const struct dirent *ent)
{
    struct stat st;

    if (ent->d_type != DT_UNKNOWN) {
        return (mode_t)DTTOIF(ent->d_type);
    }
    return fstatat(dir_fd, ent->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ? 0 : st.st_mode & S_IFMT;
}

/* Content that was there before the mark was written, as far as a reader is concerned. */
static void entry_tell(struct watch_node *node, int dir_fd, const char *name, mode_t type)
{
    const struct watch *watch = node->watch;
    struct stat st;

    seen_add(node, name);
    watch_tell(node, name, FILESYSTEM__EVENT_TYPE__EVENT_TYPE_CREATE);
    if (!watch->ended && S_ISREG(type) && fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
        st.st_size > 0) {
        watch_tell(node, name, FILESYSTEM__EVENT_TYPE__EVENT_TYPE_WRITE);
    }
}

/* An entry that was just read. False when its directory is not where the tree has it any more. */
static bool entry_found(struct watch_node *node, int dir_fd, const char *name, mode_t type)
{
    if (seen_has(node, name)) {
        return true;
    }
    scoped_fd fd = node_open(node);
    if (fd < 0) {
        open_failed(node, fd);
        return false;
    }
    entry_tell(node, dir_fd, name, type);
    return true;
}

/* Goes through the directory; stops where the watch ends, for the node is gone then. */
static void directory_scan(struct watch_node *node, DIR *dir)
{
    const struct watch *watch = node->watch;
    enum watch_scan scan = node->scan;
    enum watch_scan below = scan == SCAN_SILENT ? SCAN_SILENT : SCAN_TELL;
    struct dirent *ent;

    while (!watch->ended && (ent = readdir(dir))) {
        if (is_skipped(ent->d_name)) {
            continue;
        }
        mode_t type = type_of(dirfd(dir), ent);
        if (scan == SCAN_TELL && !entry_found(node, dirfd(dir), ent->d_name, type)) {
            return; /* the scan is still due, or nothing is */
        }
        if (!watch->ended && S_ISDIR(type)) {
            directory_find(node, dirfd(dir), ent->d_name, below);
        }
    }
    if (!watch->ended) {
        node->scan = SCAN_NONE;
        node->seen_until = node->seen_until ? position_now(watch->all) : 0;
    }
}

/* False when the node is gone. */
static bool node_scan(struct watch_node *node)
{
    const struct watch *watch = node->watch;
    int fd = node_open(node);

    if (fd < 0) {
        open_failed(node, fd);
        return !watch->ended;
    }
    scoped(dir_closep) DIR *dir = fdopendir(fd);
    if (!dir) {
        (void)close(fd);
        return true;
    }
    directory_scan(node, dir);
    return !watch->ended;
}

/* Whether the names it has told of need not be known any more. */
static bool window_closed(struct watch_node *node)
{
    if (node->scan != SCAN_NONE || node->seen_until > node->watch->all->read_bytes) {
        return false;
    }
    seen_clear(node);
    node->seen_until = 0;
    return true;
}

/* Scans add nodes to the list, which are scanned as well. Nodes that cannot be scanned yet wait for
 * the next events, so this ends. */
void scan_settle(struct watches *all)
{
    struct watch_node *node, *next;

    DL_FOREACH_SAFE2 (all->waiting, node, next, busy_next) {
        node_queue(node, &all->unsettled);
    }
    while ((node = all->unsettled)) {
        node_queue(node, NULL);
        if ((node->scan == SCAN_NONE || node_scan(node)) && !window_closed(node)) {
            node_queue(node, &all->waiting);
        }
    }
}

/* ---- the root ---- */

static enum rpc_code mount_check(const struct watch_plan *plan, int fd, struct err *err)
{
    struct statfs fs;

    if (fstatfs(fd, &fs) < 0) {
        (void)err_sys(err, "error checking mount status of %s", plan->path);
        return RPC_INTERNAL;
    }
    if (!plan->allow_network_mounts && is_network((uint32_t)fs.f_type)) {
        (void)err_set(err, EINVAL, "cannot watch path on network filesystem: %s", plan->path);
        return RPC_INVALID_ARGUMENT;
    }
    return RPC_OK;
}

static enum rpc_code root_mark(struct watch *watch, int fd, struct err *err)
{
    struct watches *all = watch->all;
    struct stat st;

    if (instance_open(all, err) < 0) {
        return err->code == EMFILE ? RPC_RESOURCE_EXHAUSTED : RPC_INTERNAL;
    }
    uint64_t since = position_now(all);
    int wd = directory_mark(all, fd, err);
    if (wd < 0) {
        return wd == -ENOSPC ? RPC_RESOURCE_EXHAUSTED : RPC_INTERNAL;
    }
    if (fstat(fd, &st) < 0) {
        abort(); /* of an open descriptor: a bug of ours */
    }
    watch->root = node_new(watch, wd, &st);
    watch->root->since = since;
    return RPC_OK;
}

enum rpc_code scan_root(struct watch *watch, struct err *err)
{
    scoped_fd fd = open(watch->real, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0) {
        int error = errno;
        (void)err_set(err, error, "path not found: %s: %s", watch->plan.path, strerror(error));
        return is_missing(error) ? RPC_NOT_FOUND : rpc_code_of(error);
    }
    enum rpc_code code = mount_check(&watch->plan, fd, err);
    if (code == RPC_OK) {
        code = root_mark(watch, fd, err);
    }
    if (code == RPC_OK && watch->plan.recursive) {
        node_unsettle(watch->root, SCAN_SILENT);
        scan_settle(watch->all);
    }
    if (code == RPC_OK &&
        watch->ended) { /* errors that end a running watch also prevent its start */
        *err = watch->err;
        code = watch->code;
    }
    return code;
}
