/* store.h - durable state: SQLite or PostgreSQL, with one thread that writes.
 *
 * Owns:     the database file, or the connections to the database, and the writer thread.
 * Needs:    a libuv loop for the answers. The directory of a file must exist and be ours.
 * Blocks:   store_open() and the store_load_* calls (start-up only); the rest never.
 * Threads:  called on the loop's thread. Jobs run on the writer's thread, many in a transaction, in
 *           the order given. `done` is called on the loop after the commit.
 *
 * A change whose `done` got 0 survives kill -9 of this process, and a power loss too when its job
 * had STORE_SYNC. The row of a running sandbox needs no sync, because its jail does not survive a
 * power loss either. Keys, teams, templates and paused sandboxes are synced.
 *
 * The running daemon reads from memory: modules load their rows when it starts (mirror.h). Only
 * tables that grow without end are read while it runs: events, deliveries of webhooks, logs of
 * builds. Those reads run on the thread pool, beside the writer.
 *
 * A full disk under the store is always -EDQUOT. A PostgreSQL that cannot be reached is -EAGAIN:
 * see docs/internals/store.md.
 *
 * The structs of rows below have their columns in serve/store/tables.c.
 */
#ifndef STORE_STORE_H
#define STORE_STORE_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "lib/base/compiler.h"
#include "lib/base/err.h"
#include "lib/base/histogram.h"
#include "lib/base/str.h"

struct store;

enum store_durability {
    STORE_LAZY,
    STORE_SYNC,
    STORE_SETTLE, /* changes nothing; syncs everything that was written before */
};

enum { STORE_EVENTS_PAGE = 256 }; /* rows of one page of store_events_after() */

/* Killed sandboxes, events and deliveries are kept that long. */
static const int64_t STORE_EVENTS_KEPT_MS = (int64_t)7 * 24 * 3600 * 1000;

/* error: 0 or -errno, with a sentence in err (never NULL). A NULL `done` is fine everywhere: a
 * failure is then logged. */
typedef void store_done(void *ctx, int error, const struct err *err);

/* As store_done, with a text that is valid during the call; NULL on failure or when there is none.
 */
typedef void store_text(void *ctx, int error, const struct err *err, const char *text);

/* where: the path of a file, or the URL of a PostgreSQL database (postgresql://...). */
must_check int store_open(uv_loop_t *loop, const char *where, struct store **out, struct err *err);

/* Whether that is the URL of a PostgreSQL database. */
bool store_is_postgres(const char *where);

/* Whether the database could not be reached when the writer last tried. */
bool store_away(const struct store *store);

/* Runs the queued jobs, calls every outstanding `done`, then closes. Blocks until all of that is
 * done. Call it before you free anything that those callbacks use. The loop must run once more
 * afterwards, to close our handle. NULL is fine. */
void store_close(struct store *store);

/* Copies all rows of a file into an empty PostgreSQL database, and tells how many each table has.
 * No daemon may use either. All of it or nothing is copied. Blocks. */
typedef void store_copied(void *ctx, const char *table, int64_t rows);
must_check int store_copy(const char *path, const char *url, store_copied *each, void *ctx,
                          struct err *err);

struct store_figures {
    uint64_t waiting;        /* jobs whose `done` has not been called */
    uint64_t failed;         /* jobs that could not be stored, since the start */
    struct histogram commit; /* of each transaction, from its begin to its end */
};
struct store_figures store_figures(struct store *store);

/* ---- events (serve/store/events.c) ---- */

struct event_row {
    const char *id; /* uuid */
    const char *team_id;
    const char *sandbox_id;
    const char *type; /* "sandbox.lifecycle.created" */
    int64_t timestamp_ms;
    const char *body; /* the whole event as JSON, as it is served, signed and delivered */
};

struct event_query {
    const char *team_id;
    const char *sandbox_id; /* NULL: of all */
    const char *types;      /* ",type,type,"; NULL: all */
    int64_t since_ms;
    int64_t offset, limit;
    bool ascending;
};

/* For an event that comes with no change of the sandbox's row. */
void store_event_save(struct store *store, const struct event_row *event, store_done *done,
                      void *ctx);

/* A JSON array of events. */
void store_events_list(struct store *store, const struct event_query *query, store_text *done,
                       void *ctx);

