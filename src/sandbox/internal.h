/* internal.h - what the files of sandbox/ share.
 *
 *   sandbox.c    the object itself: made from a plan or a row, described, watched
 *   record.c     its row and the event that goes with every change of it
 *   table.c      where they are kept: by id, and in the order of lists
 *   slots.c      which uid ranges are in use
 *   channel.c    the daemon's end of the socket to a jail's agent
 *   attach.c     sockets into the jail; the channel made anew when it broke
 *   init.c       POST /init: what the agent is told
 *   create.c     STARTING
 *   lifecycle.c  timeouts, death, kill
 *   doom.c       jails that must go, until the keeper says they are gone
 *   adopt.c      the start of the daemon: the table against what is alive
 *
 * Lifetime: a sandbox is counted (sandbox_hold, sandbox_release). The table holds one count, each
 * handle that libuv has not closed yet and each question to the keeper or the store another. A
 * callback that finds its sandbox in SANDBOX_KILLING only gives its count back.
 */
#ifndef SANDBOX_INTERNAL_H
#define SANDBOX_INTERNAL_H

#include "base/table.h"
#include "sandbox/channel.h"
#include "sandbox/sandbox.h"

enum {
    SANDBOX_LIST_MAX = 2 * KEEPER_UID_SLOTS, /* entries of KEEPER_LIST that are looked at */
    SANDBOX_ADOPT_WINDOW = 64,               /* ATTACH requests under way at start */
    SANDBOX_DIAL_TRIES = 2,                  /* the second on a channel made anew */
    SANDBOX_ATTACH_WAIT_MS = 5000,           /* of a dial: adoption, or a keeper started again */
    SANDBOX_DESTROY_RETRY_MS = 1000,
    SANDBOX_DESTROY_TRIES = 60,
    SANDBOX_RECORD_RETRY_MS = 1000, /* an end that the store could not take is given again */
};

/* ---- table.c ---- */

struct table {
    struct sandbox *by_id;  /* all but KILLING */
    struct sandbox **order; /* RUNNING and PAUSED, by (created_ms, id), ascending */
    size_t n, cap;
    uint64_t changes; /* of order: an iteration that sees it move looks its place up again */
};

void table_fini(struct table *table);
void table_add(struct table *table, struct sandbox *sb);  /* to by_id */
void table_show(struct table *table, struct sandbox *sb); /* to the lists */
void table_remove(struct table *table, struct sandbox *sb);
struct sandbox *table_find(const struct table *table, struct str id);
void table_each(struct table *table, bool ascending, const struct sandbox_position *after,
                bool (*each)(void *ctx, struct sandbox *sb), void *ctx);

/* ---- slots.c ---- */

struct slots {
    uint64_t used[KEEPER_UID_SLOTS / 64];
    uint32_t next; /* ranges come round late, so that a stray owner is not soon another's */
};

enum { SLOT_NONE = UINT32_MAX };

/* Where the first range is taken: daemons that know nothing of each other rarely meet. */
void slots_begin(struct slots *slots, const char *instance);
uint32_t slots_take(struct slots *slots); /* SLOT_NONE when all are in use */
void slots_mark(struct slots *slots, uint32_t slot);
void slots_give(struct slots *slots, uint32_t slot); /* fine for SLOT_NONE */

/* ---- the objects ---- */

enum adoption { ADOPT_WAITING, ADOPT_ATTACHING, ADOPT_LISTING, ADOPT_READY };

struct doomed;
struct dial;
struct ending;
struct start;

struct sandboxes {
    struct sandboxes_options use;
    void (*ready)(void *ctx);
    void *ready_ctx;
    uint32_t refs;
    bool closed; /* sandboxes_free() was called */

    struct table table;
    struct slots slots;
    struct start *waiting; /* creates that came before ADOPT_READY, or while the keeper is away */
    struct doomed *doomed;
    uv_timer_t doom_timer;
    struct ending *unrecorded; /* ends that the store has refused so far */
    uv_timer_t record_timer;

    enum adoption adoption;
    struct sandbox_position adopt_cursor;
    uint32_t attaching_n;
    uint32_t list_index;

    uint64_t created, create_failed;
    uint64_t dials, dials_failed;
    uint64_t ended[SANDBOX_REASONS];
};

