/* internal.h - shared by the files of sandbox/.
 *
 *   sandbox.c        the object itself: made from a plan or a row, described, watched
 *   states.c         states and phases, and which may follow which
 *   record.c         its row, and the event of every change
 *   table.c          all sandboxes: by id, and in the order of lists
 *   usage_sums.c     sums for each team and each API key; sandboxes by idempotency key
 *   slots.c          which uid ranges are in use
 *   channel.c        the daemon's end of the socket to a jail's agent
 *   jail_tcp.c       TCP connections into a jail's network
 *   dial.c           connections to a port inside, for callers; they wait while there is no channel
 *   jail.c           the daemon's hold on a jail: channel, network, watch for its death
 *   preconnect.c     connections to the agent of a parked jail, made before a caller needs them
 *   init.c           POST /init: the agent's configuration
 *   describe.c       what a new sandbox is made of
 *   create.c         STARTING, PARKING and RESUMING: a jail is made, or a parked one claimed
 *   parked.c         parked jails: claimed, refilled, ended
 *   demand.c         how many parked jails there should be
 *   plan.c           what the keeper is asked to make
 *   save.c           a jail is saved: what pause, snapshot and fork share
 *   save_as.c        a running jail is saved under a name that the caller chose
 *   pause.c          PAUSING, PAUSED
 *   resume.c         callers that want a paused sandbox back
 *   snapshot.c       a running sandbox as a template
 *   fork.c           copies of a running sandbox
 *   alone.c          their save, where the agent is the only process
 *   saved.c          the saves that the keeper has: found, held, removed
 *   pack.c           the memory of paused sandboxes is compressed
 *   run.c            a command inside, through the agent
 *   start_command.c  the template's own command, until it is ready
 *   prestart.c       built-in templates, saved with their start command running
 *   lifecycle.c      timeouts, death, kill
 *   destroy.c        the destroy queue: jails that the keeper must destroy
 *   service.c        a jail for the daemon's own work on a volume
 *   adopt.c          the start of the daemon: the table against what is alive
 *
 * Lifetime: a sandbox is counted (sandbox_hold, sandbox_release). The table holds one count, each
 * handle that libuv has not closed yet and each question to the keeper or the store another. A
 * callback that finds its sandbox in SANDBOX_KILLING only gives its count back.
 */
#ifndef SANDBOX_INTERNAL_H
#define SANDBOX_INTERNAL_H

#include "lib/base/table.h"
#include "serve/sandbox/channel.h"
#include "serve/sandbox/sandbox.h"
#include "serve/sandbox/states.h"

enum {
    SANDBOX_ADOPT_WINDOW = 64,     /* ATTACH requests under way at start */
    SANDBOX_DIAL_TRIES = 2,        /* the second on a channel made anew */
    SANDBOX_ATTACH_WAIT_MS = 5000, /* of a dial: adoption, or a keeper started again */
    SANDBOX_DESTROY_RETRY_MS = 1000,
    SANDBOX_DESTROY_TRIES = 60,
    SANDBOX_RECORD_RETRY_MS = 1000,     /* an end that the store could not take is given again */
    SANDBOX_PAUSE_RETRY_MS = 10 * 1000, /* one whose time is up, and which could not be paused */
};

/* ---- table.c ---- */

struct table {
    struct sandbox *by_id;  /* all but KILLING */
    struct sandbox **order; /* all but STARTING, by (created_ms, id), ascending */
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

/* ---- usage_sums.c ---- */

enum { USAGE_KEY_BYTES = 512 }; /* a team, a blank, and the longest key that the API takes */

/* The part of a sandbox in the sums of its team and its API key. No padding: compared as bytes. */
struct usage_part {
    uint32_t alive, running, paused; /* 0 or 1 */
    uint32_t cpus;
    uint64_t memory_mb, disk_bytes;
};

/* Call it when the sandbox is new in the table, or when its state or its save has changed. */
void usage_sums_update(struct sandbox *sb);
void usage_sums_free(struct sandboxes *all);

/* ---- slots.c ---- */

struct slots {
    uint64_t used[KEEPER_UID_SLOTS / 64];
    uint32_t next; /* ranges come round late, so that a stray owner is not soon another's */
};

enum { SLOT_NONE = UINT32_MAX };

/* Chooses where the first range is taken: daemons that do not know each other rarely choose the
 * same. */
void slots_begin(struct slots *slots, const char *instance);
uint32_t slots_take(struct slots *slots); /* SLOT_NONE when all are in use */
void slots_mark(struct slots *slots, uint32_t slot);
void slots_give(struct slots *slots, uint32_t slot); /* fine for SLOT_NONE */

/* ---- the objects ---- */

struct destroying;
struct dial;
struct ending;
struct joiner;
struct parking;
struct preconnect;
struct prestarted;
struct save;
struct saved;
struct start;
struct account;

struct sandboxes {
    struct sandboxes_options use;
    void (*ready)(void *ctx);
    void *ready_ctx;
    uint32_t refs;
    bool closed; /* sandboxes_free() was called */

