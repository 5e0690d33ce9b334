/* The loop's thread appends jobs to `queue`. The writer takes up to STORE_BATCH_MAX of them, runs
 * them in one transaction, moves them to `finished` and wakes the loop, which calls their `done`.
 *
 * A transaction has many jobs, and no job may harm another: each runs inside a savepoint, so a
 * statement that fails undoes only its own job. When the transaction as a whole fails (the disk is
 * full, the commit cannot be written), nothing of it is stored. Its jobs then run again, each in a
 * transaction of its own, and only those that fail again are reported as failed.
 */
#include "serve/store/store.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "lib/base/alloc.h"
#include "lib/base/busy.h"
#include "lib/base/clock.h"
#include "lib/base/fd.h"
#include "lib/base/id.h"
#include "lib/base/log.h"
#include "serve/store/internal.h"

struct prepared {
    const struct store_statement *statement;
    sqlite3_stmt *stmt;
};

struct store {
    char *path;
    uv_thread_t writer;
    uv_async_t wake; /* on the loop */
    uv_timer_t late; /* likewise: wakes the writer for jobs that can wait */
    int handles;     /* that libuv has not closed yet */
    struct events_watch *watches;

    uint64_t waiting, failed; /* used on the loop alone, for store_figures() */

    uv_mutex_t lock; /* guards the five below */
    uv_cond_t work;
    struct store_job *queue;
    struct store_job *finished;
    struct histogram commit;
    bool closing;

    /* used by the writer alone */
    sqlite3 *db;
    struct prepared prepared[STORE_STATEMENTS_MAX];
    int64_t purged_mono_ms;
};

/* ---- errors ---- */

static int errno_of(sqlite3 *db)
{
    int system = sqlite3_system_errno(db);

    if (system == ENOSPC) {
        return EDQUOT; /* also where SQLite calls it an I/O error: growing its shared index */
    }
    switch (sqlite3_errcode(db) & 0xff) {
    case SQLITE_FULL:
        return EDQUOT;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return EBUSY;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return EUCLEAN;
    case SQLITE_READONLY:
        return EROFS;
    case SQLITE_PERM:
    case SQLITE_AUTH:
    case SQLITE_CANTOPEN:
        return system ? system : EACCES;
    case SQLITE_NOMEM:
        return ENOMEM;
    case SQLITE_CONSTRAINT:
        return EEXIST;
    case SQLITE_TOOBIG:
        return EMSGSIZE;
    default: /* SQLITE_IOERR above all: a write past a quota or a limit says so in errno */
        return system ? system : EIO;
    }
}

int store_fail(sqlite3 *db, struct err *err, const char *what)
{
    int code = errno_of(db);
    int system = sqlite3_system_errno(db);
    bool io = (sqlite3_errcode(db) & 0xff) == SQLITE_IOERR && system != 0;

    return err_set(err, code, "%s: %s%s%s", what, sqlite3_errmsg(db), io ? ": " : "",
                   io ? strerror(system) : "");
}

/* ---- jobs ---- */

static void job_queue(struct store *store, struct store_job *job, bool wakes)
{
    store->waiting++;
    uv_mutex_lock(&store->lock);
    assert(!store->closing);
    DL_APPEND(store->queue, job);
    if (wakes) {
        uv_cond_signal(&store->work);
    }
    uv_mutex_unlock(&store->lock);
}

void store_submit(struct store *store, struct store_job *job, enum store_durability durability,
                  store_done *done, void *ctx)
{
    job->durability = durability;
    job->done = done;
    job->ctx = ctx;
    job_queue(store, job, true);
}

static void on_late(uv_timer_t *timer)
{
    struct store *store = container_of(timer, struct store, late);

    uv_mutex_lock(&store->lock);
    uv_cond_signal(&store->work);
    uv_mutex_unlock(&store->lock);
}

void store_submit_late(struct store *store, struct store_job *job)
{
    job->durability = STORE_LAZY;
    job_queue(store, job, false);
    if (!uv_is_active((uv_handle_t *)&store->late)) {
        (void)uv_timer_start(&store->late, on_late, STORE_LATE_MS, 0);
    }
}

