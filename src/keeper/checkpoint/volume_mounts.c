#include "keeper/checkpoint/volume_mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "keeper/checkpoint/criu_mounts.h"
#include "keeper/disk/mounts.h"
#include "keeper/disk/tenant_file.h"
#include "keeper/disk/volume.h"
#include "keeper/jail/jail_mounts.h"
#include "lib/base/alloc.h"
#include "lib/base/fd.h"
#include "lib/base/pid_wait.h"
#include "lib/base/small_file.h"
#include "lib/base/str.h"

#define FILE_NAME "volumes" /* each path ends with a NUL */

enum { MOUNTINFO_BYTES = 256 * 1024 };

/* ---- found ---- */

/* mountinfo writes a blank as "\040". */
static void unescape(struct str text, char *out, size_t size)
{
    size_t n = 0;

    for (size_t i = 0; i < text.len && n + 1 < size; i++) {
        if (text.at[i] == '\\' && i + 3 < text.len) {
            char octal[4] = {text.at[i + 1], text.at[i + 2], text.at[i + 3]};
            out[n++] = (char)strtol(octal, NULL, 8);
            i += 3;
        } else {
            out[n++] = text.at[i];
        }
    }
    out[n] = '\0';
}

/* Reads one line of mountinfo: the fourth and fifth field, and the type after " - ". */
struct mount {
    struct str root, place, type;
};

static bool line_read(struct str line, struct mount *out)
{
    struct str field;

    *out = (struct mount){0};
    for (int at = 1; str_split(&line, ' ', &field) && !str_eq(field, STR("-")); at++) {
        out->root = at == 4 ? field : out->root;
        out->place = at == 5 ? field : out->place;
    }
    return str_split(&line, ' ', &out->type);
}

/* The kernel adds this to the path of a removed file; no name holds a slash. */
static bool is_gone(struct str root)
{
    static const char mark[] = "//deleted";
    const size_t n = sizeof(mark) - 1;

    return root.len >= n && memcmp(root.at + root.len - n, mark, n) == 0;
}

/* Among the mounts of a jail only volumes, and the agent of an earlier keeper, are on the pool's
 * file system. */
void volume_mounts_read(const char *mountinfo, struct volume_mounts *out)
{
    char place[KEEPER_VOLUME_PATH_BYTES];
    struct str rest = str_of(mountinfo);
    struct str line;
    struct mount mount;

    *out = (struct volume_mounts){0};
    while (str_split(&rest, '\n', &line)) {
        if (!line_read(line, &mount)) {
            continue;
        }
        unescape(mount.place, place, sizeof(place));
        if (is_gone(mount.root) && !out->gone[0]) {
            memcpy(out->gone, place, sizeof(place));
        }
        if (out->n < KEEPER_VOLUMES_MAX && str_eq(mount.type, STR("btrfs")) &&
            strcmp(place, JAIL_MOUNTS_AGENT) != 0) {
            memcpy(out->path[out->n++], place, sizeof(place));
        }
    }
}

int volume_mounts_find(pid_t first, struct volume_mounts *out, struct err *err)
{
    char path[40];
    scoped_text text = xcalloc(1, MOUNTINFO_BYTES);

    (void)snprintf(path, sizeof(path), "/proc/%d/mountinfo", first);
    ssize_t n = small_file_read(AT_FDCWD, path, text, MOUNTINFO_BYTES);
    if (n < 0 || n == MOUNTINFO_BYTES - 1) {
        return err_set(err, n < 0 ? ESRCH : E2BIG, "the jail's mounts cannot be read");
    }
    volume_mounts_read(text, out);
    if (out->gone[0]) {
        return err_set(err, ENOTSUP, "what is mounted at %.100s was removed: it cannot be saved",
                       out->gone);
    }
    return 0;
}

/* ---- kept ---- */

int volume_mounts_keep(const struct volume_mounts *at, int memory_fd, struct err *err)
{
    scoped_fd fd =
        openat(memory_fd, FILE_NAME, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);

    for (size_t i = 0; fd >= 0 && i < at->n; i++) {
        size_t n = strlen(at->path[i]) + 1;
        if (write(fd, at->path[i], n) != (ssize_t)n) {
            return err_sys(err, "write where the volumes were");
        }
    }
    return fd < 0 ? err_sys(err, "note where the volumes were") : 0;
}

int volume_mounts_load(int memory_fd, struct volume_mounts *out, struct err *err)
{
    char text[sizeof(out->path) + 1];
    ssize_t n = small_file_read(memory_fd, FILE_NAME, text, sizeof(text));

    out->n = 0;
    if (n < 0) {
        return err_sys(err, "read where the volumes were");
    }
    struct str rest = {text, (size_t)n}, path;
    while (out->n < KEEPER_VOLUMES_MAX && str_split(&rest, '\0', &path) && path.len) {
        if (!str_copy(out->path[out->n++], KEEPER_VOLUME_PATH_BYTES, path)) {
            return err_set(err, EINVAL, "the images name a place that is too long");
        }
    }
    return 0;
}

