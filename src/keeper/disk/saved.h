/* saved.h - what was kept of jails: <pool>/saved/<name>.
 *
 *   disk/     as the jail's disk was: a read-only snapshot, or a copy of upper/
 *   memory/   the processes, when they were wanted too
 *   charge    what of it counts when the sandbox goes on with it (charge.h)
 *
 * One that is being made, or being removed, has a name that begins with a dot; the one rename that
 * takes the dot away comes when all is there, and on the disk if that was asked for. So whatever
 * ends early leaves a whole one or none, and saved_sweep() removes the rest.
 *
 * Owns:    what is below <pool>/saved.
 * Blocks:  for the disk: saved_disk_take() and saved_commit() as long as it takes.
 * Threads: one at a time for each name.
 */
#ifndef DISK_SAVED_H
#define DISK_SAVED_H

#include <stdbool.h>

#include "keeper/disk/pool.h"
#include "lib/base/compiler.h"
#include "lib/base/err.h"

#define SAVED_DISK "disk"
#define SAVED_MEMORY "memory"

/* Begins one. Returns a descriptor of its directory. -EEXIST when that name is taken. */
must_check int saved_begin(struct pool *pool, const char *name, struct err *err);
bool saved_exists(struct pool *pool, const char *name);
/* Into it, the disk of a jail that stands still; `stop`: and does not go on with that disk. */
must_check int saved_disk_take(struct pool *pool, int begun_fd, const char *id, bool stop,
                               struct err *err);
/* Gives it its name. With `sync` it is on the disk before it has it, and the name is, after.
 * `begun_fd` is what saved_begin() gave: through a descriptor that is older than the first byte the
 * kernel tells of every write that failed since, whoever else syncs meanwhile. */
must_check int saved_commit(struct pool *pool, int begun_fd, const char *name, bool sync,
                            struct err *err);
/* One that was begun; whether it was given its name makes no difference. */
void saved_abandon(struct pool *pool, const char *name);

/* A descriptor of its directory; -ENOENT with a sentence when there is none. */
must_check int saved_open(struct pool *pool, const char *name, struct err *err);
/* A disk for a new jail that begins as the saved one, without a limit until pool_disk_bound(). Slow
 * where the pool is not on btrfs. */
must_check int saved_disk_copy(struct pool *pool, const char *name, const char *id,
                               struct err *err);

/* Fine when gone. */
must_check int saved_forget(struct pool *pool, const char *name, struct err *err);
must_check int saved_each(struct pool *pool, void (*each)(void *ctx, const char *name), void *ctx,
                          struct err *err);
/* Removes what was left half made or half removed. When nobody is at it. */
void saved_sweep(struct pool *pool);

#endif
