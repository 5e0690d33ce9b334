#include "keeper/checkpoint/save.h"

#include <errno.h>
#include <stdbool.h>

#include "keeper/checkpoint/alone.h"
#include "keeper/checkpoint/dump.h"
#include "keeper/checkpoint/reason.h"
#include "keeper/checkpoint/task.h"
#include "keeper/disk/saved.h"
#include "lib/base/clock.h"
#include "lib/base/fd.h"

/* Saves the disk as it is between two system calls of the jail: files that are being written may be
 * incomplete, as after a crash. */
static int disk_save(struct jail_shared *shared, const char *id, const struct keeper_save *save,
                     int begun_fd, struct keeper_saved *out, struct err *err)
{
    const bool stop = save->flags & KEEPER_SAVE_STOP;

    if (!cgroups_populated(shared->groups, id)) {
        return saved_disk_take(shared->pool, begun_fd, id, stop, err);
    }
    int64_t from_us = clock_mono_us();
    int r = cgroups_freeze(shared->groups, id, err);
    if (r < 0) {
        return r;
    }
    r = saved_disk_take(shared->pool, begun_fd, id, stop, err);
    if (r < 0 || !stop) {
        cgroups_thaw(shared->groups, id);
        out->frozen_usec = (uint64_t)(clock_mono_us() - from_us);
    }
    return r;
}

static int parts_save(struct jail_shared *shared, const char *id, const struct keeper_save *save,
                      int begun_fd, int fds[KEEPER_FDS_MAX], struct keeper_saved *out,
                      struct err *err)
{
    if (save->flags & KEEPER_SAVE_ALONE) {
        return alone_save(shared, id, begun_fd, fds, out, err);
    }
    return save->flags & KEEPER_SAVE_MEMORY ? dump_jail(shared, id, save, begun_fd, out, err)
                                            : disk_save(shared, id, save, begun_fd, out, err);
}

int save_jail(struct jail_shared *shared, const char *id, const struct keeper_save *save,
              int fds[KEEPER_FDS_MAX], struct keeper_saved *out, struct err *err)
{
    if (save->flags & KEEPER_SAVE_LOOK) {
        scoped_fd group = cgroups_leaf(shared->groups, id);
        int seen = group < 0 ? 0 : reason_running(group, err);
        return seen < 0 ? err_wrap(err, "save jail %s", id) : 0;
    }
    task_orderly(NULL, NULL); /* a frozen jail must be thawed before this process ends */
    scoped_fd begun = saved_begin(shared->pool, save->name, err);
    if (begun < 0) {
        return begun;
    }
    int r = parts_save(shared, id, save, begun, fds, out, err);
    if (r == 0 && fds[KEEPER_FD_DISK] >= 0) {
        saved_abandon(shared->pool, save->name); /* it is not needed */
    } else if (r == 0) {
        r = saved_commit(shared->pool, begun, save->name, save->flags & KEEPER_SAVE_SYNC, err);
    }
    if (r < 0) {
        cgroups_thaw(shared->groups, id);
        saved_abandon(shared->pool, save->name);
        return err_wrap(err, "save jail %s", id);
    }
    out->disk_bytes = pool_disk_bytes(shared->pool, id);
    return 0;
}