/* ---- compared ---- */

bool volume_mounts_have(const struct volume_mounts *at, const char *path)
{
    for (size_t i = 0; i < at->n; i++) {
        if (strcmp(at->path[i], path) == 0) {
            return true;
        }
    }
    return false;
}

static bool plan_has(const struct keeper_plan *plan, const char *path)
{
    for (uint32_t i = 0; i < plan->volumes_n; i++) {
        if (strcmp(plan->volumes[i].path, path) == 0) {
            return true;
        }
    }
    return false;
}

const char *volume_mounts_vacant(const struct volume_mounts *at, const struct keeper_plan *plan)
{
    for (size_t i = 0; i < at->n; i++) {
        if (!plan_has(plan, at->path[i])) {
            return at->path[i];
        }
    }
    return NULL;
}

/* ---- set right ---- */

/* Opens the volumes of the plan that the images do not have, as detached mounts. */
static int missing_take(const struct volume_mounts *had, const struct keeper_plan *plan,
                        struct keeper_plan *missing, int fds[KEEPER_VOLUMES_MAX], struct err *err)
{
    missing->volumes_n = 0;
    for (uint32_t i = 0; i < plan->volumes_n; i++) {
        char path[64];
        if (volume_mounts_have(had, plan->volumes[i].path)) {
            continue;
        }
        (void)snprintf(path, sizeof(path), CRIU_MOUNTS_VOLUMES "/%" PRIu32, i);
        int fd = mounts_clone(AT_FDCWD, path, 0, err);
        if (fd < 0) {
            return fd;
        }
        missing->volumes[missing->volumes_n] = plan->volumes[i];
        fds[missing->volumes_n++] = fd;
    }
    return 0;
}

/* Enters the jail as its root, with the jail's rights only. */
static int enter(pid_t first, struct err *err)
{
    scoped_fd pidfd = pidfd_open(first, 0);

    if (pidfd < 0 || setns(pidfd, CLONE_NEWUSER | CLONE_NEWNS) < 0 || setresgid(0, 0, 0) < 0 ||
        setresuid(0, 0, 0) < 0) {
        return err_sys(err, "enter the jail to mount its volumes");
    }
    return 0;
}

/* The jail's processes do not run yet, so nothing can change between the check and the unmount. A
 * link in the path would lead to another mount of the jail, such as a cover of its /proc. */
static int volume_leave(int root_fd, const char *path, struct err *err)
{
    scoped_fd found = tenant_dir_open(root_fd, path + strspn(path, "/"), false, err);

    if (found < 0) {
        return found;
    }
    return umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW) < 0
               ? err_sys(err, "leave out the volume that was at %s", path)
               : 0;
}

static int settle_inside(const struct volume_mounts *had, const struct keeper_plan *plan,
                         pid_t first, struct err *err)
{
    struct keeper_plan missing;
    int fds[KEEPER_VOLUMES_MAX];
    int r = missing_take(had, plan, &missing, fds, err);

    if (r == 0) {
        r = enter(first, err);
    }
    if (r < 0) {
        return r;
    }
    scoped_fd root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0) {
        return err_sys(err, "open the jail's root");
    }
    for (size_t i = 0; r == 0 && i < had->n; i++) {
        r = plan_has(plan, had->path[i]) ? 0 : volume_leave(root, had->path[i], err);
    }
    return r < 0 ? r : volumes_attach(&missing, fds, root, err);
}

static int settle_wait(pid_t child, int from, struct err *err)
{
    struct err why;

    if (pid_wait_success(child)) {
        return 0;
    }
    if (read(from, &why, sizeof(why)) != (ssize_t)sizeof(why)) {
        return err_set(err, EIO, "the process that mounts the jail's volumes ended");
    }
    *err = why;
    return -err->code;
}

static bool is_settled(const struct volume_mounts *had, const struct keeper_plan *plan)
{
    for (uint32_t i = 0; i < plan->volumes_n; i++) {
        if (!volume_mounts_have(had, plan->volumes[i].path)) {
            return false;
        }
    }
    return !volume_mounts_vacant(had, plan);
}

int volume_mounts_settle(const struct volume_mounts *had, const struct keeper_plan *plan,
                         pid_t first, struct err *err)
{
    int ends[2];

    if (is_settled(had, plan)) {
        return 0;
    }
    if (pipe2(ends, O_CLOEXEC) < 0) {
        return err_sys(err, "make a pipe");
    }
    scoped_fd from = ends[0], to = ends[1];
    pid_t child = fork();
    if (child < 0) {
        return err_sys(err, "start the process that mounts the jail's volumes");
    }
    if (child == 0) {
        struct err why;
        int r = settle_inside(had, plan, first, &why);
        _exit(r == 0 || write(to, &why, sizeof(why)) < 0 ? r != 0 : 1);
    }
    fd_closep(&to);
    return settle_wait(child, from, err);
}
