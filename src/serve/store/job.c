/* job.c - a change or a query on its way to another thread: statements, with their values copied.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/alloc.h"
#include "serve/store/internal.h"

struct store_job *store_job_new(const struct store_statement *statement)
{
    struct store_job *job = xnew(struct store_job);

    buf_init(&job->texts, STORE_ROW_BYTES_MAX);
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
    *value = (struct store_value){STORE_TEXT, (int64_t)buf_len(&job->texts), strlen(text)};
    if (buf_append(&job->texts, text, value->text_len + 1) < 0) {
        /* The job is failed when its turn comes: `done` never comes from inside the call. */
        (void)err_set(&job->err, ENOBUFS, "%s: the row is larger than %d bytes",
                      job->steps[0].statement->what, STORE_ROW_BYTES_MAX);
    }
}

void store_job_int(struct store_job *job, int64_t number)
{
    *value_add(job) = (struct store_value){STORE_INT, number, 0};
}

int store_job_bind(const struct store_job *job, const struct store_step *step, sqlite3_stmt *stmt)
{
    int r = SQLITE_OK;

    for (size_t i = 0; i < step->n && r == SQLITE_OK; i++) {
        const struct store_value *value = &job->values[step->first + i];
        int at = (int)i + 1;

        switch (value->kind) {
        case STORE_NULL:
            r = sqlite3_bind_null(stmt, at);
            break;
        case STORE_TEXT:
            r = sqlite3_bind_text64(stmt, at, buf_at(&job->texts) + value->number, value->text_len,
                                    SQLITE_STATIC, SQLITE_UTF8);
            break;
        case STORE_INT:
            r = sqlite3_bind_int64(stmt, at, value->number);
            break;
        }
    }
    return r;
}

void store_job_free(struct store_job *job)
{
    buf_fini(&job->texts);
    free(job);
}