    struct table table;
    int64_t in_state[SANDBOX_STATES]; /* how many came less how many left, without internal ones */
    struct account *accounts;         /* teams and keys, by id */
    struct sandbox *by_key;           /* those that a create with a key has made */
    struct slots slots;
    struct start *waiting; /* creates that came before ADOPT_READY, or while the keeper is away */
    struct destroying *destroying; /* the destroy queue */
    struct saved *saved; /* saves that are in use, to be removed, or were found at the start */
    uv_timer_t destroy_timer;
    struct ending *unrecorded; /* ends that the store has refused so far */
    uv_timer_t record_timer;
    struct prestarted *prestarted; /* the built-in templates */
    bool prestarting;              /* one of them runs, to be saved */
    uv_timer_t prestart_timer;     /* until the next try */
    uv_timer_t pack_timer;
    bool packing; /* the keeper compresses the memory of one of them */
    struct parking *parking;
    struct preconnect *preconnects; /* of claimed ones */
    uint32_t making_n;              /* jails that the keeper makes while a caller waits */
    int64_t created_ms;             /* of the newest sandbox */

    enum adoption adoption; /* adopt_set_phase() alone writes it */
    struct sandbox_position adopt_cursor;
    uint32_t attaching_n;
    char list_after[KEEPER_ID_BYTES];

    uint64_t created, create_failed;
    uint64_t pauses, pauses_failed, resumes, resumes_failed, snapshots;
    uint64_t forks_of_disks, forks_of_memory;
    uint64_t dials, dials_failed;
    uint64_t ended[SANDBOX_REASONS];
    struct histogram steps[SANDBOX_STEPS];
};

struct sandbox {
    struct sandboxes *all;
    UT_hash_handle hh;
    UT_hash_handle hh_key; /* in by_key, while `key` is not NULL */
    uint32_t refs;
    enum sandbox_state state; /* sandbox_set_state() alone writes it */
    bool internal;            /* the daemon's own, for all its life: no row, no event, in no list */
    bool on_record;           /* the store was given its row */
    char id[ID_SANDBOX_LEN + 1];
    char *team_id, *template_id, *template_alias, *build_id, *access_token;
    char *fork_of; /* the sandbox that it is a copy of; NULL: none */
    char *wrong;   /* the last thing that went wrong with it; NULL: nothing since the start */
    int64_t wrong_ms;
    struct trace_place trace; /* of the call that changes it next */
    json_t *metadata, *env_vars, *options;
    json_t *init; /* more fields of /init: envVars, defaultUser, defaultWorkdir */
    int64_t started_ms, end_ms, created_ms;
    int64_t execution; /* drawn at each start, never 0; 0: an older release started it */
    uint32_t cpu_count, memory_mb, disk_mb;
    char *key;                 /* of its team's, as usage_sums.c spells it; NULL: none */
    struct usage_part counted; /* in the sums of its accounts */
    char *layers;              /* as struct template's: its template may change, this does not */
    char *saved;               /* PAUSED, RESUMING: what the keeper saved of it */
    uint64_t saved_bytes, saved_disk_bytes; /* of its memory, and of its files */
    char *forfeit; /* why the pause that is being made keeps no memory, though it was to; or NULL */
    bool packed;   /* the keeper was asked to compress that */
    bool prestarted; /* it began from its template's save, and could also start without */
    bool shares;     /* the memory that it has not written, with others of the same save */

