/* sandbox.h - sandboxes: the table in memory and the state machine of each.
 *
 * Owns:     every struct sandbox, its channel to the agent, its network, its timer.
 * Needs:    a loop, the store, the keeper's client, the templates, the egress.
 * Blocks:   never.
 * Threads:  the loop's.
 *
 *      PARKING ──► PARKED
 *                    │ claimed
 *                    ▼
 *      create ──► STARTING ──► RUNNING ──► PAUSING ──► PAUSED ──► RESUMING ──► RUNNING
 *                    │          │   ▲ failed  │          │   ▲ failed  │
 *                    │          │   └─────────┤          │   └─────────┤
 *                    └─ failed ─┴─────────────┴──────────┴─────────────┴──► KILLING ──► (gone)
 *                         request, timeout, jail died, adoption failed
 *
 * states.c has the table of allowed steps. STARTING is visible to nobody: create answers when the
 * agent has its configuration and the template's start command is up. A PARKED jail belongs to
 * nobody: it has no row and is in no list until a create claims it. A KILLING sandbox is not found
 * any more: its streams were reset when it got there. PAUSING and RESUMING are shown as paused. A
 * PAUSED sandbox has no jail: it is its row, and what the keeper saved of it. The state is saved
 * with every change; the kernel has the last word, so at start every sandbox on record as running
 * is attached again through the keeper. A sandbox that cannot be attached was paused, if the keeper
 * has it saved; otherwise it is recorded as killed, with the reason.
 *
 * A pointer to a struct sandbox is good until the callback it came in returns, or as long as a
 * watch on it is set.
 */
#ifndef SANDBOX_SANDBOX_H
#define SANDBOX_SANDBOX_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "lib/base/err.h"
#include "lib/base/histogram.h"
#include "lib/base/id.h"
#include "lib/base/log.h"
#include "lib/base/str.h"
#include "lib/base/trace.h"
#include "serve/egress/egress.h"
#include "serve/keeper/client.h"
#include "serve/store/store.h"
#include "serve/template/template.h"

enum {
    SANDBOX_TIMEOUT_S_DEFAULT = 15,
    SANDBOX_TIMEOUT_S_MAX = 24 * 3600, /* unless the operator says otherwise */
    SANDBOX_TOKEN_BYTES = 33,
    SANDBOX_PIDS = 4096,
    SANDBOX_START_TIMEOUT_MS = 10 * 1000, /* the agent must have answered /init by then */
    SANDBOX_KEEPER_WAIT_MS = 2000,        /* of a create: a keeper started again is back by then */
    SANDBOX_RESTORE_TIMEOUT_MS = 120 * 1000, /* likewise, when its memory must be read first */
    SANDBOX_WAKE_TIMEOUT_S_MIN = 300,        /* that one woken by traffic lives at least */
    SANDBOX_FORKS_MAX = 100,                 /* of one call */
    SANDBOX_FORKS_AT_ONCE = 8,
    SANDBOX_FORKS_ALONE_AT_ONCE = 16,
};

/* Among the options of a paused one: when it would have ended, in ms of the wall clock. */
#define SANDBOX_WANTED_END "wantedEndMs"

/* The agent's version as the SDKs see it: it gates their features, so it is plain semver. */
#define SANDBOX_ENVD_VERSION "0.6.13"

enum sandbox_state {
    SANDBOX_NEW,     /* memory alone: neither its row nor its jail was looked at */
    SANDBOX_PARKING, /* a jail is made that nobody has asked for yet */
    SANDBOX_PARKED,  /* that jail waits for a create */
    SANDBOX_STARTING,
    SANDBOX_RUNNING,
    SANDBOX_PAUSING,
    SANDBOX_PAUSED,
    SANDBOX_RESUMING,
    SANDBOX_KILLING,
    SANDBOX_STATES
};

struct sandboxes;
struct sandbox;

/* ---- log lines of agents ---- */

enum { SANDBOX_LOG_WINDOW = 64 }; /* lines that an agent may send before the last is on record */

struct sandbox_log {
    uint32_t seq;    /* grows by one from line to line */
    uint32_t lost;   /* lines that the agent had to drop before this one */
    int64_t wall_ms; /* the agent's word */
    enum log_level level;
    struct str line; /* anything */
};

