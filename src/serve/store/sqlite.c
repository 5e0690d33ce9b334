/* sqlite.c - the store in a file: SQLite in WAL mode.
 *
 * A transaction has many jobs, and no job may harm another: each runs inside a savepoint, so a
 * statement that fails undoes only its own job. When the transaction as a whole fails (the disk is
 * full, the commit cannot be written), nothing of it is stored. Its jobs then run again, each in a
 * transaction of its own, and only those that fail again are reported as failed.
 *
 * A query has a connection of its own. In WAL mode readers and the writer do not wait for each
 * other, and a query sees everything that was committed before it.
 */
#include "serve/store/sqlite.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "lib/base/alloc.h"
#include "lib/base/fd.h"
#include "serve/store/engine.h"

enum { SQLITE_WAIT_MS = 5000 }; /* another process may hold the file that long */

struct prepared {
    const struct store_statement *statement;
    sqlite3_stmt *stmt;
};

struct sqlite {
    struct store_engine engine;
    char *path;
    sqlite3 *db;
    struct prepared prepared[STORE_STATEMENTS_MAX];
};

static struct sqlite *sqlite_of(struct store_engine *engine)
{
    return container_of(engine, struct sqlite, engine);
}

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

/* ---- the writer's thread ---- */

static int exec(sqlite3 *db, const char *sql, const char *what, struct err *err)
{
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK) {
        return store_fail(db, err, what);
    }
    return 0;
}

static int db_open(const char *path, int flags, sqlite3 **db, struct err *err)
{
    char what[128];

    (void)snprintf(what, sizeof(what), "open the database %s", path);
    if (sqlite3_open_v2(path, db, flags | SQLITE_OPEN_FULLMUTEX, NULL) != SQLITE_OK) {
        return *db ? store_fail(*db, err, what) : err_set(err, ENOMEM, "%s: out of memory", what);
    }
    (void)sqlite3_extended_result_codes(*db, 1);
    (void)sqlite3_busy_timeout(*db, SQLITE_WAIT_MS);
    return 0;
}

static sqlite3_stmt *prepare(sqlite3 *db, const struct store_step *step)
{
    scoped_buf(made, STORE_SQL_BYTES_MAX);
    sqlite3_stmt *stmt = NULL;

    /* A NULL statement says that it failed. */
    (void)sqlite3_prepare_v3(db, store_step_sql(step, &made), -1, SQLITE_PREPARE_PERSISTENT, &stmt,
                             NULL);
    return stmt;
}

static sqlite3_stmt *prepared_get(struct sqlite *lite, const struct store_step *step)
{
    for (size_t i = 0;; i++) {
        assert(i < STORE_STATEMENTS_MAX);
        struct prepared *slot = &lite->prepared[i];

        if (slot->statement == step->statement) {
            return slot->stmt;
        }
        if (!slot->statement) {
            slot->stmt = prepare(lite->db, step);
            slot->statement = slot->stmt ? step->statement : NULL;
            return slot->stmt;
        }
    }
}

static int job_bind(const struct store_job *job, const struct store_step *step, sqlite3_stmt *stmt)
{
    int r = SQLITE_OK;

    for (size_t i = 0; i < step->n && r == SQLITE_OK; i++) {
        const struct store_value *value = &job->values[step->first + i];
        int at = (int)i + 1;

        switch (value->kind) {
        case VALUE_NULL:
            r = sqlite3_bind_null(stmt, at);
            break;
        case VALUE_TEXT:
            r = sqlite3_bind_text64(stmt, at, store_job_text_at(job, value), value->text_len,
                                    SQLITE_STATIC, SQLITE_UTF8);
            break;
        case VALUE_INT:
            r = sqlite3_bind_int64(stmt, at, value->number);
            break;
        }
    }
    return r;
}

static int step_run(struct sqlite *lite, struct store_job *job, const struct store_step *step)
{
    sqlite3_stmt *stmt = prepared_get(lite, step);
    int r = 0;

    if (!stmt) {
        return store_fail(lite->db, &job->err, step->statement->what);
    }
    if (job_bind(job, step, stmt) != SQLITE_OK || sqlite3_step(stmt) != SQLITE_DONE) {
        r = store_fail(lite->db, &job->err, step->statement->what);
    } else if (step->unchanged && sqlite3_changes(lite->db) == 0) {
        r = err_set(&job->err, step->unchanged, "%s: refused by what is there",
                    step->statement->what);
    }
    (void)sqlite3_reset(stmt);
    (void)sqlite3_clear_bindings(stmt);
    return r;
}