/* The body of one event; NULL when it was deleted for its age. */
void store_event_read(struct store *store, int64_t seq, store_text *done, void *ctx);

/* Lines of JSON: the events behind `after`, in the order of their commits. At most
 * STORE_EVENTS_PAGE rows are looked at, so there may be more behind *last. */
typedef void store_events_page(void *ctx, int error, const struct err *err, struct str lines,
                               int64_t last);
void store_events_after(struct store *store, const struct event_query *query, int64_t after,
                        store_events_page *done, void *ctx);

/* The place of an event of the team, as `last` above; event_id NULL: of its newest. -ENOENT. */
void store_events_place(struct store *store, const char *team_id, const char *event_id,
                        store_events_page *done, void *ctx);

/* Called on the loop after events were committed, once for many. The owner takes it out before the
 * store is closed, and not inside the call. */
struct events_watch {
    void (*on_event)(struct events_watch *watch);
    const char *team_id; /* whose events; NULL: of all teams */
    bool due;
    struct events_watch *prev, *next;
};
void store_events_watch(struct store *store, struct events_watch *watch);
void store_events_unwatch(struct store *store, struct events_watch *watch);

/* ---- webhooks and their deliveries (serve/store/deliveries.c) ---- */

struct webhook_row {
    const char *id; /* uuid */
    const char *team_id;
    const char *name;
    const char *url;
    const char *events; /* ",type,type," */
    const char *secret;
    bool enabled;
    int64_t created_ms;
};

void store_webhook_save(struct store *store, const struct webhook_row *row, store_done *done,
                        void *ctx);
void store_webhook_delete(struct store *store, const char *id, store_done *done, void *ctx);
must_check int store_load_webhooks(struct store *store,
                                   void (*each)(void *ctx, const struct webhook_row *row),
                                   void *ctx, struct err *err);

enum { DELIVERY_SANDBOX_BYTES = 32, DELIVERY_ID_BYTES = 40, DELIVERY_STATE_BYTES = 16 };

struct delivery { /* of one event to one webhook */
    int64_t seq;
    int64_t event_seq;
    int64_t created_ms;
    int64_t next_ms; /* wall clock: the earliest time of the next try */
    int64_t attempts;
    char id[DELIVERY_ID_BYTES];
    char sandbox_id[DELIVERY_SANDBOX_BYTES];
    char state[DELIVERY_STATE_BYTES]; /* as of delivery_mark */
};

/* The pending deliveries of a webhook with a seq above `after`, in order. The array is valid during
 * the call. */
typedef void store_deliveries(void *ctx, int error, const struct err *err,
                              const struct delivery *all, size_t n);
void store_deliveries_pending(struct store *store, const char *webhook_id, int64_t after,
                              size_t limit, store_deliveries *done, void *ctx);

/* The delivery of a webhook that has this id: one or none. */
void store_delivery_find(struct store *store, const char *webhook_id, const char *id,
                         store_deliveries *done, void *ctx);

/* Another delivery of the same event to the same webhook, under a new id. -ENOENT: the event or the
 * webhook is not kept any more. */
void store_delivery_again(struct store *store, const char *webhook_id, const struct delivery *of,
                          const char *id, int64_t now_ms, store_done *done, void *ctx);

struct delivery_mark { /* the result of a try */
    int64_t seq;
    const char *state; /* "pending": to be tried again, "delivered", "failed" */
    int64_t attempts, next_ms, last_ms;
    int64_t status;    /* the HTTP status; 0: there was no answer */
    const char *error; /* NULL when delivered */
};
void store_delivery_mark(struct store *store, const struct delivery_mark *mark, store_done *done,
                         void *ctx);

/* A JSON array: the history of a webhook, with_events: each with the event that is delivered. */
struct deliveries_query {
    const char *webhook_id;
    int64_t offset, limit;
    bool ascending, with_events;
};
void store_deliveries_list(struct store *store, const struct deliveries_query *query,
                           store_text *done, void *ctx);

/* ---- volumes ---- */

struct volume_row {
    const char *id; /* uuid: also its name in the pool */
    const char *team_id;
    const char *name;   /* unique among those of the team that are not removed */
    const char *secret; /* signs its tokens; hex */
    uint32_t size_mb;
    bool removed; /* no client finds it; it is deleted once no sandbox has it any more */
    int64_t created_ms;
};

