#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/alloc.h"
#include "lib/base/str.h"
#include "serve/store/internal.h"

static const struct store_column pending_columns[] = {
    VALUE(delivery, seq),        VALUE(delivery, event_seq), VALUE(delivery, created_ms),
    VALUE(delivery, next_ms),    VALUE(delivery, attempts),  VALUE(delivery, id),
    VALUE(delivery, sandbox_id), VALUE(delivery, state),
};

/* The names of pending_columns, in their order. */
#define PENDING_COLUMNS "seq, event_seq, created_ms, next_ms, attempts, id, sandbox_id, state"

static const struct store_statement pending = {
    .what = "read deliveries",
    .sql = "SELECT " PENDING_COLUMNS " FROM deliveries"
           " WHERE webhook_id = ?1 AND state = 'pending' AND seq > ?2 ORDER BY seq LIMIT ?3",
};

struct owed {
    struct delivery *all;
    size_t n, cap;
    store_deliveries *done;
    void *ctx;
};

static void on_owed(void *ctx, const struct store_row *row)
{
    struct owed *owed = ctx;

    if (owed->n == owed->cap) {
        return; /* never: LIMIT is the same number */
    }
    owed->n +=
        store_row_read(row, 0, pending_columns, countof(pending_columns), &owed->all[owed->n]);
}

static void on_all_owed(void *ctx, int error, const struct err *err)
{
    struct owed *owed = ctx;

    owed->done(owed->ctx, error, err, owed->all, error == 0 ? owed->n : 0);
    free(owed->all);
    free(owed);
}

void store_deliveries_pending(struct store *store, const char *webhook_id, int64_t after,
                              size_t limit, store_deliveries *done, void *ctx)
{
    struct store_job *job = store_job_new(&pending);
    struct owed *owed = xnew(struct owed);

    *owed = (struct owed){.cap = limit, .done = done, .ctx = ctx};
    owed->all = xcalloc(limit, sizeof(struct delivery));
    store_job_text(job, webhook_id);
    store_job_int(job, after);
    store_job_int(job, (int64_t)limit);
    store_read(store, job, on_owed, on_all_owed, owed);
}

static const struct store_statement find_one = {
    .what = "read delivery",
    .sql = "SELECT " PENDING_COLUMNS " FROM deliveries WHERE webhook_id = ?1 AND id = ?2 LIMIT 1",
};

void store_delivery_find(struct store *store, const char *webhook_id, const char *id,
                         store_deliveries *done, void *ctx)
{
    struct store_job *job = store_job_new(&find_one);
    struct owed *owed = xnew(struct owed);

    *owed = (struct owed){.cap = 1, .done = done, .ctx = ctx};
    owed->all = xcalloc(1, sizeof(struct delivery));
    store_job_text(job, webhook_id);
    store_job_text(job, id);
    store_read(store, job, on_owed, on_all_owed, owed);
}

static const struct store_statement again = {
    .what = "save delivery",
    .sql = "INSERT INTO deliveries (id, webhook_id, event_seq, sandbox_id, state, created_ms)"
           " SELECT ?1, w.id, e.seq, e.sandbox_id, 'pending', ?4 FROM events e, webhooks w"
           " WHERE e.seq = ?3 AND w.id = ?2",
};

void store_delivery_again(struct store *store, const char *webhook_id, const struct delivery *of,
                          const char *id, int64_t now_ms, store_done *done, void *ctx)
{
    struct store_job *job = store_job_new(&again);

    store_job_text(job, id);
    store_job_text(job, webhook_id);
    store_job_int(job, of->event_seq);
    store_job_int(job, now_ms);
    store_job_must_change(job, ENOENT);
    store_submit(store, job, STORE_LAZY, done, ctx);
}

static const struct store_column mark_values[] = {
    VALUE(delivery_mark, seq),     VALUE(delivery_mark, state),   VALUE(delivery_mark, attempts),
    VALUE(delivery_mark, next_ms), VALUE(delivery_mark, last_ms), VALUE(delivery_mark, status),
    VALUE(delivery_mark, error),
};

/* ?1 is the first of mark_values, and so on. */
static const struct store_statement mark_one = {
    .what = "save delivery",
    .sql =
        "UPDATE deliveries SET state = ?2, attempts = ?3, next_ms = ?4, last_ms = ?5, status = ?6,"
        " error = ?7 WHERE seq = ?1",
};

void store_delivery_mark(struct store *store, const struct delivery_mark *mark, store_done *done,
                         void *ctx)
{
    struct store_job *job = store_job_new(&mark_one);

    store_job_fields(job, mark_values, countof(mark_values), mark);
    store_submit(store, job, STORE_LAZY, done, ctx);
}

#define STAMP(column)                                                                              \
    "CASE WHEN " column " <> 0 THEN strftime('%Y-%m-%dT%H:%M:%fZ', " column                        \
    " / 1000.0, 'unixepoch') "                                                                     \
    "END"
#define FIELDS                                                                                     \
    "'id', d.id, 'webhookId', d.webhook_id, 'eventId', e.id, 'eventType', e.type,"                 \
    " 'sandboxId', d.sandbox_id, 'status', d.state, 'attempts', d.attempts,"                       \
    " 'responseStatus', nullif(d.status, 0), 'error', d.error,"                                    \
    " 'createdAt', " STAMP("d.created_ms") ", 'lastAttemptAt', " STAMP(                            \
        "d.last_ms") ","                                                                           \
                     " 'nextAttemptAt', CASE d.state WHEN 'pending' THEN " STAMP(                  \
                         "d.next_ms") " END"
#define PLAIN "SELECT json_object(" FIELDS ")"
#define WHOLE "SELECT json_object(" FIELDS ", 'event', json(e.body))"
#define OF_ONE                                                                                     \
    " FROM deliveries d LEFT JOIN events e ON e.seq = d.event_seq WHERE d.webhook_id = ?1"
#define PAGE " LIMIT ?2 OFFSET ?3"

/* [with events][ascending] */
static const struct store_statement history[2][2] = {
    {{.what = "list deliveries", .sql = PLAIN OF_ONE " ORDER BY d.seq DESC" PAGE},
     {.what = "list deliveries", .sql = PLAIN OF_ONE " ORDER BY d.seq" PAGE}},
    {{.what = "list deliveries", .sql = WHOLE OF_ONE " ORDER BY d.seq DESC" PAGE},
     {.what = "list deliveries", .sql = WHOLE OF_ONE " ORDER BY d.seq" PAGE}},
};

void store_deliveries_list(struct store *store, const struct deliveries_query *query,
                           store_text *done, void *ctx)
{
    struct store_job *job = store_job_new(&history[query->with_events][query->ascending]);

    store_job_text(job, query->webhook_id);
    store_job_int(job, query->limit);
    store_job_int(job, query->offset);
    store_read_array(store, job, done, ctx);
}