/* 0, or -errno with the sentence in the job. The caller handles the savepoint. */
static int job_steps(struct sqlite *lite, struct store_job *job)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < job->steps_n; i++) {
        r = step_run(lite, job, &job->steps[i]);
    }
    return r;
}

/* False when the whole transaction is gone: SQLite rolls it back by itself on some failures. */
static bool job_run(struct sqlite *lite, struct store_job *job)
{
    const char *what = job->steps[0].statement->what;

    if (job->err.code != 0) {
        return true; /* its values did not fit: it fails without touching the disk */
    }
    if (exec(lite->db, "SAVEPOINT job", what, &job->err) < 0) {
        return false;
    }
    if (job_steps(lite, job) < 0) {
        return !sqlite3_get_autocommit(lite->db) &&
               sqlite3_exec(lite->db, "ROLLBACK TO job; RELEASE job", NULL, NULL, NULL) ==
                   SQLITE_OK;
    }
    return exec(lite->db, "RELEASE job", what, &job->err) == 0;
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

static int batch_transaction(struct sqlite *lite, struct store_job *batch, struct err *err)
{
    /* In WAL mode FULL syncs the log at every commit, and NORMAL only at checkpoints. A commit that
     * is not synced survives the death of the process, but not a power loss. */
    bool sync = batch_wants_sync(batch);
    int r = exec(lite->db, sync ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL",
                 "set the durability of a transaction", err);

    if (r == 0) {
        r = exec(lite->db, "BEGIN IMMEDIATE", "begin a transaction", err);
    }
    if (r < 0) {
        return r;
    }

    struct store_job *job;
    DL_FOREACH (batch, job) {
        if (!job_run(lite, job)) {
            *err = job->err;
            return -err->code;
        }
    }
    return exec(lite->db, "COMMIT", "commit", err);
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
static int batch_run(struct sqlite *lite, struct store_job *batch)
{
    struct err err = {0};
    int r = batch_transaction(lite, batch, &err);

    if (r < 0) {
        if (!sqlite3_get_autocommit(lite->db)) {
            (void)sqlite3_exec(lite->db, "ROLLBACK", NULL, NULL, NULL);
        }
        batch_fail(batch, &err);
    }
    return r;
}

static struct store_job *batch_run_singly(struct sqlite *lite, struct store_job *batch)
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
        (void)batch_run(lite, one); /* the error is in the job */
        DL_DELETE(one, job);
        DL_APPEND(finished, job);
    }
    return finished;
}

/* SQLite syncs nothing at a commit that changes no page. So STORE_SETTLE syncs the log itself. */
static int log_sync(struct sqlite *lite, struct err *err)
{
    sqlite3_file *log = NULL;
    int code = sqlite3_file_control(lite->db, "main", SQLITE_FCNTL_JOURNAL_POINTER, (void *)&log);

    if (code == SQLITE_OK && log && log->pMethods) {
        code = log->pMethods->xSync(log, SQLITE_SYNC_NORMAL);
    }
    return code == SQLITE_OK ? 0
                             : err_set(err, EIO, "write the log of %s to the disk: %s", lite->path,
                                       sqlite3_errstr(code));
}

static void batch_settle(struct sqlite *lite, struct store_job *batch)
{
    struct store_job *job;
    bool synced = false;

    DL_FOREACH (batch, job) {
        if (job->durability == STORE_SETTLE && job->err.code == 0 && !synced) {
            synced = log_sync(lite, &job->err) == 0;
        }
    }
}

/* ---- queries, on any thread ---- */

struct file_source {
    struct store_source source;
    char *path;
};

struct lite_row {
    struct store_row row;
    sqlite3_stmt *stmt;
};

static const char *row_text(const struct store_row *row, int column)
{
    const struct lite_row *own = (const struct lite_row *)row;

    return (const char *)sqlite3_column_text(own->stmt, column);
}

