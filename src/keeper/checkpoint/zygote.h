/* zygote.h - processes of CRIU that have read the memory of one save, and from which any number of
 * jails are cloned: their pages are shared until one of them writes.
 *
 * A zygote is a cache. It is made while restores go on without it, it may be killed at any moment,
 * and a restore that cannot use it does the work itself. docs/internals/clones.md has the rules.
 *
 * Owns:    a process and a control group (.zygote-<n>) for each zygote, and the counts of restores.
 *          The processes end with the keeper.
 * Needs:   a CRIU with our patch (criu/), keeper_root.h entered, SIGCHLD ignored.
 * Blocks:  only zygote_await(), which is called in a task; zygote_use() forks.
 * Threads: one.
 */
#ifndef CHECKPOINT_ZYGOTE_H
#define CHECKPOINT_ZYGOTE_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "keeper/checkpoint/criu.h"
#include "keeper/jail/jail.h"
#include "lib/base/compiler.h"
#include "lib/base/err.h"

enum {
    ZYGOTES_MAX = 8,
    ZYGOTE_NAMES_MAX = 256,     /* saves whose restores are counted */
    ZYGOTE_FAILURES_MAX = 3,    /* then the save is always restored without one */
    ZYGOTE_TOTAL_SHARE = 4,     /* all together fill at most a quarter of the host's memory */
    ZYGOTE_RESERVE_SHARE = 8,   /* an eighth of it stays available when one is filled or used */
    ZYGOTE_PRESSURE_SHARE = 16, /* with less available, the one used longest ago is ended */
    ZYGOTE_IDLE_MS = 10 * 60 * 1000,
    ZYGOTE_FILL_MS = 60 * 1000, /* then it is given up */
    ZYGOTE_LOOK_MS = 1000,
    ZYGOTE_WAIT_MS = 5 * 1000, /* of a restore, for a zygote that is being filled */
};

/* ---- in the keeper ---- */

struct zygotes *zygotes_new(const struct criu_program *program);
void zygotes_free(struct jail_shared *shared);
/* In a process that was forked from the keeper and restores nothing: it has no zygotes. */
void zygotes_leave(struct jail_shared *shared);

/* Removes the groups that an earlier keeper left. */
void zygotes_sweep(struct cgroups *groups);

/* A jail is about to be restored from that save. Returns the socket of a zygote for zygote_ask(),
 * which stays the keeper's, or -1; and starts a zygote when one is worth it. `at_once`: other
 * restores from it are under way, so a zygote that is being filled is waited for. */
int zygote_use(struct jail_shared *shared, const char *name, bool at_once);

/* A restore from it has failed: it is ended, and after some failures not made again. */
void zygote_failed(struct jail_shared *shared, const char *name);

/* The save is about to be removed. */
void zygote_forget(struct jail_shared *shared, const char *name);

size_t zygotes_poll_n(const struct zygotes *zygotes);
size_t zygotes_poll(const struct zygotes *zygotes, struct pollfd *out);
void zygotes_step(struct jail_shared *shared);

/* ---- in a task that restores a jail ---- */

/* Asks for a CRIU that is in these groups and this mount namespace. */
must_check int zygote_ask(int zygote, int group_fd, const struct cgroup_v1_files *v1_files,
                          int mount_ns, struct criu *out, struct err *err);
/* Waits for it. On failure it is closed. */
must_check int zygote_await(struct criu *criu, struct err *err);

/* ---- for tests ---- */

struct zygote_memory {
    uint64_t total_bytes;
    uint64_t available_bytes;
};
/* Whether one of that size may be filled, or used, beside others that have so many bytes. */
bool zygote_fits(const struct zygote_memory *memory, uint64_t others_bytes, uint64_t bytes);
bool zygote_usable(const struct zygote_memory *memory, uint64_t bytes);
bool zygote_presses(const struct zygote_memory *memory);

#endif
