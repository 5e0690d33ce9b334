/* cgroup.h - the control groups of the jails: one leaf per jail and hierarchy.
 *
 * There is always a leaf in the unified hierarchy (v2): it is used to kill and to list, and
 * clone3() starts the jail in it. Each of cpu, memory and pids is limited there when that hierarchy
 * has the controller, else in the v1 hierarchy on which it is mounted. cgroups_lacks() reports a
 * controller that is in none.
 *
 * cgroup.c has the hierarchies, cgroup_jail.c the leaves of a jail, cgroup_usage.c their figures,
 * cgroup_task.c the groups for the keeper's own work.
 *
 * Owns:    the directories atoll-<instance>/<id>, in every hierarchy used. They are the record of
 *          which jails exist: the keeper remembers nothing else.
 * Needs:   root. Leaves the host's own mounts and groups as they are, except that the three
 *          controllers are enabled for children of the v2 root.
 * Blocks:  for a few kernel writes; no call waits for a process to exit; cgroups_freeze() waits
 *          until all have stopped.
 * Threads: one at a time.
 */
#ifndef JAIL_CGROUP_H
#define JAIL_CGROUP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "lib/base/compiler.h"
#include "lib/base/err.h"
#include "wire/keeper.h"

enum cgroup_controller {
    CGROUP_CPU = 1 << 0,
    CGROUP_MEMORY = 1 << 1,
    CGROUP_PIDS = 1 << 2,
    CGROUP_ALL = CGROUP_CPU | CGROUP_MEMORY | CGROUP_PIDS,
};

struct cgroup_limits {
    uint32_t cpu_millis; /* thousandths of one CPU: 1500 is a CPU and a half */
    uint32_t memory_mb;  /* without swap */
    uint32_t pids;
};

enum { CGROUP_MOUNTS_MAX = 4, CGROUP_MOUNT_PATH_BYTES = 256 };

struct cgroups;

must_check int cgroups_open(const char *instance, struct cgroups **out, struct err *err);
/* Removes atoll-<instance> when no jail is left in it. */
void cgroups_close(struct cgroups *groups);
uint32_t cgroups_lacks(const struct cgroups *groups);        /* KEEPER_LACKS_* */
bool cgroups_exists(struct cgroups *groups, const char *id); /* the v2 leaf of that jail */

/* Makes the leaves with their limits. Returns a descriptor of the v2 leaf, for CLONE_INTO_CGROUP.
 * -EEXIST when the jail has one already; on failure nothing is left. */
must_check int cgroups_create(struct cgroups *groups, const char *id,
                              const struct cgroup_limits *limits, struct err *err);

/* Descriptors for entering the v1 leaves, into which clone3() cannot put a process; or -1. */
struct cgroup_v1_files {
    int fds[CGROUP_MOUNTS_MAX];
};
#define CGROUP_V1_FILES_NONE ((struct cgroup_v1_files){{-1, -1, -1, -1}})

must_check int cgroups_v1_open(struct cgroups *groups, const char *id, struct cgroup_v1_files *out,
                               struct err *err);
void cgroups_v1_closep(struct cgroup_v1_files *v1_files);
/* Moves the calling process, which has one thread, into them. A process moves itself, because
 * moving another process holds up all control groups for an RCU grace period. */
must_check int cgroups_v1_enter(const struct cgroup_v1_files *v1_files, struct err *err);

/* The kernel sends SIGKILL to every process of the jail: none can be missed. 0 when the jail is
 * gone. */
must_check int cgroups_kill(struct cgroups *groups, const char *id, struct err *err);

/* Waits until every process of the jail is frozen. -EBUSY when that takes more than some seconds;
 * then they run again. Blocks. */
must_check int cgroups_freeze(struct cgroups *groups, const char *id, struct err *err);
/* Does nothing when the jail was not frozen, or is gone. */
void cgroups_thaw(struct cgroups *groups, const char *id);

/* Removes the leaves. -EBUSY, without a sentence, while processes are still exiting: wait for
 * POLLPRI on cgroups_events() and call again. 0 when the jail is gone. */
must_check int cgroups_remove(struct cgroups *groups, const char *id, struct err *err);

/* A descriptor that reports POLLPRI when the jail's last process has exited; -ENOENT without a
 * jail. */
must_check int cgroups_events(struct cgroups *groups, const char *id);

/* The kernel's id of the v2 leaf, which is never reused; 0 when there is none. */
uint64_t cgroups_number(struct cgroups *groups, const char *id);
/* The jail's memory limit in the kernel; 0 when it has none. */
uint64_t cgroups_memory_limit(struct cgroups *groups, const char *id);

/* A descriptor of the v2 leaf, or -errno. */
must_check int cgroups_leaf(struct cgroups *groups, const char *id);
/* The jail's first process, which is pid 1 inside. 0 when there is none. */
pid_t cgroups_first(struct cgroups *groups, const char *id);

/* Whether the process is in the jail's leaf. */
bool cgroups_holds(struct cgroups *groups, const char *id, pid_t pid);
/* Whether the leaf has any process. */
bool cgroups_populated(struct cgroups *groups, const char *id);

/* -ENOENT when there is no such jail. */
must_check int cgroups_usage(struct cgroups *groups, const char *id, struct keeper_usage *out,
                             struct err *err);

/* Only cpu and memory, with as few system calls as possible: for sampling many jails. */
must_check int cgroups_sample(struct cgroups *groups, const char *id, struct keeper_usage *out);

/* Calls each with the id of every jail that has a leaf. */
must_check int cgroups_each(struct cgroups *groups, void (*each)(void *ctx, const char *id),
                            void *ctx, struct err *err);

/* ---- groups for the keeper's own work on a jail (task.h): .<id> beside the jail's leaf ---- */

enum { CGROUP_TASK_BYTES = KEEPER_ID_BYTES + 8 };

/* Makes a group for work on that jail. Returns a descriptor of it, for CLONE_INTO_CGROUP. */
must_check int cgroups_task_make(struct cgroups *groups, const char *id,
                                 char name[CGROUP_TASK_BYTES], struct err *err);
/* The same for the pager of that jail (fill.h): .fill-<id>. It outlives the keeper, so the sweep
 * removes it only when it is empty. */
must_check int cgroups_fill_make(struct cgroups *groups, const char *id, struct err *err);
/* Kills all other processes of the group; the caller is in it. */
void cgroups_task_alone(struct cgroups *groups, const char *name);
/* Kills all processes of the group. */
void cgroups_task_kill(struct cgroups *groups, const char *name);
/* Removes empty groups. With patience_ms, first waits so long for their processes to finish, and
 * then kills them: a CRIU that is killed in the middle may harm the process it traces. */
void cgroups_task_sweep(struct cgroups *groups, int patience_ms);

/* ---- parts that need no kernel, for tests ---- */

struct cgroup_mounts {
    struct {
        unsigned controllers; /* CGROUP_*; 0 for the unified hierarchy */
        char path[CGROUP_MOUNT_PATH_BYTES];
    } at[CGROUP_MOUNTS_MAX]; /* the unified hierarchy is at[0]; its path is "" when not mounted */
    size_t n;
};

/* Parses the text of /proc/self/mountinfo. */
void cgroup_mounts_find(const char *mountinfo, struct cgroup_mounts *out);

/* Writes the limits of these controllers into an open leaf of either version. */
must_check int cgroup_limit(int dir_fd, bool v2, unsigned controllers,
                            const struct cgroup_limits *limits, struct err *err);

/* The number after "key " at the start of a line; 0 when the key is missing. */
uint64_t cgroup_stat_value(const char *text, const char *key);

#endif
