/* keeper_root.h - the keeper's own root directory: a tmpfs with the few things jails are made of.
 *
 *   /proc     a full procfs: a user namespace may mount its own only while it sees a full one
 *   /pool     the pool
 *   /agent    a copy of the agent, in memory
 *   /dev      the host's null, zero, full, random, urandom and tty, and nothing else
 *   /sys      the /sys of jails: the list of CPUs, read-only
 *   /empty    an empty directory, read-only, to cover others with
 *   /l0 ...   mount points for the layers of the jail that is being made, and /upper for its disk;
 *             used in the copy of this tree that the jail's first process has
 *   /root     mount point for a jail's root, before its first process enters it
 *
 * The cost of copying a mount namespace grows with its mounts, and a mount that does not exist
 * cannot leak into a jail: so the keeper leaves the host's tree before it makes the first jail.
 *
 * Owns:    the mount namespace.
 * Blocks:  for mounts and a copy of the agent.
 * Threads: one.
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
    KEEPER_ROOT_AGENT_BYTES_MAX = 16 * 1024 * 1024, /* also for the agent of an earlier keeper */
};
extern const struct keeper_root_node keeper_root_nodes[KEEPER_ROOT_NODES];

/* Enters a new mount namespace with the root above; *ns is a descriptor of it. Paths of the host
 * cannot be opened afterwards. Needs CAP_SYS_ADMIN and one thread. */
must_check int keeper_root_enter(int pool_fd, const char *agent_path, int *ns, struct err *err);

#endif
