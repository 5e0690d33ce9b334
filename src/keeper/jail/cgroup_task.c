#include "keeper/jail/cgroup.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "keeper/jail/cgroup_tree.h"
#include "lib/base/clock.h"
#include "lib/base/small_file.h"

#define FILL ".fill-"

enum {
    TASKS_MAX = 8, /* groups of one jail whose processes are still exiting */
    SWEEP_TRIES = 1000,
    SWEEP_POLL_MS = 2,
};

/* Each group is new. Kernels since 6.14 kill a process that is started in a group in which
 * processes were killed before: they compare a counter of the group with that of the starter's
 * group. The last process of an older group may still be exiting. */
int cgroups_task_make(struct cgroups *groups, const char *id, char name[CGROUP_TASK_BYTES],
                      struct err *err)
{
    const int dir_fd = groups->at[0].dir_fd;

    for (int i = 0; i < TASKS_MAX; i++) {
        (void)snprintf(name, CGROUP_TASK_BYTES, i ? ".%s~%d" : ".%s", id, i);
        (void)unlinkat(dir_fd, name, AT_REMOVEDIR);
        if (mkdirat(dir_fd, name, 0755) == 0) {
            int fd = cgroup_leaf_open(&groups->at[0], name);
            return fd < 0 ? err_sys(err, "open the control group %s", name) : fd;
        }
        if (errno != EEXIST) {
            return err_sys(err, "make a control group for work on jail %s", id);
        }
    }
    return err_set(err, EBUSY, "earlier work on jail %s does not end", id);
}

int cgroups_fill_make(struct cgroups *groups, const char *id, struct err *err)
{
    const int dir_fd = groups->at[0].dir_fd;
    char name[CGROUP_TASK_BYTES];

    (void)snprintf(name, sizeof(name), FILL "%s", id);
    (void)unlinkat(dir_fd, name, AT_REMOVEDIR);
    int fd = mkdirat(dir_fd, name, 0755) < 0 ? -1 : cgroup_leaf_open(&groups->at[0], name);
    return fd < 0 ? err_sys(err, "make a control group for the pager of jail %s", id) : fd;
}

void cgroups_task_alone(struct cgroups *groups, const char *name)
{
    char file[CGROUP_TASK_BYTES + 16], text[CGROUP_STAT_BYTES];

    (void)snprintf(file, sizeof(file), "%s/cgroup.procs", name);
    (void)small_file_read(groups->at[0].dir_fd, file, text, sizeof(text));
    for (char *at = text; *at; at += *at == '\n') {
        pid_t pid = (pid_t)strtol(at, &at, 10);
        if (pid > 1 && pid != getpid()) {
            (void)kill(pid, SIGKILL);
        }
    }
}

void cgroups_task_kill(struct cgroups *groups, const char *name)
{
    struct err err;

    (void)!cgroups_kill(groups, name, &err);
}

struct sweep {
    struct cgroups *groups;
    int64_t patient_until_ms; /* 0: one attempt */
};

/* True when the group is gone. */
static bool sweep_try(const struct sweep *sweep, const char *name)
{
    return unlinkat(sweep->groups->at[0].dir_fd, name, AT_REMOVEDIR) == 0 || errno != EBUSY;
}

static void sweep_one(void *ctx, const char *name)
{
    const struct sweep *sweep = ctx;
    struct err err;

    if (strncmp(name, FILL, sizeof(FILL) - 1) == 0) {
        (void)sweep_try(sweep, name);
        return;
    }
    while (!sweep_try(sweep, name) && clock_mono_ms() < sweep->patient_until_ms) {
        (void)poll(NULL, 0, SWEEP_POLL_MS);
    }
    if (!sweep->patient_until_ms) {
        return;
    }
    for (int i = 0; i < SWEEP_TRIES && !sweep_try(sweep, name); i++) {
        (void)!cgroups_kill(sweep->groups, name, &err);
        (void)poll(NULL, 0, SWEEP_POLL_MS);
    }
}

void cgroups_task_sweep(struct cgroups *groups, int patience_ms)
{
    struct sweep sweep = {groups, patience_ms ? clock_mono_ms() + patience_ms : 0};
    struct err err;

    (void)!cgroup_names_each(groups, true, sweep_one, &sweep, &err);
}
