/* read.c - queries of the running daemon, on the thread pool.
 *
 * Each query has a connection of its own. In WAL mode readers and the writer do not wait for each
 * other, and a query sees everything that was committed before it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/alloc.h"
#include "serve/store/internal.h"

struct query {
    uv_work_t work;
    char *path;
    struct store_job *job;
    void (*each)(void *ctx, sqlite3_stmt *row);
    store_done *done;
    void *ctx;
};

/* ---- on a thread of the pool ---- */

static void query_rows(struct query *query, sqlite3 *db)
{
    const struct store_step *step = &query->job->steps[0];
    sqlite3_stmt *stmt = NULL;
    int code = sqlite3_prepare_v2(db, step->statement->sql, -1, &stmt, NULL);

    if (code == SQLITE_OK) {
        code = store_job_bind(query->job, step, stmt);
    }
    if (code == SQLITE_OK) {
        while ((code = sqlite3_step(stmt)) == SQLITE_ROW) {
            query->each(query->ctx, stmt);
        }
    }
    if (code != SQLITE_DONE) {
        (void)store_fail(db, &query->job->err, step->statement->what);
    }
    (void)sqlite3_finalize(stmt);
}

static void query_work(uv_work_t *work)
{
    struct query *query = container_of(work, struct query, work);
    struct err *err = &query->job->err;
    sqlite3 *db = NULL;

    if (err->code == 0 && store_db_open(query->path, SQLITE_OPEN_READONLY, &db, err) == 0) {
        query_rows(query, db);
    }
    (void)sqlite3_close(db);
}

/* ---- on the loop ---- */

static void query_done(uv_work_t *work, int status)
{
    struct query *query = container_of(work, struct query, work);

    (void)status; /* it is never cancelled */
    query->done(query->ctx, -query->job->err.code, &query->job->err);
    store_job_free(query->job);
    free(query->path);
    free(query);
}

void store_read(struct store *store, struct store_job *job,
                void (*each)(void *ctx, sqlite3_stmt *row), store_done *done, void *ctx)
{
    struct query *query = xnew(struct query);

    *query = (struct query){.job = job, .each = each, .done = done, .ctx = ctx};
    query->path = strdup(store_path(store));
    if (!query->path ||
        uv_queue_work(store_loop(store), &query->work, query_work, query_done) < 0) {
        abort();
    }
}

/* ---- arrays ---- */

struct array {
    struct buf text;
    bool overflow;
    store_text *done;
    void *ctx;
};

static void array_row(void *ctx, sqlite3_stmt *row)
{
    struct array *array = ctx;
    const char *text = store_column_text(row, 0);

    if (text && buf_printf(&array->text, "%s%s", buf_len(&array->text) > 0 ? "," : "[", text) < 0) {
        array->overflow = true;
    }
}

static void array_done(void *ctx, int error, const struct err *err)
{
    struct array *array = ctx;
    struct err own = *err;

    if (error == 0 &&
        (array->overflow || buf_append(&array->text, buf_len(&array->text) > 0 ? "]" : "[]",
                                       buf_len(&array->text) > 0 ? 2 : 3) < 0)) {
        error = err_set(&own, ENOBUFS, "the answer is larger than %d bytes: ask for fewer",
                        STORE_READ_BYTES_MAX);
    }
    array->done(array->ctx, error, &own, error == 0 ? buf_at(&array->text) : NULL);
    buf_fini(&array->text);
    free(array);
}

void store_read_array(struct store *store, struct store_job *job, store_text *done, void *ctx)
{
    struct array *array = xnew(struct array);

    *array = (struct array){.done = done, .ctx = ctx};
    buf_init(&array->text, STORE_READ_BYTES_MAX);
    store_read(store, job, array_row, array_done, array);
}
