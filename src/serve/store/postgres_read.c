/* postgres_read.c - queries to PostgreSQL, on threads of the pool.
 *
 * Connections are kept for the next query. While the database is away, one query at a time tries to
 * reach it and the others fail at once: the threads are needed for other work too.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <uv.h>

#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "serve/store/dialect.h"
#include "serve/store/postgres.h"

enum {
    IDLE_MAX = 4,      /* connections that are kept */
    TRY_AGAIN_MS = 500 /* after a connection that failed */
};

struct server_source {
    struct store_source source;
    char *url;

    uv_mutex_t lock; /* guards the rest */
    PGconn *idle[IDLE_MAX];
    size_t idle_n;
    bool failing, trying;
    int64_t try_mono_ms; /* failing: the earliest time of the next try */
    struct err failure;
};

struct server_row {
    struct store_row row;
    const PGresult *result;
};

/* ---- connections ---- */

static PGconn *idle_take(struct server_source *own)
{
    uv_mutex_lock(&own->lock);
    PGconn *conn = own->idle_n > 0 ? own->idle[--own->idle_n] : NULL;
    uv_mutex_unlock(&own->lock);
    return conn;
}

static void idle_put(struct server_source *own, PGconn *conn)
{
    uv_mutex_lock(&own->lock);
    if (own->idle_n < IDLE_MAX && PQstatus(conn) == CONNECTION_OK) {
        own->idle[own->idle_n++] = conn;
        conn = NULL;
    }
    uv_mutex_unlock(&own->lock);
    PQfinish(conn);
}

/* Whether this thread is the one that tries. */
static bool try_begin(struct server_source *own, struct err *err)
{
    uv_mutex_lock(&own->lock);
    bool may = !own->failing || (!own->trying && clock_mono_ms() >= own->try_mono_ms);
    if (may) {
        own->trying = own->failing;
    } else {
        *err = own->failure;
    }
    uv_mutex_unlock(&own->lock);
    return may;
}

static void try_end(struct server_source *own, int error, const struct err *err)
{
    uv_mutex_lock(&own->lock);
    own->failing = error < 0;
    own->trying = false;
    if (error < 0) {
        own->failure = *err;
        own->try_mono_ms = clock_mono_ms() + TRY_AGAIN_MS;
    }
    uv_mutex_unlock(&own->lock);
}

static int conn_new(struct server_source *own, PGconn **out, struct err *err)
{
    if (!try_begin(own, err)) {
        return -err->code;
    }
    int r = postgres_connect(own->url, out, err);
    try_end(own, r, err);
    return r;
}

/* ---- a query ---- */

static const char *row_text(const struct store_row *row, int column)
{
    const struct server_row *own = (const struct server_row *)row;

    return PQgetisnull(own->result, 0, column) ? NULL : PQgetvalue(own->result, 0, column);
}

static int64_t row_number(const struct store_row *row, int column)
{
    const char *text = row_text(row, column);

    return text ? strtoll(text, NULL, 10) : 0;
}

/* Rows come one by one: none is kept longer than its callback. */
static int rows_read(PGconn *conn, const char *what, store_each *each, void *ctx, int *rows,
                     struct err *err)
{
    struct server_row row = {.row = {.text = row_text, .number = row_number}};
    PGresult *result = NULL;
    int failed = 0;
    int r;

    while ((r = postgres_answer(conn, POSTGRES_ANSWER_MS, &result, err)) == 0 && result) {
        ExecStatusType status = PQresultStatus(result);

        if (status == PGRES_SINGLE_TUPLE) {
            row.result = result;
            each(ctx, &row.row);
            ++*rows;
        } else if (status != PGRES_TUPLES_OK && failed == 0) {
            failed = postgres_fail(conn, result, what, err);
        }
        PQclear(result);
    }
    return r < 0 ? r : failed;
}

static int query_send(PGconn *conn, const struct store_statement *statement,
                      const struct postgres_values *values, struct err *err)
{
    scoped_buf(made, DIALECT_BYTES_MAX);

    if (!statement->postgres) {
        dialect_postgres(statement->sql, &made);
    }
    if (!PQsendQueryParams(conn, statement->postgres ? statement->postgres : buf_at(&made),
                           values->n, values->types, values->texts, NULL, NULL, 0) ||
        !PQsetSingleRowMode(conn)) {
        return postgres_lost(conn, statement->what, err);
    }
    return 0;
}

/* A connection that was kept may have been cut meanwhile, which shows before the first row. */
static int source_query(struct store_source *source, const struct store_statement *statement,
                        const struct store_job *job, const struct store_step *step,
                        store_each *each, void *ctx, struct err *err)
{
    struct server_source *own = container_of(source, struct server_source, source);
    struct postgres_values values;
    bool kept = true;
    int rows = 0, r = -EAGAIN;

    postgres_values_init(&values, job, step);
    while (kept && r == -EAGAIN && rows == 0) {
        PGconn *conn = idle_take(own);

        kept = conn != NULL;
        r = conn ? 0 : conn_new(own, &conn, err);
        if (r == 0) {
            r = query_send(conn, statement, &values, err);
            r = r < 0 ? r : rows_read(conn, statement->what, each, ctx, &rows, err);
        }
        if (conn && r == 0) {
            idle_put(own, conn);
        } else {
            PQfinish(conn);
        }
    }
    postgres_values_fini(&values);
    if (r == -EAGAIN) {
        log_debug("store: %s", err->msg);
        return err_set(err, EAGAIN, STORE_AWAY_SENTENCE, statement->what);
    }
    if (r == 0) {
        *err = (struct err){0};
    }
    return r;
}

static void source_free(struct store_source *source)
{
    struct server_source *own = container_of(source, struct server_source, source);

    for (size_t i = 0; i < own->idle_n; i++) {
        PQfinish(own->idle[i]);
    }
    uv_mutex_destroy(&own->lock);
    free(own->url);
    free(own);
}

struct store_source *postgres_source_new(const char *url)
{
    struct server_source *own = xnew(struct server_source);

    own->source = (struct store_source){.uses = 1, .query = source_query, .free = source_free};
    own->url = xstrdup(url);
    if (uv_mutex_init(&own->lock) < 0) {
        abort();
    }
    return &own->source;
}
