/* job.c - a change or a query on its way to another thread: statements, with their values copied.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/alloc.h"
#include "serve/store/internal.h"

static struct store_job *job_new(void)
{
    struct store_job *job = xnew(struct store_job);

    buf_init(&job->texts, STORE_ROW_BYTES_MAX);
    return job;
}

struct store_job *store_job_new(const struct store_statement *statement)
{
    struct store_job *job = job_new();

    store_job_then(job, statement);
    return job;
}

void store_job_then(struct store_job *job, const struct store_statement *statement)
{
    assert(job->steps_n < STORE_STEPS_MAX);
    job->steps[job->steps_n++] =
        (struct store_step){.statement = statement, .first = job->values_n};
}

void store_job_must_change(struct store_job *job, int code)
{
    job->steps[job->steps_n - 1].unchanged = code;
}

static struct store_value *value_add(struct store_job *job)
{
    assert(job->values_n < STORE_VALUES_MAX);
    job->steps[job->steps_n - 1].n++;
    return &job->values[job->values_n++];
}

void store_job_text(struct store_job *job, const char *text)
{
    struct store_value *value = value_add(job);

    if (!text) {
        return;
    }
    *value = (struct store_value){VALUE_TEXT, (int64_t)buf_len(&job->texts), strlen(text)};
    if (buf_append(&job->texts, text, value->text_len + 1) < 0) {
        /* The writer fails the job in its turn: `done` is never called from inside this call. */
        (void)err_set(&job->err, ENOBUFS, "%s: the row is larger than %d bytes",
                      job->steps[0].statement->what, STORE_ROW_BYTES_MAX);
    }
}

void store_job_int(struct store_job *job, int64_t number)
{
    *value_add(job) = (struct store_value){VALUE_INT, number, 0};
}

static int64_t number_of(enum store_kind kind, const void *field)
{
    switch (kind) {
    case STORE_BOOL:
        return *(const bool *)field;
    case STORE_INT32:
        return *(const int32_t *)field;
    case STORE_UINT32:
        return *(const uint32_t *)field;
    case STORE_INT64:
        return *(const int64_t *)field;
    case STORE_UINT64:
        return (int64_t) * (const uint64_t *)field;
    case STORE_TEXT:
    case STORE_CHARS:
        break;
    }
    abort();
}

void store_job_fields(struct store_job *job, const struct store_column *columns, size_t n,
                      const void *row)
{
    for (const struct store_column *column = columns; column < columns + n; column++) {
        const void *field = (const char *)row + column->offset;

        if (column->kind == STORE_TEXT) {
            const char *text = *(const char *const *)field;
            store_job_text(job, text ? text : column->if_null);
        } else if (column->kind == STORE_CHARS) {
            store_job_text(job, field);
        } else {
            store_job_int(job, number_of(column->kind, field));
        }
    }
}

static void table_then(struct store_job *job, const struct store_table *table,
                       const struct store_statement *statement)
{
    store_job_then(job, statement);
    job->steps[job->steps_n - 1].table = table;
}

void store_job_then_save(struct store_job *job, const struct store_table *table, const void *row)
{
    table_then(job, table, &table->save);
    store_job_fields(job, table->columns, table->columns_n, row);
}

struct store_job *store_job_save(const struct store_table *table, const void *row)
{
    struct store_job *job = job_new();

    store_job_then_save(job, table, row);
    return job;
}

struct store_job *store_job_delete(const struct store_table *table, const char *first,
                                   const char *second)
{
    struct store_job *job = job_new();

    table_then(job, table, &table->delete);
    store_job_text(job, first);
    if (second) {
        store_job_text(job, second);
    }
    return job;
}

const char *store_step_sql(const struct store_step *step, struct buf *made)
{
    if (!step->table) {
        return step->statement->sql;
    }
    if (step->statement == &step->table->save) {
        table_sql_save(step->table, made);
    } else {
        table_sql_delete(step->table, made);
    }
    return buf_at(made);
}

const char *store_job_text_at(const struct store_job *job, const struct store_value *value)
{
    return buf_at(&job->texts) + value->number;
}

void store_job_free(struct store_job *job)
{
    buf_fini(&job->texts);
    free(job);
}