    uint32_t uid_slot;
    struct keeper_jail jail;
    struct jail_poll *pidfd;        /* NULL: the end of the channel tells of its death */
    struct agent_channel *channel;  /* NULL: not attached */
    struct options_change *changes; /* that the agent is being told of */
    struct egress_net *net;         /* NULL: not attached, or loopback alone */
    struct destinations
        *destinations;             /* where it has been, over its pauses; NULL: no network yet */
    struct preconnect *preconnect; /* NULL: it was not parked, or they are used */
    /* Three facts and not one state: a sandbox that was attached may be attached again, and its
     * channel may break before, while and after that. */
    bool attaching; /* the keeper was asked for a channel and has not answered */
    bool attached;  /* by this daemon, at some time: a failure now means that the jail has ended */
    bool broke;     /* the last channel did; the jail's life is watched with a pidfd since */
    bool init_due;  /* adopted: the daemon before may have died between the row and /init */
    bool adopted;   /* the daemon before may have been pausing it */
    struct dial *dials; /* those that wait for a channel */

    uv_timer_t timers[SANDBOX_TIMERS];
    int64_t deadline_mono_ms; /* of LIFETIME or RETENTION */
    uint32_t oom_kills;       /* as last reported */
    int64_t oom_told_ms;      /* when the log was last told of one */
    int64_t broke_told_ms;
    struct start *start;   /* STARTING and RESUMING only */
    bool destroy_due;      /* it was given up while the keeper was making or saving its jail */
    uint32_t destroy_slot; /* the uid range of that jail */
    struct save *saves;    /* the first is under way */
    struct joiner *joiners;
    struct sandbox_watch *watches;
};

void sandboxes_release(struct sandboxes *all);

/* ---- states.c ---- */

/* False, and a sentence in the log: no such step. The state is what it was then. Callers that
 * ignore the answer have looked at the state just before. */
must_check bool sandbox_set_state(struct sandbox *sb, enum sandbox_state state);

bool save_set_phase(struct save *save, enum save_phase phase); /* likewise */

/* It belongs to a user, who can list it: it is not parked and not the daemon's own. */
bool sandbox_is_users(const struct sandbox *sb);

/* ---- sandbox.c ---- */

struct sandbox *sandbox_new(struct sandboxes *all); /* one count, for the table; not in it yet */
void sandbox_hold(struct sandbox *sb);

/* Keeps the sentence for those who look at the sandbox. It replaces the one before. */
void sandbox_note_wrong(struct sandbox *sb, const char *format, ...) printf_like(2, 3);
void sandbox_release(struct sandbox *sb);
bool sandbox_load(struct sandbox *sb, const struct sandbox_row *row); /* false: no valid id */

void sandboxes_count_end(struct sandboxes *all, const char *reason);
bool layers_have(const char *layers, const char *layer); /* of struct template's; may be NULL */

/* ---- pack.c ---- */

void pack_start(struct sandboxes *all);

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
void sandbox_record(struct sandbox *sb, enum sandbox_change change, const char *reason,
                    store_done *done, void *ctx);

/* Records the end for good: a row that the store refuses is tried again until it is stored. `done`
 * (may be NULL) is called once, with the result of the first try. */
void sandbox_record_end(struct sandbox *sb, const char *reason, store_done *done, void *ctx);
void record_free(struct sandboxes *all);

/* ---- jail.c, dial.c ---- */

/* Moves out of fds what it can use: a network is taken once, a channel each time, a pidfd where the
 * channel cannot be relied upon.
 * past: enum channel_past. */
void sandbox_take_jail(struct sandbox *sb, int past, const struct keeper_answer *answer,
                       int fds[KEEPER_FDS_MAX]);
void sandbox_drop_jail(struct sandbox *sb);                /* lets go of all of it */
void sandbox_watch_jail(struct sandbox *sb, bool watched); /* for its death */
/* It has a channel. Polls the socket: the loop may not have delivered the hang-up yet. */
bool sandbox_is_up(const struct sandbox *sb);
void sandbox_attach(struct sandbox *sb);
void sandbox_resume_dials(struct sandbox *sb);
void sandbox_fail_dials(struct sandbox *sb, int error);
/* It has been paused: fails those dials that may not wake it. True when some are left. */
bool sandbox_dials_wake(struct sandbox *sb);

/* ---- preconnect.c ---- */

void preconnect_dial(struct sandbox *sb); /* it is parked */
int preconnect_take(struct sandbox *sb,
                    uint32_t port); /* the caller's from now on; -1: there is none */
void preconnect_drop(struct sandbox *sb);
void preconnect_expire(struct sandboxes *all); /* time has passed */

/* ---- init.c ---- */

/* Calls done once, with 0 or -errno and the sentence; also when the sandbox ended meanwhile. */
void sandbox_init_agent(struct sandbox *sb,
                        void (*done)(struct sandbox *sb, int error, const struct err *err));

/* ---- plan.c ---- */

/* KEEPER_CREATE or KEEPER_RESTORE of its jail, out of what it is. Takes a uid range. */
must_check int plan_jail(struct sandbox *sb, const char *from, bool memory,
                         struct keeper_request *req, struct err *err);

/* ---- describe.c ---- */

/* All but its id, also of one that was parked. */
void sandbox_describe(struct sandbox *sb, const struct sandbox_params *params);

/* ---- parked.c ---- */

void parked_new(struct sandboxes *all);
void parked_want(struct sandboxes *all); /* built-in templates may have been added */
void parked_close(struct sandboxes *all);
void parked_free(struct sandboxes *all);
void parked_figures(const struct sandboxes *all, struct sandboxes_figures *out);

/* A parked jail that fits the new sandbox; it is the caller's from then on. NULL: there is none. */
struct sandbox *parked_claim(struct sandboxes *all, const struct sandbox_params *params);
void parked_drop(struct sandbox *sb, const char *why); /* ends one that is of no use */
void parked_refill(
    struct sandboxes *all); /* starts the missing jails, unless a caller waits for the keeper */

/* ---- create.c ---- */

/* Makes a jail to be parked: `done` as of sandbox_create(). Its agent knows what its template says,
 * and is told the rest when it is claimed. */
void sandbox_park(struct sandboxes *all, const struct template *template, sandbox_created *done,
                  void *ctx);

/* Makes the jail of one that is STARTING or RESUMING, from what was saved under a name (NULL:
 * nothing was). `done` as of sandbox_create(); on failure it has been taken out, or is PAUSED. */
void start_begin(struct sandbox *sb, const char *from, bool memory, int past, sandbox_created *done,
                 void *ctx);
void start_mark(struct sandbox *sb, enum sandbox_step step); /* a create is through with it */
void start_fail(struct sandbox *sb, int error, const struct err *err);
void start_lost(struct sandbox *sb, const struct err *err); /* its jail, or its agent, is no more */
void start_timeout(struct sandbox *sb);
void start_drop(struct sandbox *sb); /* the daemon is going away; a jail that is there stays */
void start_waiting(struct sandboxes *all); /* starts those that wait */

/* ---- save.c ---- */

struct save {
    struct save *prev, *next; /* in sb->saves */
    struct sandbox *sb;       /* counted */
    char name[KEEPER_SAVED_BYTES];
    uint32_t flags;        /* enum keeper_save_flag; with STOP it is a pause */
    enum save_phase phase; /* save_set_phase() alone writes it */
    bool healthy;          /* refused unless the agent answers */
    bool silent;           /* the agent did not answer: a pause goes on without its memory */
    bool many;             /* several sandboxes will start from it at once */
    struct alone *alone;   /* of a fork that may do without the memory; NULL: it does not */
    struct trace_place trace;
    int64_t step_us; /* when the last step was over */

