/* postgres.c - the store in a PostgreSQL database: the connection that writes.
 *
 * A transaction of many jobs is one pipeline: all statements are sent before the first answer is
 * read. A statement that fails ends the transaction, so the job that it belongs to is marked as
 * failed and the others run again without it.
 *
 * A connection that breaks during a transaction leaves the question whether that was committed.
 * Every transaction writes its number into the row of the table `writer`. The next connection first
 * takes that row over, which waits for a transaction that is still under way, and finds the answer
 * in it. From then on no transaction of an older connection can be committed: each begins with a
 * fence that fails unless the row still has its own session. So every job is stored exactly once.
 *
 * A lock of the session keeps two daemons from writing to one database.
 */
#include "serve/store/postgres.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <utlist.h>

#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "serve/store/dialect.h"

enum {
    ROUNDS_MAX = 8, /* then each job gets a transaction of its own */
    NAME_BYTES = 16,
    OPEN_WAIT_MS = 10000, /* the server may be starting, and a daemon that was killed still there */
    OPEN_TRY_MS = 50,
};

/* Divides by zero when no row is changed: a pipeline has no other way to stop. */
#define FENCE                                                                                      \
    "PREPARE fence (bigint, bigint) AS"                                                            \
    " WITH own AS (UPDATE writer SET batch = $1 WHERE session = $2 RETURNING 1)"                   \
    " SELECT 1 / count(*) FROM own"
#define TAKE_OVER "UPDATE writer SET session = session + 1 RETURNING session, batch"

struct postgres {
    struct store_engine engine;
    char *url;
    PGconn *conn;              /* NULL: there is none */
    int backend_pid;           /* of the last connection, on the server */
    int64_t session;           /* of conn */
    int64_t batch;             /* the number of the last transaction */
    struct store_job *doubted; /* the jobs of that transaction, if it is not known whether it was
                                * committed */
    const struct store_statement *prepared[STORE_STATEMENTS_MAX]; /* on conn, by number */
    size_t prepared_n;
};

static struct postgres *postgres_of(struct store_engine *engine)
{
    return container_of(engine, struct postgres, engine);
}

/* ---- the connection ---- */

static void disconnect(struct postgres *pg)
{
    PQfinish(pg->conn);
    pg->conn = NULL;
    pg->prepared_n = 0;
}

static bool is_true(const PGresult *result)
{
    return PQntuples(result) == 1 && PQgetvalue(result, 0, 0)[0] == 't';
}

/* Our own last connection may still be there for the server, and hold the lock. */
static void predecessor_end(struct postgres *pg)
{
    char sql[256];
    struct err ignored;

    if (pg->backend_pid == 0) {
        return;
    }
    (void)snprintf(sql, sizeof(sql),
                   "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'"
                   " AND pid = %d AND objid::bigint = " POSTGRES_WRITER_LOCK
                   " & 4294967295 AND database = (SELECT oid FROM pg_database"
                   " WHERE datname = current_database())",
                   pg->backend_pid);
    (void)postgres_exec(pg->conn, sql, "end the last connection", POSTGRES_ANSWER_MS, NULL,
                        &ignored);
}

static int lock_hold(struct postgres *pg, struct err *err)
{
    PGresult *result = NULL;
    int r = postgres_exec(pg->conn, "SELECT pg_try_advisory_lock(" POSTGRES_WRITER_LOCK ")",
                          "lock the database", POSTGRES_ANSWER_MS, &result, err);

    if (r == 0 && !is_true(result)) {
        predecessor_end(pg);
        r = err_set(err, EAGAIN,
                    "another daemon uses the database: stop it, or name another "
                    "database");
    }
    PQclear(result);
    return r;
}

/* From here on this session alone can write. *last is the number of the last transaction that was
 * committed. */
