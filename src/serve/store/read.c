/* read.c - queries of the running daemon, on the thread pool. */
#include <errno.h>
#include <stdlib.h>

#include "lib/base/alloc.h"
#include "serve/store/engine.h"

struct query {
    uv_work_t work;
    struct store_source *source;
    struct store_job *job;
    store_each *each;
    store_done *done;
    void *ctx;
};

/* ---- on a thread of the pool ---- */

static void query_work(uv_work_t *work)
{
    struct query *query = container_of(work, struct query, work);
    const struct store_step *step = &query->job->steps[0];
    struct err *err = &query->job->err;

    if (err->code == 0) {
        (void)query->source->query(query->source, step->statement, query->job, step, query->each,
                                   query->ctx, err);
    }
}

/* ---- on the loop ---- */

static void query_done(uv_work_t *work, int status)
{
    struct query *query = container_of(work, struct query, work);

    (void)status; /* it is never cancelled */
    query->done(query->ctx, -query->job->err.code, &query->job->err);
    store_job_free(query->job);
    store_source_release(query->source);
    free(query);
}

void store_read(struct store *store, struct store_job *job,
                void (*each)(void *ctx, const struct store_row *row), store_done *done, void *ctx)
{
    struct query *query = xnew(struct query);

    *query = (struct query){.job = job, .each = each, .done = done, .ctx = ctx};
    query->source = store_source_use(store);
    if (uv_queue_work(store_loop(store), &query->work, query_work, query_done) < 0) {
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

static void array_row(void *ctx, const struct store_row *row)
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