struct sandbox {
    struct sandboxes *all;
    UT_hash_handle hh;
    uint32_t refs;
    enum sandbox_state state;
    char id[ID_SANDBOX_LEN + 1];
    char *team_id, *template_id, *template_alias, *build_id, *access_token;
    json_t *metadata, *env_vars, *options;
    json_t *init; /* what /init is told besides: envVars, defaultUser, defaultWorkdir */
    int64_t started_ms, end_ms, created_ms;
    uint32_t cpu_count, memory_mb, disk_mb;

    uint32_t uid_slot;
    struct keeper_jail jail;
    int pidfd; /* -1: none yet */
    uv_poll_t pidfd_poll;
    struct agent_channel *channel;  /* NULL: not attached */
    struct options_change *changes; /* that the agent is being told of */
    struct egress_net *net;         /* NULL: not attached, or loopback alone */
    bool attaching;
    bool init_due;      /* adopted: the daemon before may have died between the row and /init */
    struct dial *dials; /* those that wait for a channel */

    uv_timer_t timer; /* STARTING: patience; RUNNING: end of life */
    int64_t deadline_mono_ms;
    uint32_t oom_kills;  /* as last heard of */
    struct start *start; /* STARTING only */
    struct sandbox_watch *watches;
};

void sandboxes_release(struct sandboxes *all);

/* ---- sandbox.c ---- */

struct sandbox *sandbox_new(struct sandboxes *all); /* one count, for the table; not in it yet */
void sandbox_hold(struct sandbox *sb);
void sandbox_release(struct sandbox *sb);
bool sandbox_load(struct sandbox *sb, const struct sandbox_row *row); /* false: no valid id */

void sandboxes_count_end(struct sandboxes *all, const char *reason);

/* ---- record.c ---- */

enum sandbox_change {
    CHANGE_CREATED,
    CHANGE_UPDATED,
    CHANGE_PAUSED,
    CHANGE_RESUMED,
    CHANGE_SNAPSHOTTED,
    CHANGE_KILLED,
};

/* The row as it is now, and the event of what changed, as one. The change says which state the row
 * gets. reason: why it was killed, else NULL. A NULL done: a failure is logged. */
void sandbox_save(struct sandbox *sb, enum sandbox_change change, const char *reason,
                  store_done *done, void *ctx);

/* Records the end for good: what the store refuses is given again until it takes it. `done` (may be
 * NULL) comes once, with what the first try said. */
void sandbox_record_end(struct sandbox *sb, const char *reason, store_done *done, void *ctx);
void record_free(struct sandboxes *all);

/* ---- attach.c ---- */

/* Moves out of fds what it can use: a pidfd and a network are taken once, a channel each time. */
void sandbox_take_jail(struct sandbox *sb, int fds[KEEPER_FDS_MAX]);
void sandbox_attach(struct sandbox *sb);
void sandbox_fail_dials(struct sandbox *sb, int error);

/* ---- init.c ---- */

/* Calls done once, with 0 or -errno and the sentence; also when the sandbox ended meanwhile. */
void sandbox_init_agent(struct sandbox *sb,
                        void (*done)(struct sandbox *sb, int error, const struct err *err));

/* ---- create.c ---- */

void start_fail(struct sandbox *sb, int error, const struct err *err);
void start_timeout(struct sandbox *sb);
void start_drop(struct sandbox *sb); /* the daemon is going away; a jail that is there stays */
void start_waiting(struct sandboxes *all); /* starts those that wait */

/* ---- lifecycle.c ---- */

/* Out of the table, watches called, descriptors and timer closed. What remains is the jail. Gives
 * the table's count back. */
void sandbox_leave(struct sandbox *sb);
void sandbox_close(struct sandbox *sb); /* the same for one that is not in the table */
void sandbox_died(struct sandbox *sb);
void sandbox_arm(struct sandbox *sb); /* the timer, from end_ms */
void sandbox_on_timer(uv_timer_t *timer);

/* ---- doom.c ---- */

/* Has the keeper destroy a jail, however long the keeper stays away; then frees the slot. */
void doom(struct sandboxes *all, const char *id, const struct keeper_jail *jail, uint32_t slot);
void doom_resend(struct sandboxes *all);
bool doom_has(const struct sandboxes *all, const char *id);
void doom_free(struct sandboxes *all);

/* ---- adopt.c ---- */

void adopt_start(struct sandboxes *all);
void adopt_pump(struct sandboxes *all); /* an ATTACH was answered */

#endif