static int take_over(struct postgres *pg, int64_t *last, struct err *err)
{
    PGresult *result = NULL;
    int r = postgres_exec(pg->conn, TAKE_OVER, "take over the database", POSTGRES_ANSWER_MS,
                          &result, err);

    if (r == 0 && PQntuples(result) != 1) {
        r = err_set(err, EUCLEAN, "the table `writer` of the database has no row");
    }
    if (r == 0) {
        pg->session = strtoll(PQgetvalue(result, 0, 0), NULL, 10);
        *last = strtoll(PQgetvalue(result, 0, 1), NULL, 10);
    }
    PQclear(result);
    return r;
}

static int connect_anew(struct postgres *pg, bool migrates, int64_t *last, struct err *err)
{
    int r = postgres_connect(pg->url, &pg->conn, err);

    r = r < 0 ? r : lock_hold(pg, err);
    if (r == 0 && migrates) {
        r = postgres_migrate(pg->conn, err);
    }
    r = r < 0 ? r : take_over(pg, last, err);
    r = r < 0 ? r
              : postgres_exec(pg->conn, FENCE, "set up a connection to the database",
                              POSTGRES_ANSWER_MS, NULL, err);
    if (r < 0) {
        disconnect(pg);
        return r;
    }
    pg->backend_pid = PQbackendPID(pg->conn);
    return 0;
}

/* Whether the connection has ended while nothing was asked of it. */
static bool has_ended(const struct postgres *pg)
{
    struct pollfd fd = {.fd = PQsocket(pg->conn), .events = POLLIN};

    while (poll(&fd, 1, 0) > 0) { /* a server that stops says so before the end */
        if (!PQconsumeInput(pg->conn) || PQstatus(pg->conn) == CONNECTION_BAD) {
            return true;
        }
    }
    return false;
}

/* The jobs in doubt are finished, or they go back to the head of the batch. */
static int ready(struct postgres *pg, struct store_job **batch, struct store_job **finished,
                 struct err *err)
{
    int64_t last = 0;

    if (pg->conn && has_ended(pg)) {
        disconnect(pg);
    }
    if (pg->conn) {
        return 0;
    }
    int r = connect_anew(pg, false, &last, err);
    if (r < 0) {
        err->code = EAGAIN; /* whatever is wrong with it now, the daemon goes on and tries again */
        return -EAGAIN;
    }
    if (pg->doubted && last == pg->batch) {
        DL_CONCAT(*finished, pg->doubted);
    } else if (pg->doubted) {
        DL_CONCAT(pg->doubted, *batch);
        *batch = pg->doubted;
    }
    pg->doubted = NULL;
    pg->batch = last;
    return 0;
}

/* ---- statements ---- */

static size_t prepared_find(const struct postgres *pg, const struct store_statement *statement)
{
    size_t i = 0;

    while (i < pg->prepared_n && pg->prepared[i] != statement) {
        i++;
    }
    return i;
}

static int prepare(struct postgres *pg, const struct store_job *job, const struct store_step *step,
                   struct err *err)
{
    scoped_buf(made, STORE_SQL_BYTES_MAX);
    scoped_buf(own, DIALECT_BYTES_MAX);
    struct postgres_values values;
    char name[NAME_BYTES];
    PGresult *result = NULL, *more = NULL;
    const char *sql = step->statement->postgres;
    const char *what = step->statement->what;

    if (!sql) {
        dialect_postgres(store_step_sql(step, &made), &own);
        sql = buf_at(&own);
    }
    assert(pg->prepared_n < STORE_STATEMENTS_MAX);
    (void)snprintf(name, sizeof(name), "s%zu", pg->prepared_n);
    postgres_values_init(&values, job, step);
    int r = PQsendPrepare(pg->conn, name, sql, values.n, values.types)
                ? postgres_answer(pg->conn, POSTGRES_ANSWER_MS, &result, err)
                : postgres_lost(pg->conn, what, err);
    postgres_values_fini(&values);
    r = r < 0 ? r : postgres_answer(pg->conn, POSTGRES_ANSWER_MS, &more, err);
    if (r == 0 && PQresultStatus(result) != PGRES_COMMAND_OK) {
        r = postgres_fail(pg->conn, result, what, err);
    }
    if (r == 0) {
        pg->prepared[pg->prepared_n++] = step->statement;
    }
    PQclear(result);
    return r;
}