    /* Once; it owns the save. 0: it is saved; with STOP its jail is gone, the state is PAUSING and
     * the phase RECORDING, or saved is NULL and the state PAUSED: another pause came first. -errno:
     * it runs on; -ENOENT: the sandbox was killed. */
    void (*done)(struct save *save, int error, const struct err *err,
                 const struct keeper_saved *saved);
};

/* Queues the save behind those under way. */
void save_add(struct sandbox *sb, struct save *save);
void save_next(struct sandbox *sb);    /* when the state lets it begin */
void save_drained(struct sandbox *sb); /* nothing of the outside is left, or time is up */
void save_check_drained(struct sandbox *sb);
void save_found(struct sandbox *sb); /* the keeper had finished it */
void save_abort(struct sandbox *sb, int error, const struct err *err); /* its jail is alive */
bool save_is(const struct sandbox *sb, enum save_phase phase);         /* the first, if any */
/* The phase is OVER, or RECORDING: the first is taken off the line, and its owner told. */
void save_finish(struct sandbox *sb, int error, const struct err *err,
                 const struct keeper_saved *saved);
void save_fail_all(struct sandbox *sb, int error, const struct err *err);

/* ---- alone.c ---- */

enum { ALONE_FDS = 2 };

/* A save of the disk, and of the files in memory; what the keeper gave for CHANNEL_FILES. */
struct alone {
    int fds[ALONE_FDS]; /* KEEPER_FD_FILES, KEEPER_FD_DISK; -1: there are none, or there is a
                           snapshot of the disk under the save's name */
    bool taken;         /* by the keeper */
    uint32_t requests;  /* that the agent had had before */
    struct keeper_saved saved;
};

/* The first save in line, with `alone`. It ends as any save does; it has no `alone` any more if it
 * had to be made with the memory. */
void alone_start(struct sandbox *sb);
bool alone_possible(const struct sandbox *sb); /* false: it has volumes */
void alone_fini(struct alone *alone);
bool alone_has_save(const struct save *save); /* false: nothing is saved under its name */

/* ---- pause.c ---- */

/* The jail is not there any more. If it was saved it is PAUSED, else it was killed. */
void sandbox_lost(struct sandbox *sb, const char *reason);
void pause_on_timeout(struct sandbox *sb);

/* ---- resume.c ---- */

/* Begins what was waiting for the pause to be over, or for nothing. */
void resume_wanted(struct sandbox *sb);
void resume_fail_all(struct sandbox *sb, int error, const struct err *err);
int64_t resume_span_ms(const struct sandbox *sb); /* for how long it is wanted back */

/* ---- saved.c ---- */

/* The name of a pause of this execution, and of other saves. */
/* The id for a new snapshot: that of the team's template of this alias, or a new one. Returns the
 * save of the snapshot that it replaces, which the caller frees; NULL: none. (snapshot.c) */
char *snapshot_take_name(struct templates *all, const char *team_id, const char *alias,
                         const char *tag, char template_id[ID_TEMPLATE_LEN + 1]);

int64_t execution_new(void);
void saved_name_pause(const struct sandbox *sb, bool memory, char out[KEEPER_SAVED_BYTES]);
void saved_name_new(char out[KEEPER_SAVED_BYTES]);
void saved_name_many(const char *prefix,
                     char out[KEEPER_SAVED_BYTES]); /* KEEPER_SAVED_KEPT, _FORKS */
void saved_name_fork(struct save *save);            /* of one with memory */
void saved_name_disk(char out[KEEPER_SAVED_BYTES]); /* of a snapshot without memory */
bool saved_has_memory(const char *name);            /* of a pause */
bool saved_is_disk(const char *name);               /* of a snapshot */

/* A save that is held is not removed. */
void saved_hold(struct sandboxes *all, const char *name);
void saved_release(struct sandboxes *all, const char *name);
/* Has the keeper remove it, as soon as nothing holds it and there is a keeper. */
void saved_forget(struct sandboxes *all, const char *name);
void saved_resend(struct sandboxes *all);

/* Looks for a pause of this execution; name is NULL when there is none. error: the keeper could not
 * tell. */
void saved_find(struct sandbox *sb, void (*done)(void *ctx, int error, const char *name),
                void *ctx);

/* At the daemon's start: lists the keeper's saves, calls done, then forgets the saves without a
 * reference. */
void saved_load(struct sandboxes *all, void (*done)(struct sandboxes *all, int error));
void saved_sweep(struct sandboxes *all);
void saved_free(struct sandboxes *all);

/* ---- prestart.c ---- */

/* A sandbox could not be started from that save of its template: it is made anew. */
void prestart_redo(struct sandboxes *all, const struct sandbox *sb, const char *name);
void prestart_free(struct sandboxes *all);

/* ---- lifecycle.c ---- */

/* Takes the sandbox out of the table, calls its watches, closes descriptors and timers. Only the
 * jail remains. Gives the table's count back. */
void sandbox_leave(struct sandbox *sb);
void sandbox_close(struct sandbox *sb); /* the same for one that is not in the table */
void sandbox_died(struct sandbox *sb);
void sandbox_arm(struct sandbox *sb); /* LIFETIME or RETENTION, from end_ms */
void sandbox_timer_start(struct sandbox *sb, enum sandbox_timer which, int64_t ms);

/* ---- destroy.c ---- */

/* Has the keeper destroy a jail, as soon as there is a keeper; then frees the uid range. */
void destroy_jail(struct sandboxes *all, const char *id, const struct keeper_jail *jail,
                  uint32_t slot);
void destroy_resend(struct sandboxes *all);
bool destroy_has(const struct sandboxes *all, const char *id);
void destroy_free(struct sandboxes *all);

/* ---- adopt.c ---- */

void adopt_start(struct sandboxes *all);
void adopt_pump(struct sandboxes *all); /* an ATTACH was answered */

#endif
