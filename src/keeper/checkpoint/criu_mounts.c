#include "keeper/checkpoint/criu_mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "keeper/checkpoint/criu.h"
#include "keeper/disk/mounts.h"
#include "keeper/jail/jail_mounts.h"
#include "keeper/jail/keeper_root.h"
#include "lib/base/alloc.h"
#include "lib/base/fd.h"
#include "wire/channel.h"

#define PARTS_DIR "/run/parts/"
#define OWN_NS "/proc/self/ns/mnt"
/* CRIU's log has a line for each descriptor and mapping of the jail. */
#define MEMORY_OPTIONS "mode=0755,size=1g"
#define CACHE "criu.kdat" /* CRIU's name for it, in /run */

enum {
    PART_EMPTY = KEEPER_ROOT_NODES,
    PART_SYS,
    PARTS_N,
    OWN_STOW = PARTS_N, /* the program for CRIU, not a part of a jail */
    OWN_N,
    CACHE_BYTES_MAX = 64 * 1024,
    TEXT_BYTES = 2 * KEEPER_VOLUME_PATH_BYTES + 64,
};

#define VOLUME_KEY "volume:" /* followed by its path in the jail */

static const char *part_name(size_t part)
{
    return part < KEEPER_ROOT_NODES ? keeper_root_nodes[part].name
           : part == PART_EMPTY     ? "empty"
                                    : "sys";
}

/* ---- entering ---- */

static int own_take(int out[OWN_N], struct err *err)
{
    for (size_t i = 0; i < PARTS_N; i++) {
        char path[32];
        (void)snprintf(path, sizeof(path), i < KEEPER_ROOT_NODES ? "/dev/%s" : "/%s", part_name(i));
        out[i] = mounts_clone(AT_FDCWD, path, 0, err);
        if (out[i] < 0) {
            return out[i];
        }
    }
    out[OWN_STOW] = mounts_clone(AT_FDCWD, "/agent",
                                 MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, err);
    return out[OWN_STOW] < 0 ? out[OWN_STOW] : 0;
}

/* Attaches a detached mount at a new place, and closes the descriptor. */
static int put(const char *path, bool is_dir, int mount_fd, struct err *err)
{
    scoped_fd mount = mount_fd;
    int r = is_dir ? mkdir(path, 0755) : mknod(path, S_IFREG | 0644, 0);

    if (r < 0) {
        return err_sys(err, "make %s", path);
    }
    return mount < 0 ? 0 : mounts_attach(mount, AT_FDCWD, path, err);
}

static int own_put(const int parts[OWN_N], struct err *err)
{
    int r = mkdir("/run/parts", 0755) < 0 || mkdir(CRIU_PROGRAMS, 0755) < 0
                ? err_sys(err, "make /run/parts")
                : put(CRIU_PROGRAMS "/" CHANNEL_TAR_PROGRAM, false, parts[OWN_STOW], err);

    for (size_t i = 0; r == 0 && i < PARTS_N; i++) {
        char path[64];
        (void)snprintf(path, sizeof(path), PARTS_DIR "%s", part_name(i));
        r = put(path, i >= KEEPER_ROOT_NODES, parts[i], err);
    }
    return r;
}

static int volumes_put(int volumes[KEEPER_VOLUMES_MAX], int none, struct err *err)
{
    scoped_fd rest = none;
    int r = mkdir(CRIU_MOUNTS_VOLUMES, 0755) < 0 ? err_sys(err, "make " CRIU_MOUNTS_VOLUMES) : 0;

    for (size_t i = 0; r == 0 && i < KEEPER_VOLUMES_MAX && volumes[i] >= 0; i++) {
        char path[32];
        (void)snprintf(path, sizeof(path), CRIU_MOUNTS_VOLUMES "/%zu", i);
        r = put(path, true, move_fd(&volumes[i]), err);
    }
    return r < 0 ? r : put(CRIU_MOUNTS_VOLUMES "/none", true, move_fd(&rest), err);
}

static int dir_make(const char *path, struct err *err)
{
    if (mkdir(path, 0755) < 0) {
        return err_sys(err, "make %s", path);
    }
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? err_sys(err, "open %s", path) : fd;
}

int criu_mounts_add_parts(const struct criu_mounts *mounts, struct criu_mounts_parts *parts,
                          struct err *err)
{
    int r = setns(mounts->own_ns, CLONE_NEWNS) < 0 ? err_sys(err, "enter CRIU's namespace") : 0;

    if (r == 0 && parts->agent >= 0) {
        r = put(PARTS_DIR "agent", false, move_fd(&parts->agent), err);
    }
    if (r == 0 && parts->root >= 0) {
        r = put(CRIU_MOUNTS_ROOT, true, move_fd(&parts->root), err);
    }
    if (r == 0) {
        r = volumes_put(parts->volumes, move_fd(&parts->none), err);
    }
    if (r == 0 && parts->saved >= 0) {
        r = put("/run/saved", true, move_fd(&parts->saved), err);
    }
    return r;
}

