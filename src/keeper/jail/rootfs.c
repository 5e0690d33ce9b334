#include "keeper/jail/rootfs.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>

#include "keeper/disk/mounts.h"
#include "keeper/disk/pool.h"
#include "keeper/disk/saved.h"
#include "keeper/jail/caps.h"
#include "lib/base/fd.h"

enum {
    OPTION_BYTES = 256, /* the kernel's limit for one option */
    LAYER_PATH_BYTES = KEEPER_LAYER_BYTES + 32,
};

/* The path of a layer; an empty name means an empty directory. */
static void layer_path(const char *layer, char out[LAYER_PATH_BYTES])
{
    if (!layer[0]) {
        (void)snprintf(out, LAYER_PATH_BYTES, "/pool/" POOL_EMPTY);
    } else if (strncmp(layer, KEEPER_SAVED_PREFIX, strlen(KEEPER_SAVED_PREFIX)) == 0) {
        (void)snprintf(out, LAYER_PATH_BYTES, "/pool/saved/%s/" SAVED_DISK "/" POOL_UPPER, layer);
    } else {
        (void)snprintf(out, LAYER_PATH_BYTES, "/pool/layers/%s", layer);
    }
}

static int layer_mount(const char *layer, unsigned index, int userns_fd, struct err *err)
{
    const uint64_t attr = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NODEV;
    char from[LAYER_PATH_BYTES], to[16];

    layer_path(layer, from);
    (void)snprintf(to, sizeof(to), "/l%u", index);
    scoped_fd fd = mounts_clone_idmapped(AT_FDCWD, from, attr, userns_fd, err);
    if (fd == -ENOENT) {
        return err_set(err, ENOENT, "there is no layer %s in the pool", layer);
    }
    return fd < 0 ? fd : mounts_attach(fd, AT_FDCWD, to, err);
}

/* A plan without layers gets an empty directory as its layer. */
static int lowers_mount(const struct keeper_plan *plan, int userns_fd, struct err *err)
{
    int r = 0;

    for (uint32_t i = 0; r == 0 && i < plan->layers_n; i++) {
        r = layer_mount(plan->layers[i], i, userns_fd, err);
    }
    return plan->layers_n ? r : layer_mount("", 0, userns_fd, err);
}

static uint32_t lowers_n(const struct keeper_plan *plan)
{
    return plan->layers_n ? plan->layers_n : 1;
}

static int disk_mount(const char *id, int userns_fd, struct err *err)
{
    char from[KEEPER_ID_BYTES + 24];

    (void)snprintf(from, sizeof(from), "/pool/sandboxes/%s", id);
    scoped_fd fd = mounts_clone_idmapped(AT_FDCWD, from, MOUNT_ATTR_NODEV, userns_fd, err);
    return fd < 0 ? fd : mounts_attach(fd, AT_FDCWD, "/upper", err);
}

/* Relative to the keeper's root, and short: 32 paths must fit into one option. */
static void lowerdir_text(unsigned n, char out[OPTION_BYTES])
{
    size_t len = 0;

    for (unsigned i = 0; i < n; i++) {
        len += (size_t)snprintf(out + len, OPTION_BYTES - len, i ? ":l%u" : "l%u", i);
    }
    assert(len < OPTION_BYTES);
}

static int overlay_mount(const struct keeper_plan *plan, struct err *err)
{
    char lowerdir[OPTION_BYTES];
    const struct mount_option options[] = {
        {"source", "atoll"},
        {"lowerdir", lowerdir},
        {"upperdir", "upper/" POOL_UPPER},
        {"workdir", "upper/" POOL_WORK},
        /* Stable file handles: inotify watches of a saved jail are found again by them. */
        {"index", "on"},
        {"nfs_export", "on"},
        {"redirect_dir", "on"}, /* otherwise renaming a directory of a template gives EXDEV */
        /* The keeper syncs a disk as a whole when it saves it. Until then fsync() inside need not
         * reach the disk, and the end of a jail must not flush the pool. */
        {"volatile", NULL},
        {"metacopy", "off"},
        {"xino", "off"},
        {0},
    };

    lowerdir_text(lowers_n(plan), lowerdir);
    return mounts_new("overlay", options, MOUNT_ATTR_NODEV, err);
}

int rootfs_build(const char *id, const struct keeper_plan *plan, int userns_fd, uint32_t uid_base,
                 struct err *err)
{
    struct err ignored;
    int r = disk_mount(id, userns_fd, err);

    if (r == 0) {
        r = lowers_mount(plan, userns_fd, err);
    }
    if (r < 0) {
        return r;
    }
    /* overlayfs creates its own files with the credentials of the mounter: so it is mounted as the
     * jail's root, the only owner that can be written through the idmapped mount. */
    r = caps_act_as(uid_base, uid_base, err);
    if (r == 0) {
        r = overlay_mount(plan, err);
    }
    int back = caps_act_as(0, 0, &ignored);
    assert(back == 0); /* continuing with another uid would be worse than ending */
    return r;
}