void store_volume_save(struct store *store, const struct volume_row *row, store_done *done,
                       void *ctx);
void store_volume_delete(struct store *store, const char *id, store_done *done, void *ctx);
must_check int store_load_volumes(struct store *store,
                                  void (*each)(void *ctx, const struct volume_row *row), void *ctx,
                                  struct err *err);

/* ---- sandboxes (serve/store/sandboxes.c) ---- */

struct sandbox_row {
    const char *id;
    const char *team_id;
    const char *template_id;
    const char *template_alias; /* may be NULL */
    const char *build_id;       /* of the template; "" on rows older than events */
    const char *fork_of;        /* the sandbox it is a copy of, when it is inserted; NULL: none */
    const char *state;          /* "running", "paused", "killed" */
    int64_t started_ms;         /* wall clock */
    int64_t end_ms;             /* wall clock: when it times out, or ended */
    int64_t created_ms;         /* never changes: lists are ordered by it */
    const char *end_reason;     /* may be NULL: "request", "timeout", "out of memory", ... */
    const char *access_token;   /* may be NULL */
    const char *options_json;   /* the options of its create: metadata, envVars, flags, network */
    uint32_t cpu_count, memory_mb, disk_mb;
    uint32_t uid_slot;
    int32_t pid;
    uint64_t start_ticks;
    const char *saved;         /* paused: the name of its save; NULL otherwise */
    uint64_t saved_bytes;      /* of its memory, on disk */
    uint64_t saved_disk_bytes; /* of its files */
};

/* Inserts or replaces the row of that id, together with the event that describes the change and the
 * deliveries of that event to webhooks: all of it or nothing. A row cannot change without its
 * event. Row and event are copied. */
void store_sandbox_save(struct store *store, const struct sandbox_row *row,
                        const struct event_row *event, enum store_durability durability,
                        store_done *done, void *ctx);

/* A JSON array of the family of a sandbox: the sandboxes and snapshots that it comes from, and all
 * that comes from those; the nearest first, at most `limit`. Killed sandboxes are in it until their
 * rows are deleted. Only rows of the team count. (serve/store/lineage.c) */
void store_lineage(struct store *store, const char *team_id, const char *sandbox_id, int64_t limit,
                   store_text *done, void *ctx);

/* Once `done` got 0, every row saved before survives a power loss, lazy ones too. Call it before
 * you remove something that a row no longer refers to. */
void store_settle(struct store *store, store_done *done, void *ctx);

/* Every row that is not killed, oldest first. Rows are valid during the call. */
must_check int store_load_sandboxes(struct store *store,
                                    void (*each)(void *ctx, const struct sandbox_row *row),
                                    void *ctx, struct err *err);

/* ---- keys that tools gave to sandboxes (serve/store/sandbox_keys.c) ---- */

/* A text for a sandbox, sealed with the daemon's key. It is deleted when the sandbox is killed.
 * Forks and snapshots get a copy of their source's texts, and sandboxes that start from a snapshot
 * get a copy of the snapshot's: in the transaction that stores the fork, snapshot or sandbox. */
void store_sandbox_keys_save(struct store *store, const char *sandbox_id, const char *sealed,
                             store_done *done, void *ctx);

/* A JSON array of {"sealedFor", "sealed"}, oldest first: of one sandbox, or of all of the team
 * (NULL). A copy of a text names the sandbox that it was saved for. */
void store_sandbox_keys_list(struct store *store, const char *team_id, const char *sandbox_id,
                             store_text *done, void *ctx);

/* ---- teams and keys ---- */

struct team_row {
    const char *id; /* uuid */
    const char *name;
    int64_t created_ms;
    const char *limits; /* JSON object of numbers by name; NULL: none */
};

struct key_row {
    const char *id; /* uuid */
    const char *team_id;
    const char *name;
    const char *hash;   /* SHA-256 of the key, hex */
    const char *prefix; /* "e2b_"; of an access token "sk_e2b_" */
    const char *masked; /* "e2b_ab...wxyz": as lists show it */
    const char *limits; /* as a team's */
    bool read_only;
    int64_t created_ms;
    int64_t last_used_ms; /* 0: never */
};

