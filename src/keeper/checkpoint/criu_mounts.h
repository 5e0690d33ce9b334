/* criu_mounts.h - the mount namespace in which CRIU works. It has the host's programs, and below
 * /run everything that a jail is restored from.
 *
 *   /run/root      the root filesystem of a restored jail
 *   /run/bin/      the program that CRIU starts as `tar`: stow.h
 *   /run/parts/    mounts that every jail has from the keeper: devices, /sys, the agent
 *   /run/volumes/  its volumes, by their number in the plan; `none` is an empty directory
 *   /run/saved     the images, read-only
 *   /run/changed/  images that are changed for this jail
 *   /run/images    both, the changed ones on top
 *   /run/work/     CRIU's log
 *   /tmp/          empty, for CRIU
 *
 * CRIU gets the parts by name ("external" mounts): it leaves them out of the images, and finds them
 * here again when it restores.
 *
 * Owns:    the namespace, which ends with the processes in it.
 * Needs:   keeper_root.h entered, CAP_SYS_ADMIN.
 * Blocks:  for mounts.
 * Threads: one.
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

/* The device nodes, the covers below /proc, /sys, the agent, and the volumes. */
enum {
    CRIU_MOUNTS_EXTERNALS_MAX = KEEPER_ROOT_NODES + JAIL_MOUNTS_MASKED_FILES +
                                JAIL_MOUNTS_MASKED_DIRS + 2 + KEEPER_VOLUMES_MAX
};

/* The mounts a jail is restored from: detached ones that are moved into the namespace. -1 for
 * none. */
struct criu_mounts_parts {
    int root;
    int agent;
    int saved;
    int volumes[KEEPER_VOLUMES_MAX];
    int none; /* used for a volume that the plan does not have */
};
#define CRIU_MOUNTS_PARTS_NONE                                                                     \
    {                                                                                              \
        .root = -1, .agent = -1, .saved = -1, .volumes = {-1}, .none = -1                          \
    }

struct criu_mounts {
    int keeper_root_fd; /* the keeper's root, which outlives the namespace */
    int keeper_root_ns; /* the previous mount namespace */
    int own_ns;
    int changed_fd; /* /run/changed */
    int work_fd;    /* /run/work */
};

/* Makes and enters a namespace with everything that every CRIU needs. */
must_check int criu_mounts_enter(const struct pool *pool, struct criu_mounts *out, struct err *err);

/* Returns to the keeper's root; and enters again with the mounts a jail is restored from. Processes
 * that were started in the namespace see them too. */
must_check int criu_mounts_leave(const struct criu_mounts *mounts, struct err *err);
must_check int criu_mounts_add_parts(const struct criu_mounts *mounts,
                                     struct criu_mounts_parts *parts, struct err *err);

/* Stores CRIU's cache of kernel features for the next CRIU, if it was made here: it saves 80 ms. */
void criu_mounts_remember(const struct criu_mounts *mounts);

/* Makes /run/images when the changed images are written, and returns its directory. It is one
 * mount, because CRIU continues to read after it has left this namespace; a link would lead
 * elsewhere. */
must_check int criu_mounts_images(struct err *err);

/* CRIU's names for the parts: for a dump of a jail with volumes at those places, and for a restore
 * with that plan from images with volumes at those places. The caller frees each. */
size_t criu_mounts_externals_dumped(const struct volume_mounts *at,
                                    char *out[CRIU_MOUNTS_EXTERNALS_MAX]);
size_t criu_mounts_externals_restored(const struct keeper_plan *plan,
                                      const struct volume_mounts *had,
                                      char *out[CRIU_MOUNTS_EXTERNALS_MAX]);

#endif