/* The copy gets its name when it is complete: two processes may store it at once. */
static void file_copy(int from_fd, const char *from, int to_fd, const char *to)
{
    char bytes[CACHE_BYTES_MAX], half[64];
    scoped_fd in = openat(from_fd, from, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    ssize_t n = in < 0 ? -1 : read(in, bytes, sizeof(bytes));

    (void)snprintf(half, sizeof(half), "%s.%d", to, getpid());
    scoped_fd out = n <= 0 || n == (ssize_t)sizeof(bytes)
                        ? -1
                        : openat(to_fd, half, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (out >= 0 && (write(out, bytes, (size_t)n) != n || renameat(to_fd, half, to_fd, to) < 0)) {
        (void)unlinkat(to_fd, half, 0);
    }
}

void criu_mounts_remember(const struct criu_mounts *mounts)
{
    if (faccessat(mounts->keeper_root_fd, CACHE, F_OK, 0) < 0) {
        file_copy(AT_FDCWD, "/run/" CACHE, mounts->keeper_root_fd, CACHE);
    }
}

static int namespace_make(const struct pool *pool, struct criu_mounts *out, struct err *err)
{
    out->keeper_root_fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    out->keeper_root_ns = open(OWN_NS, O_RDONLY | O_CLOEXEC);
    if (setns(pool_host_ns(pool), CLONE_NEWNS) < 0 || unshare(CLONE_NEWNS) < 0 ||
        mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("none", "/run", "tmpfs", MS_NOSUID | MS_NODEV, MEMORY_OPTIONS) < 0 ||
        mount("none", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, MEMORY_OPTIONS) < 0) {
        return err_sys(err, "enter a mount namespace for CRIU");
    }
    out->own_ns = open(OWN_NS, O_RDONLY | O_CLOEXEC);
    return out->keeper_root_ns < 0 || out->own_ns < 0 ? err_sys(err, "open " OWN_NS) : 0;
}

int criu_mounts_enter(const struct pool *pool, struct criu_mounts *out, struct err *err)
{
    int own[OWN_N];
    int r = own_take(own, err);

    if (r == 0) {
        r = namespace_make(pool, out, err);
    }
    if (r < 0) {
        return r;
    }
    file_copy(out->keeper_root_fd, CACHE, AT_FDCWD, "/run/" CACHE);
    r = own_put(own, err);
    if (r == 0) {
        r = out->changed_fd = dir_make("/run/changed", err);
    }
    if (r >= 0) {
        r = out->work_fd = dir_make("/run/work", err);
    }
    return r < 0 ? r : 0;
}

int criu_mounts_leave(const struct criu_mounts *mounts, struct err *err)
{
    return setns(mounts->keeper_root_ns, CLONE_NEWNS) < 0
               ? err_sys(err, "return to the keeper's root")
               : 0;
}

int criu_mounts_images(struct err *err)
{
    const struct mount_option options[] = {
        {"source", "images"}, {"lowerdir", "/run/changed:/run/saved"}, {0}};
    int fd = mounts_new("overlay", options, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NODEV, err);
    int r = fd < 0 ? fd : put("/run/images", true, fd, err);

    if (r < 0) {
        return r;
    }
    fd = open("/run/images", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? err_sys(err, "open the images") : fd;
}

/* ---- naming ---- */

static void external_add(char *out[CRIU_MOUNTS_EXTERNALS_MAX], size_t *n, const char *key,
                         const char *value)
{
    char *text = xcalloc(1, TEXT_BYTES);

    (void)snprintf(text, TEXT_BYTES, "mnt[%s]:%s", key, value);
    out[(*n)++] = text;
}

/* CRIU needs a mount at every place that the images have; volume_mounts_settle() removes the empty
 * ones again. */
static void volume_source(const struct keeper_plan *plan, const char *place, char *out, size_t size)
{
    for (uint32_t i = 0; i < plan->volumes_n; i++) {
        if (strcmp(plan->volumes[i].path, place) == 0) {
            (void)snprintf(out, size, CRIU_MOUNTS_VOLUMES "/%" PRIu32, i);
            return;
        }
    }
    (void)snprintf(out, size, CRIU_MOUNTS_VOLUMES "/none");
}

size_t criu_mounts_externals_restored(const struct keeper_plan *plan,
                                      const struct volume_mounts *had,
                                      char *out[CRIU_MOUNTS_EXTERNALS_MAX])
{
    char key[KEEPER_VOLUME_PATH_BYTES + sizeof(VOLUME_KEY)], path[64];
    size_t n = 0;

    for (size_t i = 0; i < PARTS_N; i++) {
        (void)snprintf(path, sizeof(path), PARTS_DIR "%s", part_name(i));
        external_add(out, &n, part_name(i), path);
    }
    external_add(out, &n, "agent", PARTS_DIR "agent");
    for (size_t i = 0; i < had->n; i++) {
        (void)snprintf(key, sizeof(key), VOLUME_KEY "%s", had->path[i]);
        volume_source(plan, had->path[i], path, sizeof(path));
        external_add(out, &n, key, path);
    }
    return n;
}

size_t criu_mounts_externals_dumped(const struct volume_mounts *at,
                                    char *out[CRIU_MOUNTS_EXTERNALS_MAX])
{
    char path[64], key[KEEPER_VOLUME_PATH_BYTES + sizeof(VOLUME_KEY)];
    size_t n = 0;

    for (size_t i = 0; i < KEEPER_ROOT_NODES; i++) {
        (void)snprintf(path, sizeof(path), "/dev/%s", keeper_root_nodes[i].name);
        external_add(out, &n, path, keeper_root_nodes[i].name);
    }
    for (size_t i = 0; i < JAIL_MOUNTS_MASKED_FILES; i++) {
        (void)snprintf(path, sizeof(path), "/proc/%s", jail_mounts_masked_files[i]);
        external_add(out, &n, path, "null");
    }
    for (size_t i = 0; i < JAIL_MOUNTS_MASKED_DIRS; i++) {
        (void)snprintf(path, sizeof(path), "/proc/%s", jail_mounts_masked_dirs[i]);
        external_add(out, &n, path, "empty");
    }
    external_add(out, &n, "/sys", "sys");
    external_add(out, &n, JAIL_MOUNTS_AGENT, "agent");
    for (size_t i = 0; i < at->n; i++) {
        (void)snprintf(key, sizeof(key), VOLUME_KEY "%s", at->path[i]);
        external_add(out, &n, at->path[i], key);
    }
    return n;
}
