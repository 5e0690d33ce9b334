/* criu_mounts.h - where CRIU works: a mount namespace of its own with the host's programs, and
 * below /run what a saved jail is made from.
 *
 *   /run/root      a restored jail's root filesystem
 *   /run/bin/      the `tar` that CRIU is to start: stow.h
 *   /run/parts/    what every jail has mounted from the keeper: devices, /sys, the agent
 *   /run/volumes/  its volumes, by their number in the plan; `none` is an empty directory
 *   /run/saved     the images, read-only
 *   /run/changed/  those images that are to be different for this jail
 *   /run/images    both, the changed ones on top
 *   /run/work/     CRIU's log
 *   /tmp/          empty, for CRIU
 *
 * CRIU is told of the parts by name ("external" mounts): it leaves them out of the images and finds
 * them here again.
 *
 * Owns:    the namespace, which ends with those who are in it.
 * Needs:   keeper_root.h entered, CAP_SYS_ADMIN, one thread.
 */
#ifndef CHECKPOINT_CRIU_MOUNTS_H
#define CHECKPOINT_CRIU_MOUNTS_H

#include <stddef.h>

#include "keeper/checkpoint/volume_mounts.h"
#include "keeper/disk/pool.h"
#include "keeper/jail/jail_mounts.h"
#include "lib/base/compiler.h"
#include "lib/base/err.h"
#include "wire/keeper.h"

#define CRIU_MOUNTS_ROOT "/run/root"
#define CRIU_MOUNTS_VOLUMES "/run/volumes"

/* The device nodes, the masks below /proc, /sys and the agent, and the volumes. */
enum {
    CRIU_MOUNTS_EXTERNALS_MAX = KEEPER_ROOT_NODES + JAIL_MOUNTS_MASKED_FILES +
                                JAIL_MOUNTS_MASKED_DIRS + 2 + KEEPER_VOLUMES_MAX
};

/* What a jail is restored from: detached mounts, which are moved into the namespace. -1 for none.
 */
struct criu_mounts_parts {
    int root;
    int agent;
    int saved;
    int volumes[KEEPER_VOLUMES_MAX];
    int none; /* stands in for a volume that the plan lacks */
};
#define CRIU_MOUNTS_PARTS_NONE                                                                     \
    {                                                                                              \
        .root = -1, .agent = -1, .saved = -1, .volumes = {-1}, .none = -1                          \
    }

struct criu_mounts {
    int keeper_root_fd; /* the keeper's root, which outlives this */
    int keeper_root_ns; /* the mount namespace of before, and this one */
    int own_ns;
    int changed_fd; /* /run/changed */
    int work_fd;    /* /run/work */
};

/* A new one, with what every CRIU needs. */
must_check int criu_mounts_enter(const struct pool *pool, struct criu_mounts *out, struct err *err);

/* Out to the keeper's root, and back with what a jail is restored from: whoever was started in it
 * meanwhile sees that too. */
must_check int criu_mounts_leave(const struct criu_mounts *mounts, struct err *err);
must_check int criu_mounts_add_parts(const struct criu_mounts *mounts,
                                     struct criu_mounts_parts *parts, struct err *err);

/* Keeps what CRIU found out about this kernel, when it did so here, for the next CRIU: some 80 ms.
 */
void criu_mounts_remember(const struct criu_mounts *mounts);

/* Puts the images together, once those that are changed lie there. Returns their directory. It is
 * one mount, since CRIU goes on reading when it has left this namespace: a link would lead astray.
 */
must_check int criu_mounts_images(struct err *err);

/* CRIU's words for the parts: of a jail that has volumes at those places, when it is dumped, and
 * when one is restored with that plan from images that have them there. For free() each. */
size_t criu_mounts_externals_dumped(const struct volume_mounts *at,
                                    char *out[CRIU_MOUNTS_EXTERNALS_MAX]);
size_t criu_mounts_externals_restored(const struct keeper_plan *plan,
                                      const struct volume_mounts *had,
                                      char *out[CRIU_MOUNTS_EXTERNALS_MAX]);

#endif
