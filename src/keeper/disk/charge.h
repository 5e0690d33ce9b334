/* charge.h - which bytes count against a disk's limit, over pauses, snapshots and forks.
 *
 * With full quotas, btrfs counts what a disk holds, and there is nothing to do. Simple quotas
 * charge data to the subvolume that wrote it, and a restored jail has a new subvolume.
 *
 * A paused sandbox keeps a quota group, one level above. All its subvolumes so far are members, and
 * the group has the limit. Data of a removed subvolume stays charged to the group while something
 * holds it, and is given back when it is deleted.
 *
 * A copy of another disk has its own group. Its initial data is charged to others: it is measured
 * once for each save, and counts beside the bytes of the group.
 *
 * The kernel gives nothing back when a disk deletes data that its copy still holds, or when a copy
 * deletes its initial data. A disk that shares much, or comes near to its limit, is measured again
 * while it changes (charge_check()).
 *
 * used = bytes of the group + bytes beside it; limit of the group = limit - bytes beside it.
 *
 * The record is in <pool>/charges/<id> for a jail's disk and in <pool>/saved/<name>/charge for a
 * paused one; neither is on a disk that has a limit. A disk without a record is new, and its own
 * group counts; a copy without one was made by an earlier release.
 *
 * Owns:    <pool>/charges; charge and size in a save.
 * Needs:   root.
 * Blocks:  for the disk; measuring takes as long as the tenant's files need.
 * Threads: one for each disk.
 */
#ifndef DISK_CHARGE_H
#define DISK_CHARGE_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/compiler.h"
#include "lib/base/err.h"
#include "wire/keeper.h"

struct pool;

#define CHARGE_DIR "charges"
#define CHARGE_SAVED "charge" /* in saved/<name> */
#define CHARGE_SIZE "size"    /* likewise: the measured size of its disk */

struct charge {
    char id[KEEPER_ID_BYTES];
    uint64_t group;       /* of the disk itself, or of all disks that this sandbox has had */
    int64_t beside_bytes; /* negative when others hold data that this disk has deleted */
    uint64_t limit_bytes;
    uint64_t shared_bytes; /* the most that others hold too: deleting that is not noticed */
    uint64_t generation;   /* of the disk at the last measurement */
    uint32_t took_ms;      /* duration of the measurement */
};

/* False without a record, as with full quotas. */
bool charge_read(struct pool *pool, const char *id, struct charge *out);
uint64_t charge_used(int disk_fd, const struct charge *charge);

/* Called before the disk is saved into saved/.<name>, whose descriptor is begun_fd. *group is the
 * group that the save joins, or 0. */
must_check int charge_keep(struct pool *pool, int disk_fd, const char *id, bool stop, int begun_fd,
                           uint64_t *group, struct err *err);
/* The first record of a disk for that jail that is a copy of saved/<name>/disk; group 0: its own.
 * Removes the limit of any other group. */
must_check int charge_inherit(struct pool *pool, int saved_fd, int saved_disk_fd, const char *id,
                              struct charge *out, struct err *err);
/* Stores the record for the disk of that jail. */
must_check int charge_begin(struct pool *pool, const struct charge *charge, struct err *err);

/* Removes the limit, for data that must be written before the jail runs; and sets it. */
must_check int charge_lift(struct pool *pool, int disk_fd, const char *id);
must_check int charge_bound(struct pool *pool, int disk_fd, const char *id, uint64_t limit_bytes);

/* Measures the disk in a process of its own if that may give room. Needs SIGCHLD to be ignored. */
void charge_check(struct pool *pool, const char *id);
/* Measures it now. */
must_check int charge_measure(struct pool *pool, const char *id);

void charge_remove(struct pool *pool, const char *id);

#endif