/* ---- the writer's thread ---- */

static int exec(sqlite3 *db, const char *sql, const char *what, struct err *err)
{
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK) {
        return store_fail(db, err, what);
    }
    return 0;
}

static sqlite3_stmt *prepare(sqlite3 *db, const struct store_step *step)
{
    scoped_buf(made, STORE_SQL_BYTES_MAX);
    sqlite3_stmt *stmt = NULL;

    if (step->table && step->statement == &step->table->save) {
        table_sql_save(step->table, &made);
    } else if (step->table) {
        table_sql_delete(step->table, &made);
    }
    /* A NULL statement says that it failed. */
    (void)sqlite3_prepare_v3(db, step->table ? buf_at(&made) : step->statement->sql, -1,
                             SQLITE_PREPARE_PERSISTENT, &stmt, NULL);
    return stmt;
}

static sqlite3_stmt *prepared_get(struct store *store, const struct store_step *step)
{
    for (size_t i = 0;; i++) {
        assert(i < STORE_STATEMENTS_MAX);
        struct prepared *slot = &store->prepared[i];

        if (slot->statement == step->statement) {
            return slot->stmt;
        }
        if (!slot->statement) {
            slot->stmt = prepare(store->db, step);
            slot->statement = slot->stmt ? step->statement : NULL;
            return slot->stmt;
        }
    }
}

static int step_run(struct store *store, struct store_job *job, const struct store_step *step)
{
    sqlite3_stmt *stmt = prepared_get(store, step);
    int r = 0;

    if (!stmt) {
        return store_fail(store->db, &job->err, step->statement->what);
    }
    if (store_job_bind(job, step, stmt) != SQLITE_OK || sqlite3_step(stmt) != SQLITE_DONE) {
        r = store_fail(store->db, &job->err, step->statement->what);
    } else if (step->unchanged && sqlite3_changes(store->db) == 0) {
        r = err_set(&job->err, step->unchanged, "%s: refused by what is there",
                    step->statement->what);
    }
    (void)sqlite3_reset(stmt);
    (void)sqlite3_clear_bindings(stmt);
    return r;
}

/* 0, or -errno with the sentence in the job. The caller handles the savepoint. */
static int job_steps(struct store *store, struct store_job *job)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < job->steps_n; i++) {
        r = step_run(store, job, &job->steps[i]);
    }
    return r;
}

/* False when the whole transaction is gone: SQLite rolls it back by itself on some failures. */
static bool job_run(struct store *store, struct store_job *job)
{
    const char *what = job->steps[0].statement->what;

    if (job->err.code != 0) {
        return true; /* its values did not fit: it fails without touching the disk */
    }
    if (exec(store->db, "SAVEPOINT job", what, &job->err) < 0) {
        return false;
    }
    if (job_steps(store, job) < 0) {
        return !sqlite3_get_autocommit(store->db) &&
               sqlite3_exec(store->db, "ROLLBACK TO job; RELEASE job", NULL, NULL, NULL) ==
                   SQLITE_OK;
    }
    return exec(store->db, "RELEASE job", what, &job->err) == 0;
}

static bool batch_wants_sync(const struct store_job *batch)
{
    const struct store_job *job;

    DL_FOREACH (batch, job) {
        if (job->durability == STORE_SYNC) {
            return true;
        }
    }
    return false;
}

static int batch_transaction(struct store *store, struct store_job *batch, struct err *err)
{
    /* In WAL mode FULL syncs the log at every commit, and NORMAL only at checkpoints. A commit that
     * is not synced survives the death of the process, but not a power loss. */
    bool sync = batch_wants_sync(batch);
    int r = exec(store->db, sync ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL",
                 "set the durability of a transaction", err);

    if (r == 0) {
        r = exec(store->db, "BEGIN IMMEDIATE", "begin a transaction", err);
    }
    if (r < 0) {
        return r;
    }

    struct store_job *job;
    DL_FOREACH (batch, job) {
        if (!job_run(store, job)) {
            *err = job->err;
            return -err->code;
        }
    }
    return exec(store->db, "COMMIT", "commit", err);
}

