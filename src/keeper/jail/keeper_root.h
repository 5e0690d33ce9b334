/* keeper_root.h - the keeper's own root directory: a tmpfs with the few things jails are made of.
 *
 *   /proc     a whole procfs: the kernel lets a user namespace mount its own only while it sees one
 *   /pool     the pool
 *   /agent    a copy of the agent, in memory
 *   /dev      the host's null, zero, full, random, urandom and tty, and nothing else
 *   /sys      what a jail gets as /sys: the list of CPUs, read-only
 *   /empty    an empty directory, read-only, to cover others with
 *   /l0 ...   where the layers of the jail being made are mounted, /upper its disk: in the copy of
 *             this tree that its first process has
 *   /root     where a jail's first process mounts its root before it enters it
 *
 * Copying a mount namespace costs by the mount, and what is not there cannot leak into a jail: so
 * the keeper leaves the host's tree before the first jail is made.
 */
#ifndef JAIL_KEEPER_ROOT_H
#define JAIL_KEEPER_ROOT_H

#include "lib/base/compiler.h"
#include "lib/base/err.h"

struct keeper_root_node {
    const char *name;
    unsigned major, minor;
};
enum {
    KEEPER_ROOT_NODES = 6,
    KEEPER_ROOT_AGENT_BYTES_MAX = 16 * 1024 * 1024, /* also of one that an earlier keeper brought */
};
extern const struct keeper_root_node keeper_root_nodes[KEEPER_ROOT_NODES];

/* Enters a mount namespace of its own whose root is as above; *ns names it. Paths of the host
 * cannot be opened after it. Needs CAP_SYS_ADMIN and one thread. */
must_check int keeper_root_enter(int pool_fd, const char *agent_path, int *ns, struct err *err);

#endif
