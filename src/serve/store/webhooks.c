#include <stdlib.h>
#include <string.h>

#include "lib/base/alloc.h"
#include "lib/base/str.h"
#include "serve/store/internal.h"

#define COLUMNS "id, team_id, name, url, events, secret, enabled, created_ms"

static const struct store_statement save = {
    "save webhook",
    "INSERT INTO webhooks (" COLUMNS ") VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
    " ON CONFLICT (id) DO UPDATE SET name = excluded.name, url = excluded.url,"
    " events = excluded.events, secret = excluded.secret, enabled = excluded.enabled",
};

static const struct store_statement forget = {"delete webhook",
                                              "DELETE FROM webhooks WHERE id = ?"};

void store_webhook_save(struct store *store, const struct webhook_row *row, store_done *done,
                        void *ctx)
{
    struct store_job *job = store_job_new(&save);

    store_job_text(job, row->id);
    store_job_text(job, row->team_id);
    store_job_text(job, row->name);
    store_job_text(job, row->url);
    store_job_text(job, row->events);
    store_job_text(job, row->secret);
    store_job_int(job, row->enabled);
    store_job_int(job, row->created_ms);
    store_submit(store, job, STORE_SYNC, done, ctx);
}

void store_webhook_delete(struct store *store, const char *id, store_done *done, void *ctx)
{
    struct store_job *job = store_job_new(&forget);

    store_job_text(job, id);
    store_submit(store, job, STORE_SYNC, done, ctx);
}

struct load {
    void (*each)(void *ctx, const struct webhook_row *row);
    void *ctx;
};

static void on_row(void *ctx, sqlite3_stmt *row)
{
    const struct load *load = ctx;
    struct webhook_row out = {
        .id = store_column_text(row, 0),
        .team_id = store_column_text(row, 1),
        .name = store_column_text(row, 2),
        .url = store_column_text(row, 3),
        .events = store_column_text(row, 4),
        .secret = store_column_text(row, 5),
        .enabled = sqlite3_column_int64(row, 6) != 0,
        .created_ms = sqlite3_column_int64(row, 7),
    };

    load->each(load->ctx, &out);
}

int store_load_webhooks(struct store *store, void (*each)(void *ctx, const struct webhook_row *row),
                        void *ctx, struct err *err)
{
    struct load load = {each, ctx};

    return store_query(store, "SELECT " COLUMNS " FROM webhooks ORDER BY created_ms, id", on_row,
                       &load, err);
}

/* ---- deliveries ---- */

static const struct store_statement pending = {
    "read deliveries",
    "SELECT seq, event_seq, created_ms, next_ms, attempts, id, sandbox_id FROM deliveries"
    " WHERE webhook_id = ?1 AND state = 'pending' AND seq > ?2 ORDER BY seq LIMIT ?3",
};

struct owed {
    struct delivery *all;
    size_t n, cap;
    store_deliveries *done;
    void *ctx;
};

static void on_owed(void *ctx, sqlite3_stmt *row)
{
    struct owed *owed = ctx;

    if (owed->n == owed->cap) {
        return; /* SQL's LIMIT is the same */
    }
    struct delivery *one = &owed->all[owed->n];
    one->seq = sqlite3_column_int64(row, 0);
    one->event_seq = sqlite3_column_int64(row, 1);
    one->created_ms = sqlite3_column_int64(row, 2);
    one->next_ms = sqlite3_column_int64(row, 3);
    one->attempts = sqlite3_column_int64(row, 4);
    if (str_copy(one->id, sizeof(one->id), str_of(store_column_text(row, 5))) &&
        str_copy(one->sandbox_id, sizeof(one->sandbox_id), str_of(store_column_text(row, 6)))) {
        owed->n++;
    }
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

static const struct store_statement mark_one = {
    "save delivery",
    "UPDATE deliveries SET state = ?2, attempts = ?3, next_ms = ?4, last_ms = ?5, status = ?6,"
    " error = ?7 WHERE seq = ?1",
};

void store_delivery_mark(struct store *store, const struct delivery_mark *mark, store_done *done,
                         void *ctx)
{
    struct store_job *job = store_job_new(&mark_one);

    store_job_int(job, mark->seq);
    store_job_text(job, mark->state);
    store_job_int(job, mark->attempts);
    store_job_int(job, mark->next_ms);
    store_job_int(job, mark->last_ms);
    store_job_int(job, mark->status);
    store_job_text(job, mark->error);
    store_submit(store, job, STORE_LAZY, done, ctx);
}

#define STAMP(column)                                                                              \
    "CASE WHEN " column " THEN strftime('%Y-%m-%dT%H:%M:%fZ', " column " / 1000.0, 'unixepoch') "  \
    "END"
#define HISTORY                                                                                    \
    "SELECT json_object('id', d.id, 'webhookId', d.webhook_id, 'eventId', e.id,"                   \
    " 'eventType', e.type, 'sandboxId', d.sandbox_id, 'status', d.state,"                          \
    " 'attempts', d.attempts, 'responseStatus', nullif(d.status, 0), 'error', d.error,"            \
    " 'createdAt', " STAMP("d.created_ms") ", 'lastAttemptAt', " STAMP(                            \
        "d.last_ms") ","                                                                           \
                     " 'nextAttemptAt', CASE d.state WHEN 'pending' THEN " STAMP(                  \
                         "d.next_ms") " END)"                                                      \
                                      " FROM deliveries d LEFT JOIN events e ON e.seq = "          \
                                      "d.event_seq WHERE d.webhook_id = ?1"

static const struct store_statement history[2] = {
    {"list deliveries", HISTORY " ORDER BY d.seq DESC LIMIT ?2 OFFSET ?3"},
    {"list deliveries", HISTORY " ORDER BY d.seq LIMIT ?2 OFFSET ?3"},
};

void store_deliveries_list(struct store *store, const char *webhook_id, int64_t offset,
                           int64_t limit, bool ascending, store_text *done, void *ctx)
{
    struct store_job *job = store_job_new(&history[ascending]);

    store_job_text(job, webhook_id);
    store_job_int(job, limit);
    store_job_int(job, offset);
    store_read_array(store, job, done, ctx);
}