/* Each job of a failed transaction that has no error of its own gets the transaction's error. */
static void batch_fail(struct store_job *batch, const struct err *why)
{
    struct store_job *job;

    DL_FOREACH (batch, job) {
        if (job->err.code == 0) {
            (void)err_set(&job->err, why->code, "%s: %s", job->steps[0].statement->what, why->msg);
        }
    }
}

/* 0 when the transaction was committed, even if some of its jobs failed. */
static int batch_run(struct store *store, struct store_job *batch)
{
    struct err err = {0};
    int r = batch_transaction(store, batch, &err);

    if (r < 0) {
        if (!sqlite3_get_autocommit(store->db)) {
            (void)sqlite3_exec(store->db, "ROLLBACK", NULL, NULL, NULL);
        }
        batch_fail(batch, &err);
    }
    return r;
}

static struct store_job *batch_run_singly(struct store *store, struct store_job *batch)
{
    struct store_job *finished = NULL;
    struct store_job *job, *next;

    DL_FOREACH_SAFE (batch, job, next) {
        struct store_job *one = NULL;

        DL_DELETE(batch, job);
        DL_APPEND(one, job);
        if (job->err.code != ENOBUFS) {
            job->err = (struct err){0};
        }
        (void)batch_run(store, one); /* the error is in the job */
        DL_DELETE(one, job);
        DL_APPEND(finished, job);
    }
    return finished;
}

/* SQLite syncs nothing at a commit that changes no page. So STORE_SETTLE syncs the log itself. */
static int log_sync(struct store *store, struct err *err)
{
    sqlite3_file *log = NULL;
    int code = sqlite3_file_control(store->db, "main", SQLITE_FCNTL_JOURNAL_POINTER, (void *)&log);

    if (code == SQLITE_OK && log && log->pMethods) {
        code = log->pMethods->xSync(log, SQLITE_SYNC_NORMAL);
    }
    return code == SQLITE_OK ? 0
                             : err_set(err, EIO, "write the log of %s to the disk: %s", store->path,
                                       sqlite3_errstr(code));
}

static void batch_settle(struct store *store, struct store_job *batch)
{
    struct store_job *job;
    bool synced = false;

    DL_FOREACH (batch, job) {
        if (job->durability == STORE_SETTLE && job->err.code == 0 && !synced) {
            synced = log_sync(store, &job->err) == 0;
        }
    }
}

/* Deletes rows that are older than STORE_EVENTS_KEPT_MS. A purge that fails is tried again in an
 * hour: old rows do no harm. */
static void purge(struct store *store)
{
    static const char sql[] = "DELETE FROM sandboxes WHERE state = 'killed' AND end_ms < %lld;"
                              "DELETE FROM deliveries WHERE created_ms < %lld;"
                              "DELETE FROM events WHERE timestamp_ms < %lld";
    long long before = (long long)(clock_wall_ms() - STORE_EVENTS_KEPT_MS);
    int64_t now = clock_mono_ms();
    char text[sizeof(sql) + 64];
    struct err err;

    if (store->purged_mono_ms != 0 && now - store->purged_mono_ms < STORE_PURGE_EVERY_MS) {
        return;
    }
    store->purged_mono_ms = now;
    (void)snprintf(text, sizeof(text), sql, before, before, before);
    if (exec(store->db, text, "forget old events", &err) < 0) {
        log_warn("store: %s", err.msg);
    }
}

static struct store_job *batch_take(struct store *store)
{
    struct store_job *batch = NULL;

    uv_mutex_lock(&store->lock);
    while (!store->queue && !store->closing) {
        uv_cond_wait(&store->work, &store->lock);
    }
    for (int i = 0; i < STORE_BATCH_MAX && store->queue; i++) {
        struct store_job *job = store->queue;

        DL_DELETE(store->queue, job);
        DL_APPEND(batch, job);
    }
    uv_mutex_unlock(&store->lock);
    return batch;
}

