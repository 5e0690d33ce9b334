#include <stdlib.h>
#include <string.h>

#include "lib/base/alloc.h"
#include "serve/store/internal.h"

/* Runs right after the insert of the event: last_insert_rowid() is the seq of the event. */
static const struct store_statement owe = {
    "save deliveries",
    "INSERT INTO deliveries (id, webhook_id, event_seq, sandbox_id, state, created_ms)"
    " SELECT uuid(), w.id, e.seq, e.sandbox_id, 'pending', e.timestamp_ms"
    " FROM events e JOIN webhooks w ON w.team_id = e.team_id"
    " WHERE e.seq = last_insert_rowid() AND w.enabled"
    " AND instr(w.events, ',' || e.type || ',') > 0",
};

static void event_then(struct store_job *job)
{
    store_job_then(job, &owe);
    job->has_event = true;
}

void store_job_event(struct store_job *job, const struct event_row *event)
{
    store_job_then_save(job, &table_events, event);
    event_then(job);
}

void store_event_save(struct store *store, const struct event_row *event, store_done *done,
                      void *ctx)
{
    struct store_job *job = store_job_save(&table_events, event);

    event_then(job);
    store_submit(store, job, STORE_LAZY, done, ctx);
}

/* ---- reading ---- */

#define SELECT_TEAM                                                                                \
    "SELECT body FROM events WHERE team_id = ?1 AND timestamp_ms >= ?2"                            \
    " AND (?3 IS NULL OR instr(?3, ',' || type || ',') > 0)"
#define SELECT_ONE SELECT_TEAM " AND sandbox_id = ?6"
#define PAGE " LIMIT ?4 OFFSET ?5"

/* [of one sandbox][ascending]. Each walks an index and sorts nothing. */
static const struct store_statement lists[2][2] = {
    {{"list events", SELECT_TEAM " ORDER BY seq DESC" PAGE},
     {"list events", SELECT_TEAM " ORDER BY seq" PAGE}},
    {{"list events", SELECT_ONE " ORDER BY seq DESC" PAGE},
     {"list events", SELECT_ONE " ORDER BY seq" PAGE}},
};

void store_events_list(struct store *store, const struct event_query *query, store_text *done,
                       void *ctx)
{
    struct store_job *job = store_job_new(&lists[query->sandbox_id != NULL][query->ascending]);

    store_job_text(job, query->team_id);
    store_job_int(job, query->since_ms);
    store_job_text(job, query->types);
    store_job_int(job, query->limit);
    store_job_int(job, query->offset);
    if (query->sandbox_id) {
        store_job_text(job, query->sandbox_id);
    }
    store_read_array(store, job, done, ctx);
}

static const struct store_statement one = {"read event", "SELECT body FROM events WHERE seq = ?"};

struct reading {
    char *body;
    store_text *done;
    void *ctx;
};

static void on_body(void *ctx, sqlite3_stmt *row)
{
    struct reading *reading = ctx;

    reading->body = strdup(store_column_text(row, 0));
}

static void on_read(void *ctx, int error, const struct err *err)
{
    struct reading *reading = ctx;

    reading->done(reading->ctx, error, err, error == 0 ? reading->body : NULL);
    free(reading->body);
    free(reading);
}

void store_event_read(struct store *store, int64_t seq, store_text *done, void *ctx)
{
    struct store_job *job = store_job_new(&one);
    struct reading *reading = xnew(struct reading);

    *reading = (struct reading){.done = done, .ctx = ctx};
    store_job_int(job, seq);
    store_read(store, job, on_body, on_read, reading);
}