/* -EAGAIN: the connection is of no use. A job whose statement is refused gets the error. */
static int prepare_all(struct postgres *pg, struct store_job *batch, struct err *err)
{
    struct store_job *job;

    DL_FOREACH (batch, job) {
        for (size_t i = 0; job->err.code == 0 && i < job->steps_n; i++) {
            if (prepared_find(pg, job->steps[i].statement) < pg->prepared_n) {
                continue;
            }
            int r = prepare(pg, job, &job->steps[i], err);
            if (r == -EAGAIN) {
                return r;
            }
            if (r < 0) {
                job->err = *err;
            }
        }
    }
    return 0;
}

/* ---- a transaction ---- */

static bool send_plain(struct postgres *pg, const char *sql)
{
    return PQsendQueryParams(pg->conn, sql, 0, NULL, NULL, NULL, NULL, 0);
}

static bool send_fence(struct postgres *pg)
{
    char batch[24], session[24];
    const char *values[] = {batch, session};

    (void)snprintf(batch, sizeof(batch), "%" PRId64, pg->batch);
    (void)snprintf(session, sizeof(session), "%" PRId64, pg->session);
    return PQsendQueryPrepared(pg->conn, "fence", 2, values, NULL, NULL, 0);
}

static bool send_job(struct postgres *pg, const struct store_job *job)
{
    bool sent = true;

    for (size_t i = 0; sent && i < job->steps_n; i++) {
        struct postgres_values values;
        char name[NAME_BYTES];

        (void)snprintf(name, sizeof(name), "s%zu", prepared_find(pg, job->steps[i].statement));
        postgres_values_init(&values, job, &job->steps[i]);
        sent = PQsendQueryPrepared(pg->conn, name, values.n, values.texts, NULL, NULL, 0);
        postgres_values_fini(&values);
    }
    return sent;
}

/* A job that may be refused by its own statement is looked at before the commit is sent. */
static bool wants_look(const struct store_job *batch)
{
    const struct store_job *job;

    DL_FOREACH (batch, job) {
        for (size_t i = 0; i < job->steps_n; i++) {
            if (job->steps[i].unchanged) {
                return true;
            }
        }
    }
    return false;
}

static bool send_all(struct postgres *pg, const struct store_job *batch, bool commits)
{
    const struct store_job *job;
    bool sent = send_plain(pg, "BEGIN") && send_fence(pg);

    DL_FOREACH (batch, job) {
        sent = sent && (job->err.code != 0 || send_job(pg, job));
    }
    return sent && (!commits || send_plain(pg, "COMMIT")) && PQpipelineSync(pg->conn);
}

/* The result of one statement of a pipeline. */
static int next_result(struct postgres *pg, PGresult **out, struct err *err)
{
    PGresult *end = NULL;
    int r = postgres_answer(pg->conn, POSTGRES_ANSWER_MS, out, err);

    if (r == 0 && !*out) {
        return postgres_lost(pg->conn, "read an answer", err);
    }
    if (r == 0 && PQresultStatus(*out) != PGRES_PIPELINE_SYNC) {
        r = postgres_answer(pg->conn, POSTGRES_ANSWER_MS, &end, err);
    }
    return r;
}

/* 0, or -errno with the reason in err when the statement failed. */
static int statement_read(struct postgres *pg, const char *what, bool *changed, struct err *err)
{
    PGresult *result = NULL;
    int r = next_result(pg, &result, err);

    if (r == 0 && PQresultStatus(result) != PGRES_COMMAND_OK &&
        PQresultStatus(result) != PGRES_TUPLES_OK) {
        r = postgres_fail(pg->conn, result, what, err);
    }
    if (r == 0 && changed) {
        *changed = PQcmdTuples(result)[0] != '0';
    }
    PQclear(result);
    return r;
}

static int job_read(struct postgres *pg, struct store_job *job, struct err *err)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < job->steps_n; i++) {
        const struct store_step *step = &job->steps[i];
        bool changed = true;

        r = statement_read(pg, step->statement->what, &changed, err);
        if (r == 0 && !changed && step->unchanged && job->err.code == 0) {
            (void)err_set(&job->err, step->unchanged, "%s: refused by what is there",
                          step->statement->what);
        }
    }
    return r;
}

