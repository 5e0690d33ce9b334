/* store.h - durable state: SQLite in WAL mode, with one thread that writes.
 *
 * Owns:     the database file and the writer thread.
 * Needs:    a libuv loop for the answers. The directory must exist and be ours.
 * Blocks:   store_open() and the store_load_* calls (start-up only); the rest never.
 * Threads:  called on the loop's thread. Jobs run on the writer's, many to a transaction, in the
 *           order given; `done` is called on the loop after the commit.
 *
 * Durable means: a `done` with 0 survives kill -9 of this process always, and power loss when the
 * job was given STORE_SYNC. A running sandbox's row needs no sync (its jail would not survive
 * either); keys, teams, templates and paused sandboxes do.
 *
 * The running daemon reads from memory (sandbox/, api/ keep their tables); the store is read back
 * when it starts.
 */
#ifndef STORE_STORE_H
#define STORE_STORE_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/compiler.h"
#include "base/err.h"

struct store;

enum store_durability { STORE_LAZY, STORE_SYNC };

/* error: 0 or -errno, with a sentence in err (never NULL). A NULL `done` is fine everywhere: a
 * failure is then logged. */
typedef void store_done(void *ctx, int error, const struct err *err);

must_check int store_open(uv_loop_t *loop, const char *path, struct store **out, struct err *err);

/* Runs what is queued, calls every `done` that is owed, then closes. Blocks for as long as that
 * takes. So it comes before the end of whatever those calls touch; the loop must run once more
 * afterwards, to let go of our handle. NULL is fine. */
void store_close(struct store *store);

/* ---- sandboxes (store/sandboxes.c) ---- */

struct sandbox_row {
    const char *id;
    const char *team_id;
    const char *template_id;
    const char *template_alias; /* may be NULL */
    const char *state;          /* "running", "paused", "killed" */
    int64_t started_ms;         /* wall clock */
    int64_t end_ms;             /* wall clock: when it times out, or did end */
    int64_t created_ms;         /* never changes: what lists are ordered by */
    const char *end_reason;     /* may be NULL: "request", "timeout", "out of memory", ... */
    const char *access_token;   /* may be NULL */
    const char *options_json;   /* metadata, envVars, flags, network: what create was given */
    uint32_t cpu_count, memory_mb, disk_mb;
    uint32_t uid_slot;
    int32_t pid;
    uint64_t start_ticks;
};

/* Inserts, or replaces the row of that id. The row is copied. */
void store_sandbox_save(struct store *store, const struct sandbox_row *row,
                        enum store_durability durability, store_done *done, void *ctx);

/* Every row that is not killed, oldest first. Rows are valid during the call. */
must_check int store_load_sandboxes(struct store *store,
                                    void (*each)(void *ctx, const struct sandbox_row *row),
                                    void *ctx, struct err *err);

/* ---- teams and keys (store/teams.c) ---- */

struct team_row {
    const char *id; /* uuid */
    const char *name;
    int64_t created_ms;
};

struct key_row {
    const char *id; /* uuid */
    const char *team_id;
    const char *name;
    const char *hash;   /* SHA-256 of the key, hex */
    const char *prefix; /* "e2b_" */
    const char *masked; /* "e2b_ab...wxyz": what lists show */
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

/* ---- templates (store/templates.c) ---- */

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
};

void store_template_save(struct store *store, const struct template_row *row, store_done *done,
                         void *ctx);
must_check int store_load_templates(struct store *store,
                                    void (*each)(void *ctx, const struct template_row *row),
                                    void *ctx, struct err *err);

#endif
