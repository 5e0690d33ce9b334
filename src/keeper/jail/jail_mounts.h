/* jail_mounts.h - what a jail finds mounted in its root: /dev, /proc, /sys and /run.
 *
 * Everything that comes from outside the jail (device nodes, the agent, /sys, and the right to
 * mount a procfs) is taken while the keeper's root is still in sight, by jail_mounts_take(). After
 * the jail's root was entered, jail_mounts_mount() puts it in place, by descriptor: of the
 * template's own tree only the four directories are ever resolved, and a link there is refused.
 *
 * Runs in the jail's first process, between clone3() and exec(): no memory is allocated.
 */
#ifndef JAIL_JAIL_MOUNTS_H
#define JAIL_JAIL_MOUNTS_H

#include "keeper/jail/keeper_root.h"
#include "keeper/jail/size_files.h"
#include "lib/base/compiler.h"
#include "lib/base/err.h"
#include "wire/keeper.h"

#define JAIL_MOUNTS_AGENT "/run/atoll/agent"

enum {
    JAIL_MOUNTS_MASKED_FILES = 11,
    JAIL_MOUNTS_MASKED_DIRS = 7,
};

/* Below /proc; of these a kernel has what it has. */
extern const char *const jail_mounts_masked_files[JAIL_MOUNTS_MASKED_FILES]; /* covered with null */
extern const char
    *const jail_mounts_masked_dirs[JAIL_MOUNTS_MASKED_DIRS]; /* with an empty directory */

struct jail_mounts {
    int nodes[KEEPER_ROOT_NODES];
    int null_masks[JAIL_MOUNTS_MASKED_FILES];
    int empty_masks[JAIL_MOUNTS_MASKED_DIRS];
    int sys;
    int agent;
    int proc;
    int dev; /* the mounted /dev, from jail_mounts_mount() on */
};

must_check int jail_mounts_take(struct jail_mounts *f, struct err *err);
must_check int jail_mounts_mount(struct jail_mounts *f, int root_fd, const struct keeper_plan *plan,
                                 const struct size_files *size_files, struct err *err);

#endif