static void writer_main(void *arg)
{
    struct store *store = arg;
    struct store_job *batch;

    while ((batch = batch_take(store))) {
        int64_t begun_us = clock_mono_us();

        if (batch_run(store, batch) < 0 && batch->next) {
            batch = batch_run_singly(store, batch);
        }
        batch_settle(store, batch);
        uv_mutex_lock(&store->lock);
        histogram_add(&store->commit, clock_mono_us() - begun_us);
        DL_CONCAT(store->finished, batch);
        uv_mutex_unlock(&store->lock);
        (void)uv_async_send(&store->wake);
        purge(store);
    }
}

/* ---- the loop's thread ---- */

static void watches_note(struct store *store, const struct store_job *job)
{
    struct events_watch *watch;

    if (!job->event_team[0] || job->err.code != 0) {
        return;
    }
    DL_FOREACH (store->watches, watch) {
        watch->due = watch->due || !watch->team_id || strcmp(watch->team_id, job->event_team) == 0;
    }
}

static void watches_call(struct store *store)
{
    struct events_watch *watch;

    DL_FOREACH (store->watches, watch) {
        if (watch->due) {
            watch->due = false;
            watch->on_event(watch);
        }
    }
}

static void finished_deliver(struct store *store)
{
    struct store_job *job, *next;

    uv_mutex_lock(&store->lock);
    struct store_job *finished = store->finished;
    store->finished = NULL;
    uv_mutex_unlock(&store->lock);

    DL_FOREACH_SAFE (finished, job, next) {
        watches_note(store, job);
        store->waiting--;
        store->failed += job->err.code != 0;
        if (job->done) {
            job->done(job->ctx, -job->err.code, &job->err);
        } else if (job->err.code != 0) {
            log_error("store: %s", job->err.msg); /* there is no caller to tell */
        }
        store_job_free(job);
    }
    watches_call(store);
}

struct store_figures store_figures(struct store *store)
{
    struct store_figures figures = {.waiting = store->waiting, .failed = store->failed};

    uv_mutex_lock(&store->lock);
    figures.commit = store->commit;
    uv_mutex_unlock(&store->lock);
    return figures;
}

void store_events_watch(struct store *store, struct events_watch *watch)
{
    watch->due = false;
    DL_APPEND(store->watches, watch);
}

void store_events_unwatch(struct store *store, struct events_watch *watch)
{
    DL_DELETE(store->watches, watch);
}

static void on_wake(uv_async_t *wake)
{
    busy("results of the store");
    finished_deliver(container_of(wake, struct store, wake));
}

/* ---- opening and closing ---- */

uv_loop_t *store_loop(const struct store *store)
{
    return store->wake.loop;
}

const char *store_path(const struct store *store)
{
    return store->path;
}

int store_db_open(const char *path, int flags, sqlite3 **db, struct err *err)
{
    char what[128];

    (void)snprintf(what, sizeof(what), "open the database %s", path);
    if (sqlite3_open_v2(path, db, flags | SQLITE_OPEN_FULLMUTEX, NULL) != SQLITE_OK) {
        return *db ? store_fail(*db, err, what) : err_set(err, ENOMEM, "%s: out of memory", what);
    }
    (void)sqlite3_extended_result_codes(*db, 1);
    (void)sqlite3_busy_timeout(*db, STORE_BUSY_MS);
    return 0;
}

/* The file holds tokens, so it is created with mode 0600; SQLite gives its log the same mode. The
 * directory is synced so that the name of a new file survives a power loss too. */
static int file_prepare(const char *path, struct err *err)
{
    scoped_fd fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        return err_sys(err, "open the database %s", path);
    }
    char *copy = strdup(path);
    scoped_fd dir = copy ? open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    free(copy);
    if (dir < 0 || fsync(dir) < 0) {
        return err_sys(err, "sync the directory of %s", path);
    }
    return 0;
}