/* Reads what is left of a pipeline: answers of statements that were skipped. */
static int pipeline_end(struct postgres *pg, struct err *err)
{
    for (;;) {
        PGresult *result = NULL;
        int r = next_result(pg, &result, err);
        bool over = r < 0 || PQresultStatus(result) == PGRES_PIPELINE_SYNC;

        PQclear(result);
        if (over) {
            return r;
        }
    }
}

/* Runs a statement as a pipeline of its own. */
static int run_plain(struct postgres *pg, const char *sql, struct err *err)
{
    struct err late;

    if (!send_plain(pg, sql) || !PQpipelineSync(pg->conn)) {
        return postgres_lost(pg->conn, sql, err);
    }
    int r = statement_read(pg, sql, NULL, err);
    if (r == -EAGAIN) {
        return r;
    }
    return pipeline_end(pg, &late) < 0 ? -EAGAIN : r;
}

struct outcome {
    bool committed;
    bool job_failed; /* a job has the error: the others can run without it */
};

/* Reads the answers to send_all(). -EAGAIN: the connection is lost. */
static int answers_read(struct postgres *pg, struct store_job *batch, bool commits,
                        struct outcome *out, struct err *err)
{
    struct store_job *job = NULL;
    struct err failure = {0}, late;
    int r = statement_read(pg, "begin a transaction", NULL, &failure);

    r = r < 0 ? r : statement_read(pg, "begin a transaction", NULL, &failure);
    DL_FOREACH (batch, job) {
        if (r < 0) {
            break;
        }
        if (job->err.code != 0) {
            continue;
        }
        r = job_read(pg, job, &failure);
        out->job_failed = out->job_failed || job->err.code != 0;
        if (r < 0 && r != -EAGAIN) {
            job->err = failure;
            out->job_failed = true;
        }
    }
    if (r == 0 && commits) {
        r = statement_read(pg, "commit", NULL, &failure);
        out->committed = r == 0;
    }
    if (r != -EAGAIN && pipeline_end(pg, &late) < 0) {
        failure = late;
        r = -EAGAIN;
    }
    *err = failure;
    return r;
}

/* A transaction that could not be committed is rolled back. -EAGAIN: the connection is lost, and
 * whether it was committed is not known. */
static int transaction(struct postgres *pg, struct store_job *batch, struct outcome *out,
                       struct err *err)
{
    bool looks = wants_look(batch);
    struct err ignored;

    *out = (struct outcome){0};
    pg->batch++;
    if (!PQenterPipelineMode(pg->conn) || !send_all(pg, batch, !looks)) {
        return postgres_lost(pg->conn, "send a transaction", err);
    }
    int r = answers_read(pg, batch, !looks, out, err);
    if (r == 0 && looks && !out->job_failed) {
        r = run_plain(pg, "COMMIT", err);
        out->committed = r == 0;
    }
    if (r != -EAGAIN && !out->committed && run_plain(pg, "ROLLBACK", &ignored) == -EAGAIN) {
        *err = ignored;
        return -EAGAIN;
    }
    if (r != -EAGAIN && !PQexitPipelineMode(pg->conn)) {
        return postgres_lost(pg->conn, "end a transaction", err);
    }
    return r;
}

/* ---- batches ---- */

static bool all_failed(const struct store_job *batch)
{
    const struct store_job *job;

    DL_FOREACH (batch, job) {
        if (job->err.code == 0) {
            return false;
        }
    }
    return true;
}

static void rest_fail(struct store_job *batch, const struct err *why)
{
    struct store_job *job;

    DL_FOREACH (batch, job) {
        if (job->err.code == 0) {
            (void)err_set(&job->err, why->code, "%s: %s", job->steps[0].statement->what, why->msg);
        }
    }
}

