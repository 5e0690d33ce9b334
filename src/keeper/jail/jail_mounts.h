/* jail_mounts.h - mounts /dev, /proc, /sys and /run of a jail.
 *
 * jail_mounts_take() opens everything that comes from outside the jail (device nodes, the agent,
 * /sys, and the right to mount a procfs) while the keeper's root is still reachable. After the
 * jail's root was entered, jail_mounts_mount() attaches it, by descriptor: of the template's tree
 * only the four directories are ever resolved, and a link in their place is refused.
 *
 * Owns:    nothing.
 * Blocks:  for mounts.
 * Threads: runs in the jail's first process, between clone3() and exec(): no memory is allocated.
 */
#ifndef JAIL_JAIL_MOUNTS_H
#define JAIL_JAIL_MOUNTS_H

#include <stdbool.h>
#include <sys/types.h>

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

/* Paths below /proc; those that the kernel does not have are skipped. */
extern const char
    *const jail_mounts_masked_files[JAIL_MOUNTS_MASKED_FILES]; /* covered with /dev/null */
extern const char
    *const jail_mounts_masked_dirs[JAIL_MOUNTS_MASKED_DIRS]; /* covered with an empty directory */

struct jail_mounts {
    int nodes[KEEPER_ROOT_NODES];
    int null_masks[JAIL_MOUNTS_MASKED_FILES];
    int empty_masks[JAIL_MOUNTS_MASKED_DIRS];
    int sys;
    int agent;
    int proc;
    int dev; /* the mounted /dev, set by jail_mounts_mount() */
};

must_check int jail_mounts_take(struct jail_mounts *f, struct err *err);
must_check int jail_mounts_mount(struct jail_mounts *f, int root_fd, const struct keeper_plan *plan,
                                 const struct size_files *size_files, struct err *err);

/* Whether every jail has a file of that name and type in its private directory, /run/atoll, since
 * it was made: its own /dev is there, too. And how many there are, without `shm`, where the files
 * of /dev/shm are. */
bool jail_mounts_has(const char *path, mode_t mode);
size_t jail_mounts_has_n(void);

#endif