static void sql_uuid(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    char id[ID_UUID_LEN + 1];

    (void)argc, (void)argv;
    id_uuid(id);
    sqlite3_result_text(context, id, ID_UUID_LEN, SQLITE_TRANSIENT);
}

static int db_teach(sqlite3 *db, struct err *err)
{
    int flags = SQLITE_UTF8 | SQLITE_DIRECTONLY;

    return sqlite3_create_function(db, "uuid", 0, flags, NULL, sql_uuid, NULL, NULL) == SQLITE_OK
               ? 0
               : store_fail(db, err, "set up");
}

/* A template and its first build are stored one after the other. A template that was stored without
 * its build was reported to no client, and no sandbox could start from it. */
static int halves_remove(struct store *store, struct err *err)
{
    return exec(store->db,
                "DELETE FROM templates WHERE team_id IS NOT NULL AND build_id = ''"
                " AND saved IS NULL AND snapshot_of IS NULL"
                " AND id NOT IN (SELECT template_id FROM builds)",
                "remove templates that were cut short", err);
}

static int store_prepare(struct store *store, struct err *err)
{
    int r = file_prepare(store->path, err);

    if (r == 0) {
        r = store_db_open(store->path, SQLITE_OPEN_READWRITE, &store->db, err);
    }
    if (r == 0) {
        r = exec(store->db, "PRAGMA journal_mode = WAL; PRAGMA foreign_keys = ON", "set up", err);
    }
    if (r == 0) {
        r = db_teach(store->db, err);
    }
    if (r == 0) {
        r = store_migrate(store->db, store->path, err);
    }
    if (r == 0) {
        r = halves_remove(store, err);
    }
    return r < 0 && err->code == EUCLEAN ? err_wrap(err, "%s is damaged", store->path) : r;
}

static void db_close(struct store *store)
{
    for (size_t i = 0; i < STORE_STATEMENTS_MAX; i++) {
        (void)sqlite3_finalize(store->prepared[i].stmt);
    }
    (void)sqlite3_close(store->db);
    store->db = NULL;
}

static void store_free(struct store *store)
{
    uv_cond_destroy(&store->work);
    uv_mutex_destroy(&store->lock);
    free(store->path);
    free(store);
}

static void on_closed(uv_handle_t *handle)
{
    struct store *store = handle->data;

    if (--store->handles == 0) {
        store_free(store);
    }
}

static void handles_close(struct store *store)
{
    store->wake.data = store->late.data = store;
    store->handles = 2;
    uv_close((uv_handle_t *)&store->late, on_closed);
    uv_close((uv_handle_t *)&store->wake, on_closed);
}

int store_open(uv_loop_t *loop, const char *path, struct store **out, struct err *err)
{
    struct store *store = xnew(struct store);
    int r;

    store->path = xstrdup(path);
    if (uv_mutex_init(&store->lock) < 0 || uv_cond_init(&store->work) < 0) {
        abort();
    }
    r = store_prepare(store, err);
    if (r < 0) {
        db_close(store);
        store_free(store);
        return r;
    }
    purge(store);

    r = uv_async_init(loop, &store->wake, on_wake);
    if (r < 0) {
        db_close(store);
        store_free(store);
        return err_set(err, -r, "watch the database's writer: %s", uv_strerror(r));
    }
    (void)uv_timer_init(loop, &store->late);
    r = uv_thread_create(&store->writer, writer_main, store);
    if (r < 0) {
        db_close(store);
        handles_close(store);
        return err_set(err, -r, "start the database's writer: %s", uv_strerror(r));
    }
    *out = store;
    return 0;
}

void store_close(struct store *store)
{
    if (!store) {
        return;
    }
    uv_mutex_lock(&store->lock);
    store->closing = true;
    uv_cond_signal(&store->work);
    uv_mutex_unlock(&store->lock);

    (void)uv_thread_join(&store->writer);
    finished_deliver(store);
    db_close(store);
    handles_close(store);
}