/* 0: all jobs are stored or have failed. -EAGAIN: away. -EBUSY: not stored, in so many rounds. */
static int rounds_run(struct postgres *pg, struct store_job *batch, struct err *err)
{
    struct outcome outcome;

    for (int i = 0; i < ROUNDS_MAX; i++) {
        if (all_failed(batch)) {
            return 0;
        }
        int r = transaction(pg, batch, &outcome, err);
        if (r == -EAGAIN || outcome.committed) {
            return r == -EAGAIN ? r : 0;
        }
        if (err->code == EDQUOT) {
            rest_fail(batch, err); /* its disk is full: for the others too */
        }
    }
    return -EBUSY;
}

/* Keeps the jobs of a transaction that may have been committed. */
static int doubt(struct postgres *pg, struct store_job **batch)
{
    pg->doubted = *batch;
    *batch = NULL;
    disconnect(pg);
    return -EAGAIN;
}

static int singly(struct postgres *pg, struct store_job **batch, struct store_job **finished,
                  struct err *err)
{
    while (*batch) {
        struct store_job *job = *batch, *one = NULL;

        DL_DELETE(*batch, job);
        DL_APPEND(one, job);
        int r = rounds_run(pg, one, err);
        if (r == -EAGAIN) {
            return doubt(pg, &one);
        }
        if (r < 0) {
            rest_fail(one, err);
        }
        DL_CONCAT(*finished, one);
    }
    return 0;
}

static int engine_run(struct store_engine *engine, struct store_job **batch,
                      struct store_job **finished, struct err *err)
{
    struct postgres *pg = postgres_of(engine);
    int r = ready(pg, batch, finished, err);

    if (r < 0 || !*batch) {
        return r;
    }
    r = prepare_all(pg, *batch, err);
    if (r < 0) {
        disconnect(pg); /* nothing was begun */
        return r;
    }
    r = rounds_run(pg, *batch, err);
    if (r == -EAGAIN) {
        return doubt(pg, batch);
    }
    if (r < 0) {
        return singly(pg, batch, finished, err);
    }
    DL_CONCAT(*finished, *batch);
    *batch = NULL;
    return 0;
}

static void engine_abandon(struct store_engine *engine, struct store_job **finished)
{
    struct postgres *pg = postgres_of(engine);
    static const struct err unknown = {
        EAGAIN, "the database went away during the commit: whether it is stored is not known"};

    if (pg->doubted) {
        rest_fail(pg->doubted, &unknown);
        DL_CONCAT(*finished, pg->doubted);
        pg->doubted = NULL;
    }
}

static int engine_exec(struct store_engine *engine, const char *sql, const char *what,
                       struct err *err)
{
    struct postgres *pg = postgres_of(engine);

    if (!pg->conn) {
        return err_set(err, EAGAIN, "%s: the database is away", what);
    }
    int r = postgres_exec(pg->conn, sql, what, POSTGRES_ANSWER_MS, NULL, err);
    if (r == -EAGAIN) {
        disconnect(pg);
    }
    return r;
}

static void engine_close(struct store_engine *engine)
{
    struct postgres *pg = postgres_of(engine);

    assert(!pg->doubted);
    disconnect(pg);
    store_source_release(pg->engine.source);
    free(pg->url);
    free(pg);
}

static int connect_first(struct postgres *pg, struct err *err)
{
    const struct timespec pause = {.tv_nsec = OPEN_TRY_MS * 1000000L};
    int64_t until = clock_mono_ms() + OPEN_WAIT_MS;
    int r;

    while ((r = connect_anew(pg, true, &pg->batch, err)) == -EAGAIN && clock_mono_ms() < until) {
        (void)nanosleep(&pause, NULL);
    }
    return r;
}

int postgres_open(const char *url, struct store_engine **out, struct err *err)
{
    struct postgres *pg = xnew(struct postgres);

    pg->engine = (struct store_engine){.source = postgres_source_new(url),
                                       .run = engine_run,
                                       .abandon = engine_abandon,
                                       .exec = engine_exec,
                                       .close = engine_close};
    pg->url = xstrdup(url);
    int r = connect_first(pg, err);
    if (r < 0) {
        engine_close(&pg->engine);
        return r;
    }
    *out = &pg->engine;
    return 0;
}
