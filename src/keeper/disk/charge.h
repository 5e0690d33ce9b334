/* charge.h - which bytes count against a disk's limit, over pauses, snapshots and forks.
 *
 * Full quotas of btrfs count what a disk holds, and nothing is to be done. Simple quotas charge
 * data to the subvolume that wrote it, and a jail that is restored has a new subvolume.
 *
 * A paused sandbox keeps a quota group, one level above. All subvolumes that it has had are
 * members, and the limit is that group's. The data of a removed subvolume stays charged to the
 * group for as long as it is held, and is given back when it is deleted.
 *
 * A copy of another's disk has a group of its own. The data that it starts with is charged to
 * others: it is measured once for each save, and counts beside the group's bytes.
 *
 * The kernel gives nothing back when a disk deletes data that its copy still holds, or a copy the
 * data that it started with. A disk that shares much, or comes near to its limit, is measured anew
 * while it changes (charge_check()).
 *
 * used = bytes of the group + bytes beside it; limit of the group = limit - bytes beside it.
 *
 * A record of it is in <pool>/charges/<id> for a jail's disk and in <pool>/saved/<name>/charge for
 * a paused one, neither of them on a disk that has a limit. A disk without a record is new, and its
 * own group counts; a copy without one was made by an earlier release.
 *
 * Owns:    <pool>/charges; charge and size in a save.
 * Needs:   root. Blocks for the disk; to measure, as long as the tenant's files take.
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
#define CHARGE_SIZE "size"    /* likewise: what was measured of its disk */

struct charge {
    char id[KEEPER_ID_BYTES];
    uint64_t group;       /* that of the disk itself, or one with all that this sandbox has had */
    int64_t beside_bytes; /* less than 0 when others hold what this one has deleted */
    uint64_t limit_bytes;
    uint64_t shared_bytes; /* at most so many are held by others, too: deleting them is not seen */
    uint64_t generation;   /* of the disk when it was measured */
    uint32_t took_ms;      /* to measure it */
};

/* False when there is no record, as with full quotas. */
bool charge_read(struct pool *pool, const char *id, struct charge *out);
uint64_t charge_used(int disk_fd, const struct charge *charge);

/* Before the disk is saved into saved/.<name>, which begun_fd is. *group is that of which the saved
 * one becomes a member, or 0. */
must_check int charge_keep(struct pool *pool, int disk_fd, const char *id, bool stop, int begun_fd,
                           uint64_t *group, struct err *err);
/* What a disk for that jail begins with, as a copy of saved/<name>/disk; group 0: its own. The
 * limit of any other group is taken away. */
must_check int charge_inherit(struct pool *pool, int saved_fd, int saved_disk_fd, const char *id,
                              struct charge *out, struct err *err);
/* Records it for the disk of that jail. */
must_check int charge_begin(struct pool *pool, const struct charge *charge, struct err *err);

/* Takes the limit away, for what must be written before the jail runs, and sets it. */
must_check int charge_lift(struct pool *pool, int disk_fd, const char *id);
must_check int charge_bound(struct pool *pool, int disk_fd, const char *id, uint64_t limit_bytes);

/* Has the disk measured in a process of its own if that may give room. Needs SIGCHLD to be
 * ignored. */
void charge_check(struct pool *pool, const char *id);
/* Measures it now. */
must_check int charge_measure(struct pool *pool, const char *id);

void charge_remove(struct pool *pool, const char *id);

#endif