/* Where the lines go. `attached` comes with every new channel to an agent; no line comes before it
 * was answered with sandbox_log_credit(), at once or later. */
struct sandbox_log_sink {
    void (*attached)(void *ctx, struct sandbox *sb); /* NULL: nobody wants lines */
    void (*line)(void *ctx, struct sandbox *sb, const struct sandbox_log *log);
    void *ctx;
};

/* All up to seq are on record: the agent drops them and sends those that follow. */
void sandbox_log_credit(struct sandbox *sb, uint32_t seq);

#define SANDBOX_PARKED_AUTO UINT32_MAX

/* A sandbox that is not there yet, or paused, and is to run. */
struct sandbox_wanted {
    const char *team_id;
    const char *maker; /* the id of the API key that it is charged to; NULL: to the team alone */
    uint32_t cpu_count, memory_mb;
    uint64_t disk_bytes; /* more than what it takes now */
};

struct sandboxes_options {
    uv_loop_t *loop;
    struct store *store;
    struct keeper_client *keeper;
    struct templates *templates;
    struct egress *egress; /* NULL: sandboxes have no way out */
    struct sandbox_log_sink logs;
    const char *instance;   /* as keeper_options'; NULL: the only daemon of this machine */
    int64_t ready_limit_ms; /* of what a template starts, in a create; 0: 45 s */
    int64_t retention_ms;   /* a sandbox paused for that long is killed; 0: never */
    int64_t pack_after_ms;  /* the memory of one paused for that long is compressed; 0: never */
    /* Whether quotas allow one more sandbox, which a fork or traffic asks for; -EUSERS with the
     * sentence when they do not. NULL: always. */
    int (*admit)(void *ctx, const struct sandbox_wanted *wanted, struct err *err);
    void *admit_ctx;
    /* Idle jails kept parked per built-in template (1 if it is restored with running processes), or
     * SANDBOX_PARKED_AUTO: see demand.h. */
    uint32_t parked_min;
    uint32_t parked_max;        /* of any template; 0: none are */
    uint64_t parked_free_bytes; /* with less memory available none are; 0: see demand.h */
    struct tracer tracer;       /* takes the steps of creates, pauses and their like */
};

/* Loads the table. Adoption runs once the keeper is connected; `ready` is called when every saved
 * sandbox is either attached or recorded as gone, and everything the keeper lists that we do not
 * know has been destroyed. Until then creates wait, but not for long when there is no keeper. */
must_check int sandboxes_new(const struct sandboxes_options *options, void (*ready)(void *ctx),
                             void *ctx, struct sandboxes **out, struct err *err);

/* Leaves the jails running. Their channels close; a later daemon adopts them. A create under way is
 * told -EAGAIN here. */
void sandboxes_free(struct sandboxes *all);

/* The wiring tells it: on_state of the keeper's client. A keeper that came back is used again. */
void sandboxes_keeper_changed(struct sandboxes *all, bool connected);

/* ---- create, find, end ---- */

struct sandbox_params { /* borrowed during the call */
    const char *team_id;
    const struct template *template;
    int64_t timeout_ms;
    bool secure;
    const json_t *metadata; /* object of strings, or NULL; likewise */
    const json_t *env_vars;
    const json_t *options;     /* the rest of the body that is stored: network, autoPause, ... */
    const char *fork_of;       /* the sandbox that it is a copy of; NULL: none */
    const struct alone *alone; /* a copy without its source's memory; NULL: any other */
    const struct trace_place *trace; /* of the call that wants it; NULL: none */

    /* A jail of the daemon's own, to build in: not listed, not found, not reachable from outside,
     * not on record, without an end. A daemon that dies leaves it to the next, which destroys it.
     */
    bool internal;
    const char *from; /* internal: the save that its disk begins with; NULL: an empty disk */
};

/* sb is NULL on failure, and err says why. error is -EAGAIN when the keeper is away or the daemon
 * is stopping, -ENOSPC when a limit of this machine is reached, -EDQUOT when the store's disk is
 * full, -EINVAL when a volume cannot be mounted at the place named, -ETIMEDOUT when it did not
 * start in time, -EOPNOTSUPP when its agent cannot work with the template's files, -EIO otherwise.
 */
