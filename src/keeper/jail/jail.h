/* jail.h - makes, finds and removes jails. jail_begin() and jail_finish() show the order of all
 * privileged steps; jail_inside.c has those of the jail's first process.
 *
 * Owns:    nothing between calls: a jail is its control groups, its disk and its processes, and all
 *          of them outlive the keeper.
 * Needs:   keeper_root.h entered, SIGCHLD ignored (no one waits for a jail's first process).
 * Blocks:  never on a jail: jail_begin() takes a millisecond or two of system calls.
 * Threads: one.
 */
#ifndef JAIL_JAIL_H
#define JAIL_JAIL_H

#include <stdbool.h>

#include "keeper/disk/pool.h"
#include "keeper/jail/cgroup.h"
#include "keeper/jail/filter.h"
#include "keeper/jail/merge.h"
#include "keeper/jail/network.h"
#include "keeper/jail/size_bpf.h"
#include "keeper/jail/size_files.h"
#include "lib/base/compiler.h"
#include "lib/base/encode.h"
#include "lib/base/err.h"
#include "lib/base/fd.h"
#include "wire/keeper.h"

enum {
    JAIL_START_TIMEOUT_MS = 10 * 1000, /* between jail_begin() and jail_finish() */
    JAIL_MOUNTS_MAX =
        1 + KEEPER_VOLUMES_MAX, /* sent to its first process: the root and the volumes */
};

/* Resources that all jails share; opened once. */
struct jail_shared {
    struct pool *pool;
    struct cgroups *groups;
    struct filters *filters;
    struct network *network;
    struct size_files *size_files;
    struct size_bpf *size_bpf; /* NULL where the kernel does not allow it, or it is switched off */
    int keeper_root_ns;        /* the keeper's own mount namespace, to return to */
    int lock_fd;               /* shows that a keeper runs: no other process may hold it */
    const struct criu_program *criu;      /* NULL where memory cannot be saved */
    struct err criu_why;                  /* the reason, then */
    const struct criu_program *criu_lazy; /* one that leaves out memory (fill.h), or NULL */
    int userfault_fd;                     /* /dev/userfaultfd, or -1 */
    uint32_t lazy_mb;        /* memory from which a restore does not wait for it; 0: never */
    struct zygotes *zygotes; /* keeper/checkpoint/zygote.h; NULL without a CRIU that can */
    struct merge merge;
    bool merges; /* equal pages of jails are merged */
    char agent_hash[SHA256_HEX_LEN + 1];
    int task_timeout_ms; /* for one save, restore or copy of a disk */
    const char *task;    /* the keeper's group that this process is in, or NULL */
};

/* The parts of a jail that exist and must be removed. */
enum jail_part {
    JAIL_GROUPS = 1 << 0,
    JAIL_DISK = 1 << 1,
    JAIL_ALL = JAIL_GROUPS | JAIL_DISK,
};

struct jail {
    struct keeper_jail name;
    int pidfd;                        /* -1 on failure, as the next ones */
    int channel;                      /* connected to the agent, non-blocking */
    uint32_t channel_version;         /* spoken by its agent */
    int sockets[KEEPER_JAIL_SOCKETS]; /* made in its network, for connections into it */
    struct network_sockets net;       /* -1 when it has only loopback, also on success */
};
#define JAIL_NONE                                                                                  \
    ((struct jail){.pidfd = -1, .channel = -1, .sockets = {-1, -1}, .net = NETWORK_SOCKETS_NONE})

static inline void jail_closep(struct jail *jail)
{
    fd_closep(&jail->pidfd);
    fd_closep(&jail->channel);
    for (size_t i = 0; i < KEEPER_JAIL_SOCKETS; i++) {
        fd_closep(&jail->sockets[i]);
    }
    network_sockets_closep(&jail->net);
}

/* Makes everything that the first process needs, and sends it. *socket is readable when the process
 * has become the agent, or has failed. With plan.from the disk exists, and is removed with this
 * jail on failure; with plan.keeps_disk it is ready, and stays. *made has the parts to remove with
 * jail_kill() and jail_remove() when this or the next function fails. */
must_check int jail_begin(struct jail_shared *shared, const char *id,
                          const struct keeper_plan *plan, struct jail *out, int *socket,
                          unsigned *made, struct err *err);

/* Called when that socket is readable: identifies the agent and connects to it. -ETIMEDOUT when it
 * is not readable. */
must_check int jail_finish(struct jail_shared *shared, const char *id,
                           const struct keeper_plan *plan, int socket, struct jail *out,
                           struct err *err);

/* -ESRCH when that process is gone, or is not the first of that jail. With `network` the sockets of
 * its network are opened too, unless it has none, or a process inside has taken their addresses. */
must_check int jail_attach(struct jail_shared *shared, const char *id,
                           const struct keeper_jail *name, bool network, struct jail *out,
                           struct err *err);

/* As network_inward_open(), in the network of that jail; -ESRCH as with jail_attach(). */
must_check int jail_sockets_open(struct jail_shared *shared, const char *id,
                                 const struct keeper_jail *name, int *out, size_t n,
                                 struct err *err);

/* Identifies a first process that was just made and connects to it, without its network. */
must_check int jail_adopt(struct jail_shared *shared, const char *id, pid_t pid, struct jail *out,
                          struct err *err);

must_check int jail_kill(struct jail_shared *shared, const char *id, struct err *err);

/* -EBUSY while its processes are still exiting. Does nothing when there is no jail. */
must_check int jail_remove(struct jail_shared *shared, const char *id, unsigned parts,
                           struct err *err);

/* ---- jail_inside.c ---- */

struct jail_inside {
    const struct keeper_plan *plan;
    const struct filters *filters;
    const struct network *network;
    const struct size_files *size_files;
    const struct cgroup_v1_files *v1_files;
    bool merges;
    int socket; /* receives root and volumes; sends a struct err; closes when the agent runs */
};

/* The code of the cloned process until it becomes the agent. */
_Noreturn void jail_inside(const struct jail_inside *in);

#endif
