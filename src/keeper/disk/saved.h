/* saved.h - saves of jails: <pool>/saved/<name>.
 *
 *   disk/     the jail's disk: a read-only snapshot, or a copy of upper/
 *   memory/   the checkpoint of its processes, if it was wanted
 *   charge    the part of it that counts when the sandbox continues with it (charge.h)
 *
 * A save that is being made or removed has a name that begins with a dot. One rename removes the
 * dot when everything is there, and on the disk if that was asked for. So an interruption leaves a
 * complete save or none, and saved_sweep() removes the rest.
 *
 * Owns:    everything below <pool>/saved.
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

/* Begins a save. Returns a descriptor of its directory. -EEXIST when the name is taken. */
must_check int saved_begin(struct pool *pool, const char *name, struct err *err);
bool saved_exists(struct pool *pool, const char *name);
/* Adds the disk of a frozen jail; `stop`: the jail does not continue with that disk. */
must_check int saved_disk_take(struct pool *pool, int begun_fd, const char *id, bool stop,
                               struct err *err);
/* Gives the save its name. With `sync` its data is on the disk before that, and the name
 * afterwards. `begun_fd` is the descriptor of saved_begin(): the kernel reports every failed write
 * since it was opened through it, even if another process syncs meanwhile. */
must_check int saved_commit(struct pool *pool, int begun_fd, const char *name, bool sync,
                            struct err *err);
/* Removes a save that was begun, whether or not it has its name already. */
void saved_abandon(struct pool *pool, const char *name);

/* A descriptor of the save's directory; -ENOENT with a sentence when there is none. */
must_check int saved_open(struct pool *pool, const char *name, struct err *err);
/* Makes a disk for a new jail as a copy of the saved one, without a limit until pool_disk_bound().
 * Slow where the pool is not on btrfs. */
must_check int saved_disk_copy(struct pool *pool, const char *name, const char *id,
                               struct err *err);

/* Removes a save; 0 when it is gone already. */
must_check int saved_forget(struct pool *pool, const char *name, struct err *err);
must_check int saved_each(struct pool *pool, void (*each)(void *ctx, const char *name), void *ctx,
                          struct err *err);
/* Removes saves that were left half made or half removed. Call it when no one works on them. */
void saved_sweep(struct pool *pool);

#endif