typedef void sandbox_created(void *ctx, struct sandbox *sb, int error, const struct err *err);
void sandbox_create(struct sandboxes *all, const struct sandbox_params *params,
                    sandbox_created *done, void *ctx);

/* A sandbox that belongs to a user and is neither STARTING nor KILLING; NULL: not found. */
struct sandbox *sandboxes_find(struct sandboxes *all, struct str id);

/* The sandbox is gone from the table when this returns, its watches have been called, and the jail
 * dies at once; `done` (may be NULL) comes when that is on record. When the store could not take
 * it, done is told so; the sandbox is gone all the same, and its end is recorded when there is room
 * again. */
void sandbox_kill(struct sandbox *sb, const char *reason, store_done *done, void *ctx);

/* Why sandboxes end, besides the reasons of internal failures. */
#define SANDBOX_END_REQUEST "request"
#define SANDBOX_END_TIMEOUT "timeout"
#define SANDBOX_END_OUT_OF_MEMORY "out of memory"
#define SANDBOX_END_DISK_FULL "disk full"
#define SANDBOX_END_HOST_RESTART "host restart"
#define SANDBOX_END_ADMIN "admin"
#define SANDBOX_END_RETENTION "paused for too long"
#define SANDBOX_END_TAKEN_OVER "its agent was taken over"

/* End of life as a wall-clock time; `only_extend` leaves a later one as it is. `done` comes when it
 * is on record; after a failure the end is what it was. */
void sandbox_set_end(struct sandbox *sb, int64_t end_ms, bool only_extend, store_done *done,
                     void *ctx);

/* Replaces the options, and with them what it may reach, at once; `done` (as of the store) comes
 * when that is on record. -ENOTCONN: it was made with loopback alone, and is to reach something. */
must_check int sandbox_set_options(struct sandbox *sb, const json_t *options, store_done *done,
                                   void *ctx, struct err *err);

/* ---- pause, resume, snapshot, fork ---- */

enum sandbox_pause_how { /* bits */
                         SANDBOX_PAUSE_DISK = 0,
                         SANDBOX_PAUSE_MEMORY = 1,
                         SANDBOX_PAUSE_HEALTHY = 2, /* only if its agent answers */
};

/* Among the options of a paused one whose agent did not answer: true. Its memory was not kept. */
#define SANDBOX_UNRESPONSIVE_OPTION "envdUnresponsiveAtPause"

/* Saves it, with its memory or the disk alone, and ends its jail; `done` comes when that is durable
 * and on record. Those who ask while it is PAUSING get the same answer. -EALREADY: it is paused;
 * -ESTALE: it is RESUMING; -EBUSY: its agent does not answer; -EOPNOTSUPP: something in it cannot
 * be saved, and it goes on running, as after any other failure. */
void sandbox_pause(struct sandbox *sb, unsigned how, store_done *done, void *ctx);

/* The pause, resume, fork or snapshot that is asked for next is part of that trace. */
void sandbox_trace(struct sandbox *sb, const struct trace_place *place);

/* Resumes a paused sandbox, to live for timeout_ms. Calls during RESUMING get the same answer, and
 * the longest timeout counts. Calls during PAUSING wait for its end. `memory` false: it starts
 * again on its disk. Errors as of create; it stays paused then. For a running sandbox `done` is
 * called at once. */
void sandbox_resume(struct sandbox *sb, int64_t timeout_ms, bool memory, sandbox_created *done,
                    void *ctx);

/* The usage that a resume would add to its team's. */
struct sandbox_wanted sandbox_wanted(const struct sandbox *sb);

/* True: it is paused when its time is up; false: killed. On record with the next change. */
void sandbox_set_auto_pause(struct sandbox *sb, bool pauses);

/* It is being resumed, or traffic may wake it, now or once it has been paused: dials wait. */
bool sandbox_returns(const struct sandbox *sb);
void sandbox_wake(struct sandbox *sb); /* one that is PAUSED */

/* Saves a running one as a template of its team, with its memory or the disk alone, and lets it run
 * on. The alias may be NULL. If the team has a template of that alias, its tag names the new one
 * from then on. -ESTALE: it does not run. */