void store_team_save(struct store *store, const struct team_row *row, store_done *done, void *ctx);
void store_key_save(struct store *store, const struct key_row *row, store_done *done, void *ctx);
void store_key_delete(struct store *store, const char *id, store_done *done, void *ctx);
must_check int store_load_teams(struct store *store,
                                void (*each)(void *ctx, const struct team_row *row), void *ctx,
                                struct err *err);
must_check int store_load_keys(struct store *store,
                               void (*each)(void *ctx, const struct key_row *row), void *ctx,
                               struct err *err);

/* ---- sessions of the dashboard ---- */

struct session_row {
    const char *hash; /* SHA-256 of the cookie's value, hex */
    const char *key_id;
    const char *admin_key_id; /* "": none */
    int64_t created_ms;
    int64_t used_ms;
};

/* They go when their key is deleted. */
void store_session_save(struct store *store, const struct session_row *row, store_done *done,
                        void *ctx);
void store_session_delete(struct store *store, const char *hash, store_done *done, void *ctx);
must_check int store_load_sessions(struct store *store,
                                   void (*each)(void *ctx, const struct session_row *row),
                                   void *ctx, struct err *err);

/* ---- tables for the operator (serve/store/admin.c) ---- */

struct admin_key_row {
    const char *id; /* uuid */
    const char *name;
    const char *hash; /* SHA-256 of the key, hex */
    const char *masked;
    int64_t created_ms;
    int64_t last_used_ms; /* 0: never */
};

void store_admin_key_save(struct store *store, const struct admin_key_row *row, store_done *done,
                          void *ctx);
void store_admin_key_delete(struct store *store, const char *id, store_done *done, void *ctx);
must_check int store_load_admin_keys(struct store *store,
                                     void (*each)(void *ctx, const struct admin_key_row *row),
                                     void *ctx, struct err *err);

/* The key that made the template, build, volume or key of that id. Rows of things that no longer
 * exist are deleted when the daemon starts. */
struct maker_row {
    const char *id;
    const char *key_id;
};
void store_maker_save(struct store *store, const struct maker_row *row);
void store_maker_delete(struct store *store, const char *id);
must_check int store_load_makers(struct store *store,
                                 void (*each)(void *ctx, const struct maker_row *row), void *ctx,
                                 struct err *err);

/* The usage of a team within one hour. It is added to the stored row of that hour. */
struct usage_row {
    const char *team_id;
    int64_t hour_ms;                          /* when the hour began, wall clock */
    int64_t sandbox_ms, cpu_ms, memory_mb_ms; /* of sandboxes: one second of two CPUs is 2000 */
    int64_t disk_mb_ms;                       /* of everything that the team has on the disk */
    int64_t builds, build_ms;                 /* the number that began, and how long they ran */
};
void store_usage_add(struct store *store, const struct usage_row *row, store_done *done, void *ctx);

/* A JSON array of the hours from from_ms to to_ms, oldest first. */
void store_usage_list(struct store *store, const char *team_id, int64_t from_ms, int64_t to_ms,
                      store_text *done, void *ctx);

/* ---- templates ---- */

struct template_row {
    const char *id;       /* 20 of [a-z0-9] */
    const char *alias;    /* "base"; may be NULL */
    const char *team_id;  /* NULL: built in, for every team */
    const char *build_id; /* uuid */
    const char *layers;   /* names in pool/layers, topmost first, separated by ',' */
    const char *user;     /* default user */
    const char *workdir;  /* "": the user's home */
    const char *env_json; /* object of strings */
    uint32_t cpu_count, memory_mb, disk_mb;
    int64_t created_ms;
    bool is_public;
    const char *start_cmd;     /* run at the start of a sandbox; NULL: none */
    const char *ready_cmd;     /* succeeds once the start command is up; NULL: none */
    const char *start_context; /* {user, workdir, env} of both as JSON; NULL: the template's */
    const char *saved;         /* the name of the save of a jail in which both have run */
    uint64_t saved_bytes;      /* of its memory, on disk */
    uint64_t saved_disk_bytes; /* of a snapshot's files */
    const char *snapshot_of;   /* a snapshot: of which sandbox; NULL: not one */
};

void store_template_save(struct store *store, const struct template_row *row, store_done *done,
                         void *ctx);