static int64_t row_number(const struct store_row *row, int column)
{
    const struct lite_row *own = (const struct lite_row *)row;

    return sqlite3_column_int64(own->stmt, column);
}

static int query_rows(sqlite3 *db, const struct store_statement *statement,
                      const struct store_job *job, const struct store_step *step, store_each *each,
                      void *ctx, struct err *err)
{
    struct lite_row row = {.row = {.text = row_text, .number = row_number}};
    int code = sqlite3_prepare_v2(db, statement->sql, -1, &row.stmt, NULL);
    int r = 0;

    if (code == SQLITE_OK && step) {
        code = job_bind(job, step, row.stmt);
    }
    if (code == SQLITE_OK) {
        while ((code = sqlite3_step(row.stmt)) == SQLITE_ROW) {
            each(ctx, &row.row);
        }
    }
    if (code != SQLITE_DONE) {
        r = store_fail(db, err, statement->what);
    }
    (void)sqlite3_finalize(row.stmt);
    return r;
}

static int source_query(struct store_source *source, const struct store_statement *statement,
                        const struct store_job *job, const struct store_step *step,
                        store_each *each, void *ctx, struct err *err)
{
    const struct file_source *own = container_of(source, struct file_source, source);
    sqlite3 *db = NULL;
    int r = db_open(own->path, SQLITE_OPEN_READONLY, &db, err);

    if (r == 0) {
        r = query_rows(db, statement, job, step, each, ctx, err);
    }
    (void)sqlite3_close(db);
    return r;
}

static void source_free(struct store_source *source)
{
    struct file_source *own = container_of(source, struct file_source, source);

    free(own->path);
    free(own);
}

static struct store_source *source_new(const char *path)
{
    struct file_source *own = xnew(struct file_source);

    own->source = (struct store_source){.uses = 1, .query = source_query, .free = source_free};
    own->path = xstrdup(path);
    return &own->source;
}

/* ---- opening and closing ---- */

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

static int database_prepare(struct sqlite *lite, struct err *err)
{
    int r = file_prepare(lite->path, err);

    if (r == 0) {
        r = db_open(lite->path, SQLITE_OPEN_READWRITE, &lite->db, err);
    }
    if (r == 0) {
        r = exec(lite->db, "PRAGMA journal_mode = WAL; PRAGMA foreign_keys = ON", "set up", err);
    }
    if (r == 0) {
        r = db_teach(lite->db, err);
    }
    if (r == 0) {
        r = store_migrate(lite->db, lite->path, err);
    }
    return r < 0 && err->code == EUCLEAN ? err_wrap(err, "%s is damaged", lite->path) : r;
}

static int engine_run(struct store_engine *engine, struct store_job **batch,
                      struct store_job **finished, struct err *err)
{
    struct sqlite *lite = sqlite_of(engine);

    (void)err; /* a file is never away */
    if (batch_run(lite, *batch) < 0 && (*batch)->next) {
        *batch = batch_run_singly(lite, *batch);
    }
    batch_settle(lite, *batch);
    DL_CONCAT(*finished, *batch);
    *batch = NULL;
    return 0;
}

static int engine_exec(struct store_engine *engine, const char *sql, const char *what,
                       struct err *err)
{
    return exec(sqlite_of(engine)->db, sql, what, err);
}

static void engine_close(struct store_engine *engine)
{
    struct sqlite *lite = sqlite_of(engine);

    for (size_t i = 0; i < STORE_STATEMENTS_MAX; i++) {
        (void)sqlite3_finalize(lite->prepared[i].stmt);
    }
    (void)sqlite3_close(lite->db);
    store_source_release(lite->engine.source);
    free(lite->path);
    free(lite);
}

int sqlite_open(const char *path, struct store_engine **out, struct err *err)
{
    struct sqlite *lite = xnew(struct sqlite);

    lite->engine = (struct store_engine){
        .source = source_new(path), .run = engine_run, .exec = engine_exec, .close = engine_close};
    lite->path = xstrdup(path);
    int r = database_prepare(lite, err);
    if (r < 0) {
        engine_close(&lite->engine);
        return r;
    }
    *out = &lite->engine;
    return 0;
}