struct sandbox_snapshot {
    const char *template_id;
    const char *alias; /* NULL: has none */
    const char *tag;
    const struct build_row *build; /* as it is on record */
    uint64_t frozen_usec;
    uint64_t bytes; /* of its memory and its files, on the disk */
};
typedef void sandbox_snapshotted(void *ctx, int error, const struct err *err,
                                 const struct sandbox_snapshot *snapshot);
void sandbox_snapshot(struct sandbox *sb, const char *alias, const char *tag, bool memory,
                      sandbox_snapshotted *done, void *ctx);

/* Takes a template out of the table. The saves of its snapshots are removed when no start reads
 * them any more. */
void sandboxes_forget_template(struct sandboxes *all, const struct template *template,
                               store_done *done, void *ctx);

/* Removes the save of a snapshot, unless a template or a sandbox still refers to it. */
void sandboxes_forget_saved(struct sandboxes *all, const char *name);

/* ---- exports and imports (travel.c) ---- */

enum { TRAVELLER_SEND_BYTES_MAX = 64 * 1024 };

struct traveller; /* a save on its way */
struct traveller_handler {
    void (*bytes)(void *ctx,
                  struct str bytes); /* of an export, while traveller_read() wants them */
    void (*ready)(void *ctx);        /* of an import: traveller_send() may be called, once */
    /* Once, and nothing after it: the traveller is gone. `made` is NULL for an export. Errors are
     * of the file (-EINVAL; -EMSGSIZE: it holds too much; -EOPNOTSUPP: this machine cannot run it),
     * -EAGAIN: too many at one time, or the keeper is away. */
    void (*end)(void *ctx, int error, const struct err *err, const struct sandbox_snapshot *made);
};

/* The save of a sandbox that is PAUSED, exactly. */
struct traveller *sandbox_export(struct sandbox *sb, const struct traveller_handler *handler,
                                 void *ctx);
/* The save of a snapshot. */
struct traveller *template_export(struct sandboxes *all, const struct template *snapshot,
                                  const struct traveller_handler *handler, void *ctx);
struct arrival { /* borrowed during the call */
    const char *team_id;
    const char *alias; /* NULL: none */
    const char *tag;
    uint64_t bytes_max; /* of its memory and its files */
};
struct traveller *sandboxes_import(struct sandboxes *all, const struct arrival *arrival,
                                   const struct traveller_handler *handler, void *ctx);
void traveller_read(struct traveller *traveller, bool wanted);
/* At most TRAVELLER_SEND_BYTES_MAX; `ready` comes again when more is wanted. No bytes: that was
 * all. */
void traveller_send(struct traveller *traveller, struct str bytes);
/* Nobody wants it any more: `end` is not called. NULL is fine. */
void traveller_drop(struct traveller *traveller);

/* Copies a running one `count` times. `each` comes once for every copy, as of create, in any order;
 * or `failed` alone, before any: -ESTALE: it does not run; else as of pause. */
struct sandbox_fork {
    uint32_t count; /* to SANDBOX_FORKS_MAX */
    int64_t timeout_ms;
    const char *maker; /* as of sandbox_wanted; borrowed during the call */
    void (*each)(void *ctx, uint32_t index, struct sandbox *sb, int error, const struct err *err);
    void (*failed)(void *ctx, int error, const struct err *err);
    void *ctx;
};
void sandbox_fork(struct sandbox *sb, const struct sandbox_fork *fork);

/* Saves a running one under a name that the caller chose, with its processes; it runs on. Errors as
 * of pause. */
typedef void sandbox_saved_as(void *ctx, int error, const struct err *err, uint64_t memory_bytes);
void sandbox_save_as(struct sandbox *sb, const char *name, sandbox_saved_as *done, void *ctx);

/* Runs the start command of each built-in template once, in the background, and saves the jail with
 * it running, so that sandboxes begin with the command up. Call it after a template was put or
 * changed; the save of a changed template is removed. */
void sandboxes_prestart(struct sandboxes *all);

/* Ends the parked jails of templates that are gone or have changed. */
void sandboxes_unpark_stale(struct sandboxes *all);

/* The daemon stops: ends all parked jails, and parks no more. `done` comes when the keeper says
 * that they are gone, is away, or has not said so for SANDBOX_UNPARK_MS; never inside this call. */
