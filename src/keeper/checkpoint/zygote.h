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
    ZYGOTE_NAMES_MAX = 256,  /* saves whose restores are counted */
    ZYGOTE_FAILURES_MAX = 3, /* then the save is restored without one, for so long: */
    ZYGOTE_FORGIVE_MS = 10 * 60 * 1000,
    ZYGOTE_TOTAL_SHARE = 4,     /* all together fill at most a quarter of the host's memory */
    ZYGOTE_FILL_SHARE = 8,      /* an eighth of it stays available when one is filled, */
    ZYGOTE_START_SHARE = 32,    /* and this part when a jail starts, besides the reserve */
    ZYGOTE_PRESSURE_SHARE = 16, /* with less besides it, the one used longest ago is ended */
    ZYGOTE_WRITE_SHARE = 4, /* the reserve: this part of what the clones share, they may write */
    ZYGOTE_FILL_MS = 60 * 1000, /* then it is given up */
    ZYGOTE_LOOK_MS = 1000,
    ZYGOTE_COUNT_MS = 5 * 1000,   /* between two counts of all clones */
    ZYGOTE_ABSENT_MS = 10 * 1000, /* until a program that was not there is looked for again */
    ZYGOTE_WAIT_MS = 5 * 1000,    /* of a restore, for a zygote that is being filled, */
    ZYGOTE_WAIT_MS_PER_MB = 10,   /* and for each MB that it has to read */
};

/* A restore's permission to use a zygote. */
struct zygote_ticket {
    int socket;      /* for zygote_ask(); it stays the keeper's. -1: restore without one */
    uint64_t bytes;  /* that it has */
    bool fills;      /* it is still being filled */
    bool used, lost; /* set by the restore: it is a clone; the zygote did not answer */
};
#define ZYGOTE_TICKET_NONE ((struct zygote_ticket){.socket = -1})

/* ---- in the keeper ---- */

/* Without a program (its path is ""), one is looked for whenever a zygote is to be made: it may be
 * built while the keeper runs. */
struct zygotes *zygotes_new(const struct criu_program *program, uint32_t idle_s);
void zygotes_free(struct jail_shared *shared);
/* In a process that was forked from the keeper and restores nothing: it has no zygotes. */
void zygotes_leave(struct jail_shared *shared);

/* Removes the groups that an earlier keeper left. */
void zygotes_sweep(struct cgroups *groups);

/* A save was made. If many jails will start from it, its zygote is started. */
void zygote_prepare(struct jail_shared *shared, const char *name);

/* A jail is about to be restored from that save: says whether by a zygote, and starts one when it
 * is worth it. `at_once`: other restores from it are under way, so a zygote that is being filled is
 * waited for. -ENOMEM when the host's memory is needed for what clones may still write. */
must_check int zygote_use(struct jail_shared *shared, const char *name, bool at_once,
                          struct zygote_ticket *out, struct err *err);

/* A restore from it has failed: it is ended, and after some failures not made again. */
void zygote_failed(struct jail_shared *shared, const char *name);
/* It did not answer a restore: it is ended, unless it is still being filled. */
void zygote_lost(struct jail_shared *shared, const char *name);

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
must_check int zygote_await(struct criu *criu, const struct zygote_ticket *ticket, struct err *err);

/* ---- for tests ---- */

struct zygote_memory {
    uint64_t total_bytes;
    uint64_t available_bytes;
    uint64_t reserved_bytes; /* for what the clones that live may write */
};
/* Whether one of that size may be filled beside others that have so many bytes. */
bool zygote_fits(const struct zygote_memory *memory, uint64_t others_bytes, uint64_t bytes);
/* Whether a jail may start that takes so many bytes, or will write so many. */
bool zygote_start_fits(const struct zygote_memory *memory, uint64_t bytes);
bool zygote_presses(const struct zygote_memory *memory);

#endif