/* Deletes its builds, their logs and its tags too. */
void store_template_delete(struct store *store, const char *id, store_done *done, void *ctx);
must_check int store_load_templates(struct store *store,
                                    void (*each)(void *ctx, const struct template_row *row),
                                    void *ctx, struct err *err);

/* ---- builds of templates (serve/store/builds.c) ---- */

struct build_row {
    const char *id; /* uuid */
    const char *template_id;
    const char *state;                           /* "waiting", "building", "ready", "error" */
    const char *tags;                            /* are set when it is ready; separated by ',' */
    const char *reason;                          /* of an error, as JSON; else NULL */
    int64_t created_ms, started_ms, finished_ms; /* 0: not yet */
    uint32_t cpu_count, memory_mb, disk_mb;
    const char *layers; /* as in a template; "": not built yet, or deleted */
    const char *user, *workdir, *env_json;
    const char *start_cmd, *ready_cmd, *start_context, *saved; /* as a template's */
    uint64_t bytes;                                            /* of its own layer */
    uint64_t saved_bytes;                                      /* as a template's */
    const char *snapshot_of; /* it is a snapshot of that sandbox; NULL: it was built */
};

void store_build_save(struct store *store, const struct build_row *row, store_done *done,
                      void *ctx);
void store_build_delete(struct store *store, const char *id, store_done *done, void *ctx);
must_check int store_load_builds(struct store *store,
                                 void (*each)(void *ctx, const struct build_row *row), void *ctx,
                                 struct err *err);

struct build_log_row {
    const char *build_id;
    int32_t level;
    const char *entry; /* JSON, as it is served */
};
void store_build_log_save(struct store *store, const struct build_log_row *row, store_done *done,
                          void *ctx);

struct build_log_query {
    const char *build_id;
    int level; /* the lowest that is listed */
    int64_t offset, limit;
    bool backward; /* the newest first */
};
/* A JSON array. */
void store_build_logs_list(struct store *store, const struct build_log_query *query,
                           store_text *done, void *ctx);

struct tag_row {
    const char *template_id;
    const char *tag;
    const char *build_id;
    int64_t created_ms;
};

void store_tag_save(struct store *store, const struct tag_row *row, store_done *done, void *ctx);
void store_tag_delete(struct store *store, const char *template_id, const char *tag,
                      store_done *done, void *ctx);
must_check int store_load_tags(struct store *store,
                               void (*each)(void *ctx, const struct tag_row *tag,
                                            const struct build_row *build),
                               void *ctx, struct err *err);

/* A JSON array of the ready builds that tags of the template name or have named, newest first:
 * {"tag", "assignmentId", "buildId", "assignedMs", "buildCreatedMs", "buildFinishedMs"}. */
void store_tag_assignments(struct store *store, const char *template_id, store_text *done,
                           void *ctx);

struct step_row {    /* the cached result of a step: a build with the same steps starts from it */
    const char *key; /* the hash of all steps up to this one, hex */
    const char *team_id;
    const char *saved; /* the name of its save; "": the step did not change the disk */
    const char *user, *workdir, *env_json;
    uint64_t bytes;
    int64_t created_ms, used_ms;
};

void store_step_save(struct store *store, const struct step_row *row, store_done *done, void *ctx);
void store_step_delete(struct store *store, const char *key, store_done *done, void *ctx);
must_check int store_load_steps(struct store *store,
                                void (*each)(void *ctx, const struct step_row *row), void *ctx,
                                struct err *err);

struct file_row { /* an archive that a client uploaded for COPY */
    const char *team_id;
    const char *hash;   /* the client's name for it */
    const char *sha256; /* of the uploaded bytes: the name of the file */
    uint64_t bytes;
    int64_t created_ms, used_ms;
};

void store_file_save(struct store *store, const struct file_row *row, store_done *done, void *ctx);
void store_file_delete(struct store *store, const char *team_id, const char *hash, store_done *done,
                       void *ctx);
must_check int store_load_files(struct store *store,
                                void (*each)(void *ctx, const struct file_row *row), void *ctx,
                                struct err *err);

/* ---- secrets (serve/store/secrets.c) ---- */

