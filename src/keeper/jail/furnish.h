/* furnish.h - what a jail finds mounted in its root: /dev, /proc, /sys and /run.
 *
 * Everything that comes from outside the jail (device nodes, the agent, /sys, and the right to
 * mount a procfs) is taken while the keeper's root is still in sight, by furnish_take(). After the
 * jail's root was entered, furnish_mount() puts it in place, by descriptor: of the template's own
 * tree only the four directories are ever resolved, and a link there is refused.
 *
 * Runs in the jail's first process, between clone3() and exec(): no memory is allocated.
 */
#ifndef JAIL_FURNISH_H
#define JAIL_FURNISH_H

#include "keeper/jail/keeper_root.h"
#include "keeper/jail/size_files.h"
#include "lib/base/compiler.h"
#include "lib/base/err.h"
#include "wire/keeper.h"

#define FURNISH_AGENT "/run/atoll/agent"

enum {
    FURNISH_MASKED_FILES = 11,
    FURNISH_MASKED_DIRS = 7,
};

/* Below /proc; of these a kernel has what it has. */
extern const char *const furnish_masked_files[FURNISH_MASKED_FILES]; /* covered with null */
extern const char *const furnish_masked_dirs[FURNISH_MASKED_DIRS];   /* with an empty directory */

struct furnish {
    int nodes[KEEPER_ROOT_NODES];
    int null_masks[FURNISH_MASKED_FILES];
    int empty_masks[FURNISH_MASKED_DIRS];
    int sys;
    int agent;
    int proc;
    int dev; /* the mounted /dev, from furnish_mount() on */
};

must_check int furnish_take(struct furnish *f, struct err *err);
must_check int furnish_mount(struct furnish *f, int root_fd, const struct keeper_plan *plan,
                             const struct size_files *size_files, struct err *err);

#endif