enum { SANDBOX_UNPARK_MS = 3000 };
void sandboxes_unpark_all(struct sandboxes *all, void (*done)(void *ctx), void *ctx);

/* Is a layer, or what was saved under a name, part of a sandbox, running or paused? */
bool sandboxes_use(const struct sandboxes *all, const char *layer);

/* ---- description ---- */

struct sandbox_info {
    const char *id, *team_id, *access_token; /* token NULL when not secure */
    const char *template_id, *template_alias;
    enum sandbox_state state; /* STARTING, then RUNNING or PAUSED, as it reads outside */
    bool changing;            /* PAUSING or RESUMING: it reads as PAUSED */
    enum sandbox_state exact; /* the state itself */
    const char *fork_of;      /* the sandbox that it is a copy of; NULL: none */
    const char *wrong;        /* the last thing that went wrong; NULL: nothing since the start */
    int64_t wrong_ms;         /* when */
    int64_t started_ms, end_ms, created_ms;
    uint32_t cpu_count, memory_mb, disk_mb;
    bool saved_memory;    /* PAUSED: its memory was saved too */
    uint64_t saved_bytes; /* PAUSED: of its memory and its files, on the disk; 0: unknown */
    const json_t *metadata, *env_vars, *options; /* objects, never NULL */
};
struct sandbox_info sandbox_info(const struct sandbox *sb);
struct keeper_jail sandbox_jail(const struct sandbox *sb);

/* Newest first, by (created_ms, id). `after` continues behind that position; NULL: from the start.
 * Calls each until it returns false. Costs what is visited, not what exists. */
struct sandbox_position {
    int64_t created_ms;
    char id[ID_SANDBOX_LEN + 1];
};
void sandboxes_each(struct sandboxes *all, bool ascending, const struct sandbox_position *after,
                    bool (*each)(void *ctx, struct sandbox *sb), void *ctx);

/* Records an event that is no change of the sandbox. Webhooks get it like any other event. */
void sandbox_tell(struct sandbox *sb, const char *type, const json_t *data);

/* Tells a running sandbox's agent what its jail uses, for it to show inside. */
void sandbox_tell_used(struct sandbox *sb, const struct keeper_usage *usage);

/* Where it has been, and where it was refused, since the daemon's start: as destinations_json(). */
json_t *sandbox_connections(const struct sandbox *sb);

/* Figures of its network; false while it has none. */
bool sandbox_egress(const struct sandbox *sb, struct egress_counters *out);

/* Ends by reason, since the start; the last stands for all other reasons. */
enum { SANDBOX_REASONS = 8 };
struct sandboxes_figures {
    uint32_t running, paused, starting;  /* running: with those PAUSING and RESUMING */
    uint32_t parked;                     /* ready to be claimed; in none of the others */
    uint64_t parked_hits, parked_misses; /* creates that found one, and those that found none */
    uint64_t created, create_failed;
    uint64_t pauses, pauses_failed, resumes, resumes_failed, snapshots;
    uint64_t forks_of_disks, forks_of_memory; /* copies asked for, by what they were made from */
    uint64_t dials, dials_failed;             /* sockets asked of agents */
    struct {
        const char *reason;
        uint64_t count;
    } ended[SANDBOX_REASONS];
};
struct sandboxes_figures sandboxes_figures(const struct sandboxes *all);

/* Whether every sandbox on record is attached, or recorded as gone, since the keeper came. */
bool sandboxes_adopted(const struct sandboxes *all);

/* How many jails are parked of each build of a built-in template, and of each of the team's
 * templates that was used lately. */
void sandboxes_parked_each(const struct sandboxes *all, const char *team_id,
                           void (*each)(void *ctx, const struct template *t, uint32_t n),
                           void *ctx);

/* The duration of each step of creates, since the start. A step begins where the one before it
 * ended, so they add up. */
enum sandbox_step {
    SANDBOX_STEP_JAIL,    /* the keeper has a jail for it */
    SANDBOX_STEP_DIAL,    /* there is a socket to its agent */
    SANDBOX_STEP_INIT,    /* the agent has its configuration */
    SANDBOX_STEP_COMMAND, /* the template's start command is up */
    SANDBOX_STEP_RECORD,  /* the row is on record */
    SANDBOX_STEPS
};
struct sandboxes_step {
    const char *name;
    const struct histogram *took;
};
void sandboxes_steps(const struct sandboxes *all, struct sandboxes_step out[SANDBOX_STEPS]);