struct secret_row {
    const char *id; /* "sec_" and a uuid */
    const char *team_id;
    const char *name;
    const char *metadata; /* object of strings */
    const char *sealed;   /* the value of that version, sealed by serve/secrets/seal.h */
    int64_t version;
    int64_t created_ms, updated_ms;
};

/* The row must have a new version. Older versions are kept, up to a number. */
void store_secret_save(struct store *store, const struct secret_row *row, store_done *done,
                       void *ctx);
void store_secret_delete(struct store *store, const char *id, store_done *done, void *ctx);
must_check int store_load_secrets(struct store *store,
                                  void (*each)(void *ctx, const struct secret_row *row), void *ctx,
                                  struct err *err);

/* ---- API shells ---- */

struct shell_row {
    const char *team_id;
    const char *name;
    const char *definition; /* JSON */
    const char *sealed;     /* its key; NULL when that is a secret of the team */
    int64_t created_ms, updated_ms;
};

/* Inserts or replaces the shell of that name. */
void store_shell_save(struct store *store, const struct shell_row *row, store_done *done,
                      void *ctx);
void store_shell_delete(struct store *store, const char *team_id, const char *name,
                        store_done *done, void *ctx);
must_check int store_load_shells(struct store *store,
                                 void (*each)(void *ctx, const struct shell_row *row), void *ctx,
                                 struct err *err);

/* ---- the audit log (serve/store/audit.c) ---- */

struct audit_row { /* a call that has begun; texts are "" where there is nothing to say */
    int64_t seq;
    int64_t time_ms;
    const char *team_id;
    const char *actor_id, *actor_name, *actor_type; /* "key", "admin", "token" */
    const char *source;                             /* the address of the client */
    const char *via;                                /* "api", "tools" or "dashboard" */
    const char *session; /* of the dashboard: the beginning of its hash */
    const char *action;  /* "sandbox.kill" */
    const char *object;
    const char *parent; /* the object that it is part of */
};

struct audit_outcome {
    int64_t seq;
    int64_t status; /* of HTTP */
    int64_t took_ms;
    const char *error; /* a sentence; NULL: none */
    const char *object;
    const char *made; /* a JSON array of the ids of new objects; NULL: none */
};

/* The highest number that a row ever had. Calls that an earlier daemon left unanswered are closed.
 * Blocks: for the start. */
must_check int store_audit_open(struct store *store, int64_t *last, struct err *err);

/* In the order of the calls: a row is on record before, or together with, every change that is
 * given to the store after it. */
void store_audit_begin(struct store *store, const struct audit_row *row);
void store_audit_end(struct store *store, const struct audit_outcome *outcome);

/* Deletes some of the rows that are older than that, or have a lower number. */
void store_audit_forget(struct store *store, int64_t before_ms, int64_t before_seq);

/* Keeps so many of a team's rows, the newest. */
void store_audit_forget_team(struct store *store, const char *team_id, int64_t most);

struct audit_query { /* NULL: of all */
    const char *team_id;
    const char *actor;  /* the id of a key */
    const char *action; /* a pattern with '*' */
    const char *object;
    int64_t from_ms, to_ms;
    int64_t cursor; /* a number: rows behind it in the order */
    int64_t limit;
    bool for_operator;
    bool oldest_first; /* ends before the first call that is under way */
};

/* A JSON array. */
void store_audit_list(struct store *store, const struct audit_query *query, store_text *done,
                      void *ctx);

/* ---- code artifacts (serve/store/artifacts.c) ---- */

struct artifact_row {
    const char *team_id;
    const char *path;
    const char *content;
    const char *language, *entrypoint, *description;
    const char *sha256;
    int64_t size;
    int64_t now_ms;
    int64_t team_max; /* the team may have so many */
    bool replace;     /* an artifact of that path may get a new version */
};

/* -EEXIST when `replace` or `team_max` do not allow it. */
void store_artifact_save(struct store *store, const struct artifact_row *row, store_done *done,
                         void *ctx);
void store_artifact_delete(struct store *store, const char *team_id, const char *path,
                           store_done *done, void *ctx);

/* A JSON array: the artifact of that path with its content; or, when path is NULL, all artifacts of
 * the team without their content. */
void store_artifacts_list(struct store *store, const char *team_id, const char *path,
                          store_text *done, void *ctx);

#endif