/* Bytes that saves take on the disk. Files that copies share are counted for each. */
struct sandboxes_saved {
    uint64_t paused_memory, paused_disk;
    uint64_t snapshots_memory, snapshots_disk;
    uint64_t templates_memory; /* of templates saved with running processes */
};
struct sandboxes_saved sandboxes_saved(struct sandboxes *all);

/* The usage of an account: a team, or an API key. Sandboxes that start count as running. */
struct sandboxes_used {
    uint32_t alive, running, paused; /* alive: run or start; running: reported as running */
    uint64_t cpus, memory_mb;        /* of those alive */
    uint64_t disk_bytes;             /* alive: what each may take at most; paused: what was saved */
    uint64_t sandbox_ms, cpu_ms, memory_mb_ms; /* over time, since the daemon's start */
};
struct sandboxes_used sandboxes_used(const struct sandboxes *all, const char *account_id);
uint32_t sandboxes_running(const struct sandboxes *all, const char *team_id);

/* Among the options: the id of the API key that made it. */
#define SANDBOX_MAKER_OPTION "createdBy"

/* True: the code interpreter's port needs no access token, also when the sandbox is secure. */
#define SANDBOX_OPEN_INTERPRETER_OPTION "openInterpreter"

/* The sandbox whose options have that key, among those that sandboxes_find() finds; NULL: none. The
 * key is free again when the sandbox has ended. */
#define SANDBOX_KEY_OPTION "idempotencyKey"
struct sandbox *sandboxes_find_key(const struct sandboxes *all, const char *team_id,
                                   const char *key);

/* ---- traffic ---- */

/* A connected TCP socket to a port inside, for which lib/base/foreign.h has rules; 49983 is the
 * agent, and wire/channel.h names those that are no ports. fd_or_error: a descriptor that done
 * owns, or -ECONNREFUSED (nobody listens), -ETIMEDOUT, -EAGAIN (too many wait already), -ENOTCONN
 * (the sandbox ended), -ESHUTDOWN (it is paused), -EHOSTDOWN (it could not be resumed). A dial to a
 * sandbox that is being paused or resumed waits. done may be called before this returns. */
void sandbox_dial(struct sandbox *sb, uint32_t port, void (*done)(void *ctx, int fd_or_error),
                  void *ctx);

/* The same for a caller that may not wake it: -ESHUTDOWN once it has been paused. */
void sandbox_dial_awake(struct sandbox *sb, uint32_t port, void (*done)(void *ctx, int fd_or_error),
                        void *ctx);

/* How far a pause is. */
enum sandbox_pausing {
    SANDBOX_PAUSE_BEGINS, /* end what can be ended well, hold the rest: the pause waits for those
                             that were told, SANDBOX_DRAIN_MS at most, to be unset or settled */
    SANDBOX_PAUSE_DUE,    /* that time is up: cut off what has not ended */
    SANDBOX_PAUSE_OFF,    /* it failed: what is held goes on */
};

/* Calls gone, once, when the sandbox has been paused (after `pausing` was called) or killed. The
 * watch is then unset already. A watch with `pausing` that is set while the sandbox is paused, or
 * about to be, waits for the resume. */
enum { SANDBOX_DRAIN_MS = 2000 };
struct sandbox_watch {
    struct sandbox_watch *prev, *next;
    struct sandbox *sandbox; /* NULL: not set */
    void (*gone)(struct sandbox_watch *watch);
    void (*pausing)(struct sandbox_watch *watch, enum sandbox_pausing how); /* NULL: not told */
    void (*resumed)(struct sandbox_watch *watch); /* it runs again, and its caller is not told yet;
                                                     NULL: not told */
    bool told;                                    /* that it pauses */
    bool settled;                                 /* nothing is left that has to end before */
};
void sandbox_watch_set(struct sandbox_watch *watch, struct sandbox *sb);
void sandbox_watch_settle(struct sandbox_watch *watch); /* the rest can be cut off at any time */
void sandbox_watch_unset(struct sandbox_watch *watch);  /* fine when not set */

#endif
